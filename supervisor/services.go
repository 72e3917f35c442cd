package supervisor

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"healthd/supervisor/core"
)

// ErrUnknownService is why a service is not found: no supervised container is published under it.
var ErrUnknownService = errors.New("no supervised container belongs to that service")

// AmbiguousServiceError says that a name stands for several services.
type AmbiguousServiceError struct {
	Candidates []string // their full names, sorted
}

// Error implements error.
func (e *AmbiguousServiceError) Error() string {
	return "several services have that name: " + someOf(e.Candidates)
}

// services finds services by their name, of which a part may be left out. One goroutine writes it, any
// may read it.
type services struct {
	byPart  table[string, []service] // by the last part of the name, sorted by name; the slices never change
	members map[service]int          // how many containers; the writer's own
}

// service is a service's name, and what it is worth.
type service struct {
	name  string
	owned bool // see core.Publish
}

func serviceOf(v *core.View) service {
	if v == nil || v.Service == "" {
		return service{}
	}
	return service{v.Service, v.Spec != nil && v.Spec.Publish.Owned}
}

// move takes a container out of one service and into another; the zero service is none.
func (s *services) move(from, to service) {
	if from == to {
		return
	}
	if s.members == nil {
		s.members = map[service]int{}
	}
	if to.name != "" {
		s.members[to]++
		if s.members[to] == 1 {
			s.store(to.part(), append(slices.Clone(s.of(to.part())), to))
		}
	}
	if from.name != "" {
		s.members[from]--
		if s.members[from] == 0 {
			delete(s.members, from)
			s.store(from.part(), slices.DeleteFunc(slices.Clone(s.of(from.part())), func(o service) bool { return o == from }))
		}
	}
}

func (s *services) of(part string) []service {
	all, _ := s.byPart.get(part)
	return all
}

func (s *services) store(part string, all []service) {
	if len(all) == 0 {
		s.byPart.remove(part)
		return
	}
	sortServices(all)
	s.byPart.set(part, all)
}

func sortServices(all []service) {
	slices.SortFunc(all, func(x, y service) int { return cmp.Compare(x.name, y.name) })
}

// find is findService among all.
func (s *services) find(name string) (string, error) { return findService(name, s.of(lastPart(name))) }

// findService returns the full name of the service called name, among those with its last part: the one of that name if it has a project or
// a file gives it, else the only one of which that is the last part. The error is ErrUnknownService
// or an *AmbiguousServiceError.
func findService(name string, all []service) (string, error) {
	exactly := strings.Contains(name, "/")
	var candidates []string
	for _, o := range all {
		if o.name == name && (exactly || o.owned) {
			return name, nil
		}
		if !exactly && !slices.Contains(candidates, o.name) {
			candidates = append(candidates, o.name)
		}
	}
	switch len(candidates) {
	case 0:
		return "", ErrUnknownService
	case 1:
		return candidates[0], nil
	}
	return "", &AmbiguousServiceError{candidates}
}

func (s service) part() string { return lastPart(s.name) }

func lastPart(name string) string { return name[strings.LastIndexByte(name, '/')+1:] }

// isMember says whether what is published under a service is meant by that name of one, which may be its last part
// alone: somebody who also says which container it is need not say which project.
func isMember(service, name string) bool {
	return service != "" && (service == name || lastPart(service) == name)
}

// FindService returns the full name of a service and its containers on this host, sorted by name. Its name is
// PROJECT/NAME or NAME. NAME alone stands for PROJECT/NAME while there is no other such service; one
// that a file calls just NAME comes before all others. The error is ErrUnknownService or an
// *AmbiguousServiceError.
func (b *Board) FindService(name string) (full string, members []*core.View, err error) {
	full, err = b.services.find(name)
	if err != nil {
		return "", nil, err
	}
	members = b.sorted(func(v *core.View) bool { return v.Service == full })
	if len(members) == 0 { // gone since
		return "", nil, ErrUnknownService
	}
	return full, members, nil
}
