package docker

import (
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
// the newest 256, and all that follow, until ctx ends.
func (e *Engine) Subscribe(ctx context.Context, since time.Time) (runtime.Stream, error) {
	if err := e.renew(ctx); err != nil {
		return nil, err
	}
	c, err := e.client(ctx)
	if err != nil {
		return nil, err
	}
	s := &stream{}
	s.messages, s.errs = c.Events(ctx, events.ListOptions{
		// The engine answers before it has subscribed, so even a subscription from
		// now on needs a beginning.
		Since:   stamp(since),
		Filters: eventFilter(),
	})
	select {
	case err := <-s.errs:
		return nil, fmt.Errorf("cannot subscribe to events: %w", e.failure(err))
	default:
		return s, nil
	}
}

// eventFilter leaves out two of the three events that every exec makes, HEALTHCHECKs
// included.
func eventFilter() filters.Args {
	f := filters.NewArgs(filters.Arg("type", "container"), filters.Arg("type", "network"))
	for _, a := range []runtime.Action{
		runtime.ActionCreate, runtime.ActionStart, runtime.ActionKill, runtime.ActionDie, runtime.ActionStop,
		runtime.ActionOOM, runtime.ActionPause, runtime.ActionUnpause, runtime.ActionRename, runtime.ActionUpdate,
		runtime.ActionDestroy, runtime.ActionExec, "connect", "disconnect",
	} {
		f.Add("event", string(a))
	}
	return f
}

type stream struct {
	messages <-chan events.Message
	errs     <-chan error
}

// Next waits for the next event of a container.
func (s *stream) Next() (runtime.Event, error) {
	for {
		select {
		case m := <-s.messages:
			if ev, ok := translate(m); ok {
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

// translate says whether m is about a container.
func translate(m events.Message) (runtime.Event, bool) {
	ev := runtime.Event{ID: m.Actor.ID, Action: runtime.Action(m.Action), Time: eventTime(m.Time, m.TimeNano)}
	attrs := m.Actor.Attributes
	if m.Type == events.NetworkEventType {
		ev.ID, ev.Action = attrs["container"], runtime.ActionNetwork
		return ev, ev.ID != "" && (m.Action == events.ActionConnect || m.Action == events.ActionDisconnect)
	}
	// Numbers that are not there are zero, which is what the fields promise.
	ev.Signal, _ = strconv.Atoi(attrs["signal"])
	ev.ExitCode, _ = strconv.Atoi(attrs["exitCode"])
	ev.Name = attrs["name"]
	ev.Labels = maps.Clone(attrs)
	maps.DeleteFunc(ev.Labels, func(k, _ string) bool { return isAttribute(k) })
	return ev, ev.ID != ""
}

// isAttribute tells the engine's attributes of an event from the container's
// labels, which come with them.
func isAttribute(key string) bool {
	switch key {
	case "name", "image", "signal", "exitCode", "execDuration", "execID", "oldName", "containerExitCode", "podId":
		return true
	}
	return false
}
