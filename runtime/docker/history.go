package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/events"
	"github.com/docker/docker/api/types/filters"

	"healthd/runtime"
)

const (
	// fullAtLeast is how many events make the history count as full. Docker keeps 256,
	// but an answer misses those that came after the request, or that are in the future
	// by healthd's clock.
	fullAtLeast   = 200
	killEventsMax = 256
	infoTries     = 3
	clockSlack    = time.Second

	// timeRounding is how much Podman rounds the times of events. Its history is a log
	// file without a limit.
	timeRounding = time.Millisecond
)

// EventHistory returns which past events the engine has. LiveRestore is only asked for
// when the answer depends on it: all events are newer than at.
func (e *Engine) EventHistory(ctx context.Context, at time.Time) (runtime.EventHistory, error) {
	var h runtime.EventHistory
	answered, err := e.pastEvents(ctx, at.Add(-timeRounding), at.Add(timeRounding), func(t time.Time) bool {
		h.HasEvent = t.Equal(at)
		return !h.HasEvent
	})
	if h.HasEvent && !answered.IsZero() && at.After(answered.Add(2*clockSlack)) {
		return runtime.EventHistory{Full: true}, err // its clock was set back: newer events have older times
	}
	if err != nil || h.HasEvent {
		return h, err
	}
	now, n := time.Now(), 0
	answered, err = e.pastEvents(ctx, time.Unix(1, 0), now, func(t time.Time) bool {
		if n++; h.Oldest.IsZero() || t.Before(h.Oldest) {
			h.Oldest = t
		}
		return n < fullAtLeast && h.Oldest.After(at)
	})
	h.Full = n >= fullAtLeast || answered.After(now.Add(clockSlack))
	if err == nil && h.Oldest.After(at) && !h.Full {
		h.LiveRestore, err = e.liveRestore(ctx)
	}
	return h, err
}

// liveRestore says whether the engine has that setting on. Where a socket proxy forbids
// the question, it is taken for off, Docker's default.
func (e *Engine) liveRestore(ctx context.Context) (bool, error) {
	c, err := e.client(ctx)
	if err != nil {
		return false, err
	}
	for try := 1; ; try++ {
		info, err := c.Info(ctx)
		switch {
		case err == nil:
			return info.LiveRestoreEnabled, nil
		case errdefs.IsPermissionDenied(err), errdefs.IsUnauthorized(err), errdefs.IsNotFound(err), errdefs.IsNotImplemented(err):
			return false, nil
		case try == infoTries || ctx.Err() != nil:
			return false, fmt.Errorf("cannot ask whether the engine has live-restore: %w", e.explain(err))
		}
	}
}

// KillEvents returns the kill events of a container since the given moment that the
// engine still has, at most killEventsMax.
func (e *Engine) KillEvents(ctx context.Context, id string, since time.Time) ([]runtime.Event, error) {
	ctx, cancel := context.WithCancel(ctx) // ends the client's reader
	defer cancel()
	c, err := e.client(ctx)
	if err != nil {
		return nil, err
	}
	messages, errs := c.Events(ctx, events.ListOptions{
		Since: formatTime(since), Until: formatTime(time.Now()),
		Filters: filters.NewArgs(filters.Arg("container", id), filters.Arg("event", string(runtime.ActionKill))),
	})
	var found []runtime.Event
	for {
		select {
		case m := <-messages:
			if ev, ok := translate(m); ok && ev.Action == runtime.ActionKill && ev.ID == id {
				found = append(found, ev)
			}
			if len(found) == killEventsMax {
				return found, nil
			}
		case err := <-errs:
			if err != nil && !errors.Is(err, io.EOF) {
				return nil, fmt.Errorf("cannot ask for past signals: %w", e.explain(err))
			}
			return found, nil
		}
	}
}

// pastEvents calls yield with the times of the engine's events between the two moments,
// oldest first, until yield returns false. answered is the time of the answer by the
// engine's clock, to the second; zero when the answer has none.
func (e *Engine) pastEvents(ctx context.Context, from, to time.Time, yield func(time.Time) bool) (answered time.Time, err error) {
	// Cancelling closes the connection of an answer that was not read to its end.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c, err := e.client(ctx)
	if err != nil {
		return time.Time{}, err
	}
	resp, err := e.do(ctx, c, http.MethodGet, "/events?"+url.Values{"since": {formatTime(from)}, "until": {formatTime(to)}}.Encode(), nil)
	if err != nil {
		return time.Time{}, fmt.Errorf("cannot ask for past events: %w", e.explain(err))
	}
	defer resp.Body.Close()
	answered, _ = http.ParseTime(resp.Header.Get("Date"))
	for all := json.NewDecoder(resp.Body); ; {
		var ev struct{ Time, TimeNano int64 }
		if err := all.Decode(&ev); errors.Is(err, io.EOF) {
			return answered, nil
		} else if err != nil {
			return answered, fmt.Errorf("cannot read past events: %w", e.explain(err))
		}
		if !yield(eventTime(ev.Time, ev.TimeNano)) {
			return answered, nil
		}
	}
}

// formatTime formats a time for the engine's since and until.
func formatTime(t time.Time) string { return fmt.Sprintf("%d.%09d", t.Unix(), t.Nanosecond()) }

// eventTime returns the time of an event; nanoseconds may be 0 for "not given".
func eventTime(seconds, nanoseconds int64) time.Time {
	if nanoseconds == 0 {
		return time.Unix(seconds, 0)
	}
	return time.Unix(0, nanoseconds)
}
