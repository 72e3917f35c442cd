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
	// Docker remembers 256 events. The newest are missing from an answer when they came
	// after we asked, or are later by a clock that is a little ahead of ours.
	fullFrom   = 200
	killsMax   = 256
	infoTries  = 3
	clockSlack = time.Second

	// Podman rounds times, and reads them from a log without end.
	roundMax = time.Millisecond
)

// Recall says what the engine remembers of its events.
func (e *Engine) EventHistory(ctx context.Context, at time.Time) (runtime.EventHistory, error) {
	var m runtime.EventHistory
	answered, err := e.past(ctx, at.Add(-roundMax), at.Add(roundMax), func(t time.Time) bool {
		m.HasEvent = t.Equal(at)
		return !m.HasEvent
	})
	if m.HasEvent && !answered.IsZero() && at.After(answered.Add(2*clockSlack)) {
		return runtime.EventHistory{Full: true}, err // its clock was set back: what came since is older
	}
	if err != nil || m.HasEvent {
		return m, err
	}
	now, n := time.Now(), 0
	answered, err = e.past(ctx, time.Unix(1, 0), now, func(t time.Time) bool {
		if n++; m.Oldest.IsZero() || t.Before(m.Oldest) {
			m.Oldest = t
		}
		return n < fullFrom && m.Oldest.After(at)
	})
	m.Full = n >= fullFrom || answered.After(now.Add(clockSlack))
	if err == nil && m.Oldest.After(at) && !m.Full {
		m.LiveRestore, err = e.liveRestore(ctx)
	}
	return m, err
}

// liveRestore says whether the engine has that setting. A socket proxy that refuses to
// tell stands before an engine without it, as most are; of one that merely fails to
// answer nothing is known.
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
			return false, fmt.Errorf("cannot ask whether the engine has live-restore: %w", e.failure(err))
		}
	}
}

// Kills returns the kill events of a container since then that the engine remembers.
func (e *Engine) KillEvents(ctx context.Context, id string, since time.Time) ([]runtime.Event, error) {
	ctx, cancel := context.WithCancel(ctx) // ends the client's reader
	defer cancel()
	c, err := e.client(ctx)
	if err != nil {
		return nil, err
	}
	messages, errs := c.Events(ctx, events.ListOptions{
		Since: stamp(since), Until: stamp(time.Now()),
		Filters: filters.NewArgs(filters.Arg("container", id), filters.Arg("event", string(runtime.ActionKill))),
	})
	var kills []runtime.Event
	for {
		select {
		case m := <-messages:
			if ev, ok := translate(m); ok && ev.Action == runtime.ActionKill && ev.ID == id {
				kills = append(kills, ev)
			}
			if len(kills) == killsMax {
				return kills, nil
			}
		case err := <-errs:
			if err != nil && !errors.Is(err, io.EOF) {
				return nil, fmt.Errorf("cannot ask for past signals: %w", e.failure(err))
			}
			return kills, nil
		}
	}
}

// past calls yield with the times of the engine's events between the two moments,
// oldest first, until it returns false. It returns when the engine answered by its own
// clock, to the second; zero when it does not say.
func (e *Engine) past(ctx context.Context, from, to time.Time, yield func(time.Time) bool) (answered time.Time, err error) {
	// Ended here, the connection of an answer that is not read to its end is closed.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c, err := e.client(ctx)
	if err != nil {
		return time.Time{}, err
	}
	resp, err := e.do(ctx, c, http.MethodGet, "/events?"+url.Values{"since": {stamp(from)}, "until": {stamp(to)}}.Encode(), nil)
	if err != nil {
		return time.Time{}, fmt.Errorf("cannot ask for past events: %w", e.failure(err))
	}
	defer resp.Body.Close()
	answered, _ = http.ParseTime(resp.Header.Get("Date"))
	for all := json.NewDecoder(resp.Body); ; {
		var ev struct{ Time, TimeNano int64 }
		if err := all.Decode(&ev); errors.Is(err, io.EOF) {
			return answered, nil
		} else if err != nil {
			return answered, fmt.Errorf("cannot read past events: %w", e.failure(err))
		}
		if !yield(eventTime(ev.Time, ev.TimeNano)) {
			return answered, nil
		}
	}
}

// stamp writes a time as the engine reads it.
func stamp(t time.Time) string { return fmt.Sprintf("%d.%09d", t.Unix(), t.Nanosecond()) }

// eventTime reads the time of an event; the nanoseconds may be missing.
func eventTime(seconds, nanoseconds int64) time.Time {
	if nanoseconds == 0 {
		return time.Unix(seconds, 0)
	}
	return time.Unix(0, nanoseconds)
}
