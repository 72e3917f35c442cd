package docker

import (
	"context"
	"fmt"
	"sync"
	"syscall"

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

// forged has the containers with such a label, by ID. What their signals are, is not known. So each
// of a run counts as part of a stop: the first one as the stop signal, later ones as KILL.
type forged struct {
	stopSignal func(id string) int // asks the engine

	mu  sync.Mutex
	ids map[string]*forgedRun
}

type forgedRun struct {
	stopSignal int // 0: not asked yet
	signalled  bool
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
	f.ids = map[string]*forgedRun{}
	for _, c := range all {
		if _, has := c.Labels[signalLabel]; has { // an engine may know no filter
			f.ids[c.ID] = &forgedRun{}
		}
	}
	return nil
}

// again returns a forged that reads events of the past once more.
func (f *forged) again() *forged {
	f.mu.Lock()
	defer f.mu.Unlock()
	g := &forged{stopSignal: f.stopSignal, ids: make(map[string]*forgedRun, len(f.ids))}
	for id, run := range f.ids {
		g.ids[id] = &forgedRun{stopSignal: run.stopSignal}
	}
	return g
}

// translate is the function translate, but for the signals of such containers.
func (f *forged) translate(m events.Message) (runtime.Event, bool) {
	ev, ok := translate(m)
	if !ok || m.Type != events.ContainerEventType {
		return ev, ok
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	run := f.ids[ev.ID]
	if _, shown := m.Actor.Attributes[signalLabel]; run == nil && shown && ev.Action != runtime.ActionKill {
		if f.ids == nil {
			f.ids = map[string]*forgedRun{}
		}
		run = &forgedRun{}
		f.ids[ev.ID] = run
	}
	if run == nil {
		return ev, true
	}
	switch ev.Action {
	case runtime.ActionStart:
		run.signalled = false
	case runtime.ActionDestroy:
		delete(f.ids, ev.ID)
	case runtime.ActionKill:
		if ev.Signal = int(syscall.SIGKILL); !run.signalled {
			if run.stopSignal == 0 {
				run.stopSignal = f.stopSignal(ev.ID)
			}
			run.signalled, ev.Signal = true, run.stopSignal
		}
	}
	return ev, true
}

// stopSignal returns the signal that a stop of the container begins with, or TERM when the engine does
// not tell.
func (e *Engine) stopSignal(id string) int {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	if c, err := e.Inspect(ctx, id); err == nil {
		return c.StopSignalNumber()
	}
	return int(syscall.SIGTERM)
}
