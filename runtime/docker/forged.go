package docker

import (
	"context"
	"fmt"
	"sync"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/events"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/client"

	"healthd/runtime"
)

// signalLabel is an attribute of a kill event. Docker writes the container's labels over its own
// attributes, so a label of that name says instead what the signal was: 28 would make an operator's
// stop look like a change of a window's size, and healthd would start the container again.
const signalLabel = "signal"

// forged has the containers with such a label, by ID. What their signals are, is not known.
type forged struct {
	mu  sync.Mutex
	ids map[string]bool
}

// learn asks the engine which containers have the label. Later ones show it in their events.
func (f *forged) learn(ctx context.Context, c *client.Client) error {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	all, err := c.ContainerList(ctx, container.ListOptions{All: true, Filters: filters.NewArgs(filters.Arg("label", signalLabel))})
	switch {
	case isRefused(err): // by a proxy: then healthd sees no container either
		return nil
	case err != nil:
		return fmt.Errorf("cannot list containers: %w", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ids = map[string]bool{}
	for _, c := range all {
		if _, has := c.Labels[signalLabel]; has { // an engine may know no filter
			f.ids[c.ID] = true
		}
	}
	return nil
}

// hear is read for news, which show what containers have the label.
func (f *forged) hear(m events.Message) (runtime.Event, bool) {
	ev, ok := f.read(m)
	if !ok || m.Type != events.ContainerEventType {
		return ev, ok
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	_, shown := m.Actor.Attributes[signalLabel]
	switch {
	case ev.Action == runtime.ActionDestroy:
		delete(f.ids, ev.ID)
	case shown && ev.Action != runtime.ActionKill:
		if f.ids == nil {
			f.ids = map[string]bool{}
		}
		f.ids[ev.ID] = true
	}
	return ev, true
}

// read is translate, but for the signals of such containers.
func (f *forged) read(m events.Message) (runtime.Event, bool) {
	ev, ok := translate(m)
	f.mu.Lock()
	defer f.mu.Unlock()
	if ev.Action == runtime.ActionKill && f.ids[ev.ID] {
		ev.Signal = runtime.UnknownSignal
	}
	return ev, ok
}
