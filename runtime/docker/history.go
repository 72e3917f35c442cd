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
	"github.com/docker/docker/api/types/network"

	"healthd/runtime"
)

const (
	// fullAtLeast is how many events make the history count as full. Docker keeps 256,
	// but an answer misses those that came after the request.
	fullAtLeast = 200
	// historyMax is how many events are read of a history. Podman's is a log file without
	// a limit.
	historyMax    = 1024
	killEventsMax = 256
	askTries      = 3

	// timeRounding is how much Podman rounds the times of events.
	timeRounding = time.Millisecond
	// historySilence ends the answer to a question for events of the engine's future, which
	// the engine keeps open. Those of its history come one after the other.
	historySilence = time.Second
)

// historyBegin is before all events. Asking for those since a later moment may hide events:
// after its clock was set back, Docker leaves out all before the newest one that is older.
var historyBegin = time.Unix(1, 0)

// Clock returns the present time by the engine's clock, to the second. For an engine that
// does not say, it is healthd's own.
func (e *Engine) Clock(ctx context.Context) (time.Time, error) {
	at, _, err := e.ping(ctx)
	return at, err
}

// ping returns the engine's time, and whether it is Podman.
func (e *Engine) ping(ctx context.Context) (at time.Time, podman bool, err error) {
	c, err := e.client(ctx)
	if err != nil {
		return time.Time{}, false, err
	}
	resp, err := e.doUnversioned(ctx, c, http.MethodGet, "/_ping", nil)
	switch {
	case isRefused(err):
		return time.Now(), false, nil
	case err != nil:
		return time.Time{}, false, fmt.Errorf("cannot ask for the engine's time: %w", e.explain(err))
	}
	resp.Body.Close()
	if at, err = http.ParseTime(resp.Header.Get("Date")); err != nil {
		at = time.Now()
	}
	return at, resp.Header.Get("Libpod-API-Version") != "", nil
}

// historyEnd returns a time up to which to ask for past events: now by the engine's clock.
// The engine keeps an answer open that is to end later.
func (e *Engine) historyEnd(ctx context.Context) (time.Time, error) {
	before := time.Now()
	at, err := e.Clock(ctx)
	end, now := at.Add(time.Second), time.Now()             // the engine tells its time to the second
	if err == nil && before.Before(end) && !at.After(now) { // the same clock
		return now, nil
	}
	return end, err
}

// EventHistory returns which past events the engine has. Began and LiveRestore are only
// asked for when the answer depends on them.
func (e *Engine) EventHistory(ctx context.Context, at time.Time) (runtime.EventHistory, error) {
	end, err := e.historyEnd(ctx)
	if err != nil {
		return runtime.EventHistory{}, err
	}
	from := at.Add(-timeRounding)
	for {
		h, n, err := e.searchHistory(ctx, from, end, at)
		switch {
		case err != nil, h.HasEvent:
			return runtime.EventHistory{HasEvent: h.HasEvent}, err
		case !from.Equal(historyBegin):
			// The short search finds no event that others with older times have followed.
			from = historyBegin
			continue
		}
		if h.Full = n >= fullAtLeast; h.Full {
			if h.Began, err = e.began(ctx); err != nil || !h.Began.After(at) || h.Began.After(end) {
				h.Began = time.Time{}
				return h, err
			}
		}
		if n > 0 {
			h.LiveRestore, err = e.liveRestore(ctx)
		}
		return h, err
	}
}

// began returns when the engine started, and zero when it does not tell. At each start Docker
// makes its default network anew, after it has stopped the containers that it found
// running and before it starts any. With live-restore it keeps the network while
// containers run. Podman's time is that of any look at its networks.
func (e *Engine) began(ctx context.Context) (time.Time, error) {
	c, err := e.client(ctx)
	if err != nil {
		return time.Time{}, err
	}
	if _, podman, err := e.ping(ctx); err != nil || podman {
		return time.Time{}, err
	}
	for try := 1; ; try++ {
		n, err := c.NetworkInspect(ctx, "bridge", network.InspectOptions{})
		switch {
		case err == nil:
			return n.Created, nil
		case isRefused(err): // or the engine has no such network
			return time.Time{}, nil
		case try == askTries || ctx.Err() != nil:
			return time.Time{}, fmt.Errorf("cannot ask when the engine started: %w", e.explain(err))
		}
	}
}

