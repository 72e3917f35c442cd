package supervisor

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"healthd/runtime"
	"healthd/supervisor/core"
)

// names finds containers by their name. Docker gives a name to one container at a time, but
// for a moment an old and a new one may both have it; then it means the newer one. Containers
// of several runtimes or namespaces, or of an engine where names are labels, may have one name
// for long: it means none of them. See runtime.NamesAmong for what tells them apart.
type names struct {
	slots table[string, []*slot] // by name, newest last; the slices never change
}

// ErrOtherService is why a name is not found in a service: its container is not published there.
var ErrOtherService = errors.New("the container of that name is not published under that service")

// AmbiguousNameError says that a name stands for several containers.
type AmbiguousNameError struct {
	Candidates []string // names that have one meaning, sorted
}

// Error implements error.
func (e *AmbiguousNameError) Error() string {
	return "several containers have that name: " + someOf(e.Candidates)
}

// someOf lists names for people, not all of those that many containers may have.
func someOf(names []string) string {
	const most = 10
	if more := len(names) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), more)
	}
	return strings.Join(names, ", ")
}

// ReasonNotFound returns the reason, in one word and what helps, for an error of Board.Find,
// FindMember or FindService, for load balancers; empty for nil.
func ReasonNotFound(err error) string {
	if err == nil {
		return ""
	}
	if ambiguous, ok := errors.AsType[*AmbiguousNameError](err); ok {
		return "AmbiguousName: " + someOf(ambiguous.Candidates)
	}
	if ambiguous, ok := errors.AsType[*AmbiguousServiceError](err); ok {
		return "AmbiguousService: " + someOf(ambiguous.Candidates)
	}
	if errors.Is(err, ErrOtherService) {
		return "OtherService"
	}
	return "UnknownContainer"
}

// NamesAmong returns a name for each of views, by which FindMember finds it if they are a
// service's. See runtime.NamesAmong.
func NamesAmong(views []*core.View) []string {
	containers := make([]*runtime.Container, len(views))
	for i, v := range views {
		containers[i] = v.Container
	}
	return runtime.NamesAmong(containers)
}

func (n *names) of(name string) []*slot {
	slots, _ := n.slots.get(name)
	return slots
}

// take gives a name to s.
func (n *names) take(name string, s *slot) {
	n.slots.set(name, append(slices.Clip(n.of(name)), s))
}

// release takes it away again.
func (n *names) release(name string, s *slot) {
	others := slices.DeleteFunc(slices.Clone(n.of(name)), func(o *slot) bool { return o == s })
	if len(others) == 0 {
		n.slots.remove(name)
		return
	}
	n.slots.set(name, others)
}

// find returns the containers of that name, the newest of each holder. A name with a colon may be
// qualified.
func (n *names) find(name string) []*core.View {
	slots := n.of(name)
	if i := strings.LastIndexByte(name, ':'); len(slots) == 0 && i >= 0 {
		slots = slices.DeleteFunc(slices.Clone(n.of(name[i+1:])), func(s *slot) bool {
			return s.view.Load().Container.QualifiedName() != name
		})
	}
	if len(slots) == 1 {
		return []*core.View{slots[0].view.Load()}
	}
	newest := map[string]*core.View{}
	for _, s := range slots {
		v := s.view.Load()
		newest[v.Container.Holder()] = v
	}
	found := make([]*core.View, 0, len(newest))
	for _, v := range newest {
		found = append(found, v)
	}
	return found
}

// only returns the only one of views, and otherwise why there is none.
func only(views []*core.View) (*core.View, error) {
	switch len(views) {
	case 0:
		return nil, ErrUnknownContainer
	case 1:
		return views[0], nil
	}
	e := &AmbiguousNameError{Candidates: NamesAmong(views)}
	slices.Sort(e.Candidates)
	return nil, e
}
