package supervisor

import (
	"errors"
	"strings"

	"healthd/runtime"
	"healthd/supervisor/core"
)

// ErrUnknownName is why Select finds nothing.
var ErrUnknownName = errors.New("no supervised container, service or project has that name or ID")

// Select returns the containers that a person means by a name, sorted by name: the container of that
// name, or else the service's, or else the Compose project's. The beginning of an ID comes last: a
// service may be called "cafe". The error is ErrUnknownName, an *AmbiguousNameError or an
// *AmbiguousServiceError.
func (b *Board) Select(name string) ([]*core.View, error) {
	v, err := b.Find(name)
	if _, ambiguous := errors.AsType[*AmbiguousNameError](err); ambiguous {
		return nil, err
	}
	if v != nil && !byIDPrefix(v, name) {
		return []*core.View{v}, nil
	}
	if runtime.IsFullID(name) { // a service or project named so would get what is meant for a container
		return nil, ErrUnknownName
	}
	_, members, err := b.FindService(name)
	if !errors.Is(err, ErrUnknownService) {
		return members, err
	}
	if members := b.ofProject(name); len(members) > 0 {
		return members, nil
	}
	if v != nil {
		return []*core.View{v}, nil
	}
	return nil, ErrUnknownName
}

// byIDPrefix says that Find has found v by the beginning of its ID.
func byIDPrefix(v *core.View, name string) bool {
	c := v.Container
	return c.Name != name && c.ID != name && strings.HasPrefix(c.EngineID(), name)
}

// ofProject returns the containers of a Compose project.
func (b *Board) ofProject(name string) []*core.View {
	if name == "" {
		return nil
	}
	return b.sorted(func(v *core.View) bool { return core.ProjectOf(v.Container.Labels) == name })
}
