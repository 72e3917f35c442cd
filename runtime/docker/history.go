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
	"github.com/docker/docker/api/types/system"

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

// ping returns the engine's time, and the version of its own API if it is Podman.
func (e *Engine) ping(ctx context.Context) (at time.Time, libpod string, err error) {
	c, err := e.client(ctx)
	if err != nil {
		return time.Time{}, "", err
	}
	resp, err := e.doUnversioned(ctx, c, http.MethodGet, "/_ping", nil)
	switch {
	case isRefused(err):
		return time.Now(), "", nil
	case err != nil:
		return time.Time{}, "", fmt.Errorf("cannot ask for the engine's time: %w", e.explain(err))
	}
	resp.Body.Close()
	if at, err = http.ParseTime(resp.Header.Get("Date")); err != nil {
		at = time.Now()
	}
	return at, resp.Header.Get("Libpod-API-Version"), nil
}

// historyEnd returns a time up to which to ask for past events: now by the engine's clock.
// The engine keeps an answer open that is to end later. libpod is what ping returns.
func (e *Engine) historyEnd(ctx context.Context) (end time.Time, libpod string, err error) {
	before := time.Now()
	at, libpod, err := e.ping(ctx)
	end, now := at.Add(time.Second), time.Now()             // the engine tells its time to the second
	if err == nil && before.Before(end) && !at.After(now) { // the same clock
		return now, libpod, nil
	}
	return end, libpod, err
}

// EventHistory returns which past events the engine has. Began and LiveRestore are only
// asked for when the answer depends on them.
func (e *Engine) EventHistory(ctx context.Context, at time.Time) (runtime.EventHistory, error) {
	end, libpod, err := e.historyEnd(ctx)
	if err != nil {
		return runtime.EventHistory{}, err
	}
	q := pastQuery{from: at.Add(-timeRounding), to: end, podman: libpod != ""}
	for {
		h, n, err := e.searchHistory(ctx, q, at)
		switch {
		case err != nil, h.HasEvent:
			return runtime.EventHistory{HasEvent: h.HasEvent}, err
		case !q.from.Equal(historyBegin):
			// The short search finds no event that others with older times have followed.
			q.from = historyBegin
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
	if _, libpod, err := e.ping(ctx); err != nil || libpod != "" {
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
func (e *Engine) searchHistory(ctx context.Context, q pastQuery, at time.Time) (h runtime.EventHistory, n int, err error) {
	q.open = at.After(q.to) // its clock was set back: an answer that ends now has no events of before
	if q.open || !q.from.Equal(historyBegin) {
		q.to = at.Add(timeRounding)
	}
	err = e.pastEvents(ctx, q, func(ev events.Message) bool {
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
	return errors.Is(err, runtime.ErrRefused) || errdefs.IsPermissionDenied(err) || errdefs.IsUnauthorized(err) ||
		errdefs.IsNotFound(err) || errdefs.IsNotImplemented(err)
}

// liveRestore says whether the engine has that setting on. Where a socket proxy forbids
// the question, it is taken for off, Docker's default.
func (e *Engine) liveRestore(ctx context.Context) (bool, error) {
	info, err := e.info(ctx)
	if err != nil {
		return false, fmt.Errorf("cannot ask whether the engine has live-restore: %w", err)
	}
	return info.LiveRestoreEnabled, nil
}

// info is what the engine says of itself, and nothing where a socket proxy forbids the question.
func (e *Engine) info(ctx context.Context) (system.Info, error) {
	c, err := e.client(ctx)
	if err != nil {
		return system.Info{}, err
	}
	for try := 1; ; try++ {
		info, err := c.Info(ctx)
		switch {
		case err == nil:
			return info, nil
		case isRefused(err):
			return system.Info{}, nil
		case try == askTries || ctx.Err() != nil:
			return system.Info{}, e.explain(err)
		}
	}
}

// KillEvents returns the kill events of one run that the engine still has, at most
// killEventsMax. Podman's name no signal, and a stop has none: of a run that ended because
// somebody, perhaps healthd, asked for it, there is one with the time of the end and the
// container's stop signal.
func (e *Engine) KillEvents(ctx context.Context, run runtime.Run) ([]runtime.Event, error) {
	end, libpod, err := e.historyEnd(ctx)
	if err != nil {
		return nil, err
	}
	if libpod != "" {
		return e.libpodStop(ctx, libpod, run)
	}
	return e.pastKills(ctx, run, pastQuery{from: historyBegin, to: end})
}

// pastKills returns the kill events of one run among the events that q asks for.
func (e *Engine) pastKills(ctx context.Context, run runtime.Run, q pastQuery) ([]runtime.Event, error) {
	filter := filters.NewArgs(filters.Arg("container", run.ID), filters.Arg("event", string(runtime.ActionKill)), filters.Arg("event", string(runtime.ActionStart)))
	q.filter = &filter
	kills := runtime.FindKillsOf(run, killEventsMax)
	err := e.pastEvents(ctx, q, func(m events.Message) bool {
		if ev, ok := e.forged.read(m); ok {
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

// pastQuery says which events to ask for.
type pastQuery struct {
	from, to time.Time
	open     bool          // to is in the engine's future
	podman   bool          // the engine is Podman: to does not matter
	filter   *filters.Args // may be nil
}

// values returns the query of the request. Podman stops reading its log at the moment to,
// whether it has come to its end or not; but it can be told not to wait for later events.
func (q *pastQuery) values() (url.Values, error) {
	v := url.Values{"since": {formatTime(q.from)}}
	if q.podman {
		v.Set("stream", "false")
	} else {
		v.Set("until", formatTime(q.to))
	}
	if q.filter == nil {
		return v, nil
	}
	text, err := filters.ToJSON(*q.filter)
	v.Set("filters", text)
	return v, err
}

// pastEvents calls yield with the engine's events that q asks for, oldest first, until yield
// returns false.
func (e *Engine) pastEvents(ctx context.Context, q pastQuery, yield func(events.Message) bool) error {
	// Cancelling closes the connection of an answer that was not read to its end.
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	c, err := e.client(ctx)
	if err != nil {
		return err
	}
	query, err := q.values()
	if err != nil {
		return err
	}
	resp, err := e.do(ctx, c, http.MethodGet, "/events?"+query.Encode(), nil)
	if err != nil {
		return fmt.Errorf("cannot ask for past events: %w", e.explain(err))
	}
	defer resp.Body.Close()
	silence := time.AfterFunc(historySilence, func() {
		if q.open {
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
