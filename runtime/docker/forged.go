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

// Docker writes the container's labels over its own attributes of an event, so a label of such a name says instead what
// the signal or the exit code was: 28 would make an operator's stop look like a change of a window's size, and healthd
// would start the container again. An exit code of 1 would make it start a job again that succeeded.
const (
	signalLabel   = "signal"   // of a kill event
	exitCodeLabel = "exitCode" // of a die event
)

// forged has the containers with such labels, by ID. What their events would say there is not known.
type forged struct {
	mu  sync.Mutex
	ids map[string]forgery
}

// forgery is which of the labels a container has.
type forgery struct{ signal, exitCode bool }

// forgeryOf returns what an event, or a list, shows of a container's labels. The engine itself writes signals into
// kill events, and exit codes into those of ends and of execs.
func forgeryOf(labels map[string]string, in runtime.Action) forgery {
	_, signal := labels[signalLabel]
	_, exitCode := labels[exitCodeLabel]
	return forgery{signal && in != runtime.ActionKill, exitCode && in != runtime.ActionDie && in != runtime.ActionExec}
}

// learn asks the engine which containers have the labels. Later ones show them in their events.
func (f *forged) learn(ctx context.Context, c *client.Client) error {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	ids := map[string]forgery{}
	for _, label := range []string{signalLabel, exitCodeLabel} {
		all, err := c.ContainerList(ctx, container.ListOptions{All: true, Filters: filters.NewArgs(filters.Arg("label", label))})
		switch {
		case isRefused(err): // by a proxy: then healthd sees no container either
			return nil
		case err != nil:
			return fmt.Errorf("cannot list containers: %w", err)
		}
		for _, c := range all {
			if has := forgeryOf(c.Labels, ""); has != (forgery{}) { // an engine may know no filter
				ids[c.ID] = has
			}
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ids = ids
	return nil
}

// hear is read for news, which show what containers have the labels.
func (f *forged) hear(m events.Message) (runtime.Event, bool) {
	ev, ok := f.read(m)
	if !ok || m.Type != events.ContainerEventType {
		return ev, ok
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	shown := forgeryOf(m.Actor.Attributes, ev.Action)
	switch {
	case ev.Action == runtime.ActionDestroy:
		delete(f.ids, ev.ID)
	case shown != forgery{}:
		if f.ids == nil {
			f.ids = map[string]forgery{}
		}
		known := f.ids[ev.ID]
		f.ids[ev.ID] = forgery{shown.signal || known.signal, shown.exitCode || known.exitCode}
	}
	return ev, true
}

// read is translate, but for the signals and exit codes of such containers.
func (f *forged) read(m events.Message) (runtime.Event, bool) {
	ev, ok := translate(m)
	f.mu.Lock()
	defer f.mu.Unlock()
	switch has := f.ids[ev.ID]; {
	case ev.Action == runtime.ActionKill && has.signal:
		ev.Signal = runtime.UnknownSignal
	case ev.Action == runtime.ActionDie && has.exitCode:
		ev.ExitCode = 0 // an inspection shows it
	}
	return ev, ok
}
