package docker

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"strconv"
	"time"

	"github.com/docker/docker/api/types/events"
	"github.com/docker/docker/api/types/filters"

	"healthd/runtime"
)

// Subscribe returns the events since the given moment, of which the engine keeps
// the newest 256, and all later ones, until ctx ends. Those that it keeps from before come
// first: Docker would not find all that came since, if its clock was set back meanwhile. Podman
// has more, and tells only those since then.
func (e *Engine) Subscribe(ctx context.Context, since time.Time) (runtime.Stream, error) {
	if err := e.renewClient(ctx); err != nil {
		return nil, err
	}
	c, err := e.client(ctx)
	if err != nil {
		return nil, err
	}
	switch _, libpod, err := e.ping(ctx); {
	case err != nil:
		return nil, err
	case libpod == "":
		since = historyBegin
		if err := e.forged.learn(ctx, c); err != nil {
			return nil, fmt.Errorf("cannot subscribe to events: %w", e.explain(err))
		}
	default: // Podman has a log without a limit, and leaves out the event of that moment
		since = since.Add(-timeRounding)
	}
	e.learnRefused(ctx)
	s := &stream{forged: &e.forged}
	s.messages, s.errs = c.Events(ctx, events.ListOptions{
		// The engine answers before it has subscribed. Without Since, the events in
		// between would be lost.
		Since:   formatTime(since),
		Filters: eventFilter(),
	})
	select {
	case err := <-s.errs:
		return nil, fmt.Errorf("cannot subscribe to events: %w", e.explain(err))
	default:
		return s, nil
	}
}

// What Podman calls differently. Docker has no such events of containers.
const (
	podmanRemove = "remove"
	podmanExec   = "exec_died"
	podmanDie    = "died" // 4.3 knows it by this name in filters only
)

// eventFilter keeps one of the three events of an exec. Exec probes and HEALTHCHECKs
// cause most events of a host.
func eventFilter() filters.Args {
	f := filters.NewArgs(filters.Arg("type", "container"), filters.Arg("type", "network"))
	for _, a := range []runtime.Action{
		runtime.ActionCreate, runtime.ActionStart, runtime.ActionKill, runtime.ActionDie, runtime.ActionStop,
		runtime.ActionOOM, runtime.ActionPause, runtime.ActionUnpause, runtime.ActionRename, runtime.ActionUpdate,
		runtime.ActionDestroy, runtime.ActionExec, "connect", "disconnect", podmanRemove, podmanExec, podmanDie,
	} {
		f.Add("event", string(a))
	}
	return f
}

type stream struct {
	forged   *forged
	messages <-chan events.Message
	errs     <-chan error
}

// Next waits for the next event of a container.
func (s *stream) Next() (runtime.Event, error) {
	for {
		select {
		case m := <-s.messages:
			if ev, ok := s.forged.hear(m); ok {
				return ev, nil
			}
		case err := <-s.errs:
			if err == nil {
				err = io.EOF
			}
			return runtime.Event{}, err
		}
	}
}

// translate returns m as a runtime.Event, and false when m is about no container.
func translate(m events.Message) (runtime.Event, bool) {
	ev := runtime.Event{ID: m.Actor.ID, Action: runtime.Action(m.Action), Time: eventTime(m.Time, m.TimeNano)}
	attrs := m.Actor.Attributes
	if m.Type == events.NetworkEventType {
		ev.ID, ev.Action = cmp.Or(attrs["container"], ev.ID), runtime.ActionNetwork // Podman's actor is the container
		return ev, ev.ID != "" && (m.Action == events.ActionConnect || m.Action == events.ActionDisconnect)
	}
	switch ev.Action {
	case podmanRemove:
		ev.Action = runtime.ActionDestroy
	case podmanExec:
		ev.Action = runtime.ActionExec
	case podmanDie:
		ev.Action = runtime.ActionDie
	}
	// A missing number is 0, as the fields' comments say.
	ev.Signal, _ = strconv.Atoi(attrs["signal"])
	ev.ExitCode, _ = strconv.Atoi(attrs["exitCode"])
	ev.Name, ev.Image = attrs["name"], attrs["image"]
	ev.Labels = maps.Clone(attrs)
	maps.DeleteFunc(ev.Labels, func(k, _ string) bool { return isAttribute(k) })
	return ev, ev.ID != ""
}

// isAttribute says whether key is one of the engine's own attributes. Events have the
// container's labels in the same map.
func isAttribute(key string) bool {
	switch key {
	case "name", "image", "signal", "exitCode", "execDuration", "execID", "oldName", "containerExitCode", "podId":
		return true
	}
	return false
}