// searchHistory looks for the event of the moment at. n is how many others it has read.
func (e *Engine) searchHistory(ctx context.Context, from, end, at time.Time) (h runtime.EventHistory, n int, err error) {
	future := at.After(end) // its clock was set back: an answer that ends now has no events of before
	if future || !from.Equal(historyBegin) {
		end = at.Add(timeRounding)
	}
	err = e.pastEvents(ctx, from, end, future, nil, func(ev events.Message) bool {
		t := eventTime(ev.Time, ev.TimeNano)
		if n++; h.Oldest.IsZero() {
			h.Oldest = t
		}
		h.HasEvent = t.Equal(at)
		return !h.HasEvent && n < historyMax
	})
	return h, n, err
}

// isRefused says that something before the engine, such as a socket proxy, forbids a question.
func isRefused(err error) bool {
	return errdefs.IsPermissionDenied(err) || errdefs.IsUnauthorized(err) || errdefs.IsNotFound(err) || errdefs.IsNotImplemented(err)
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
		case isRefused(err):
			return false, nil
		case try == askTries || ctx.Err() != nil:
			return false, fmt.Errorf("cannot ask whether the engine has live-restore: %w", e.explain(err))
		}
	}
}

// KillEvents returns the kill events of one run that the engine still has, at most
// killEventsMax.
func (e *Engine) KillEvents(ctx context.Context, run runtime.Run) ([]runtime.Event, error) {
	end, err := e.historyEnd(ctx)
	if err != nil {
		return nil, err
	}
	filter := filters.NewArgs(filters.Arg("container", run.ID), filters.Arg("event", string(runtime.ActionKill)), filters.Arg("event", string(runtime.ActionStart)))
	kills := runtime.FindKillsOf(run, killEventsMax)
	err = e.pastEvents(ctx, historyBegin, end, false, &filter, func(m events.Message) bool {
		if ev, ok := translate(m); ok {
			kills.Add(ev)
		}
		return true
	})
	if err != nil {
		return nil, fmt.Errorf("cannot ask for past signals: %w", err)
	}
	return kills.Kills(), nil
}

// errSilence ends an answer that the engine keeps open.
var errSilence = errors.New("the engine has no more events")

// pastEvents calls yield with the engine's events between the two moments, oldest first,
// until yield returns false. open says that the second one is in the engine's future. filter
// may be nil.
func (e *Engine) pastEvents(ctx context.Context, from, to time.Time, open bool, filter *filters.Args, yield func(events.Message) bool) error {
	// Cancelling closes the connection of an answer that was not read to its end.
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	c, err := e.client(ctx)
	if err != nil {
		return err
	}
	query := url.Values{"since": {formatTime(from)}, "until": {formatTime(to)}}
	if filter != nil {
		text, err := filters.ToJSON(*filter)
		if err != nil {
			return err
		}
		query.Set("filters", text)
	}
	resp, err := e.do(ctx, c, http.MethodGet, "/events?"+query.Encode(), nil)
	if err != nil {
		return fmt.Errorf("cannot ask for past events: %w", e.explain(err))
	}
	defer resp.Body.Close()
	silence := time.AfterFunc(historySilence, func() {
		if open {
			cancel(errSilence)
		}
	})
	defer silence.Stop()
	for all := json.NewDecoder(resp.Body); ; {
		var ev events.Message
		switch err := all.Decode(&ev); {
		case errors.Is(err, io.EOF), err != nil && errors.Is(context.Cause(ctx), errSilence):
			return nil
		case err != nil:
			return fmt.Errorf("cannot read past events: %w", e.explain(err))
		}
		if !yield(ev) {
			return nil
		}
		silence.Reset(historySilence)
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
