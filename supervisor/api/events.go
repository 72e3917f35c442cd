package api

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"healthd/supervisor/core"
)

// events answers with the kept events, or with a stream of new ones when the client accepts
// text/event-stream.
func (a *API) events(l *limits) http.HandlerFunc {
	list := a.list(l, func(w http.ResponseWriter, r *http.Request) {
		if container, since, ok := a.eventsQuery(w, r); ok {
			jsonList(a, w, slices.Values(a.history.Events(container, since)))
		}
	})
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || !strings.Contains(r.Header.Get("Accept"), "text/event-stream") {
			list(w, r)
			return
		}
		select {
		case l.streams <- struct{}{}:
			defer func() { <-l.streams }()
			stay(r)
			if container, since, ok := a.eventsQuery(w, r); ok {
				a.stream(w, r, container, since)
			}
		default:
			a.busy(w, fmt.Sprintf("there are %d event streams: end one, or ask again later", maxStreams))
		}
	}
}

// eventsQuery returns whose events since when are asked for, or answers 400.
func (a *API) eventsQuery(w http.ResponseWriter, r *http.Request) (container string, since time.Time, ok bool) {
	query := r.URL.Query()
	since, err := ParseSince(query.Get("since"), time.Now())
	if err != nil {
		a.fail(w, http.StatusBadRequest, err.Error())
		return "", since, false
	}
	container = query.Get("container")
	if v, err := a.board.Find(container); err == nil {
		container = a.board.NameOf(v.Container) // the query may have an ID prefix
	}
	return container, since, true
}

// ParseSince parses a duration before now or an RFC 3339 time. For an empty text it returns
// zero.
func ParseSince(s string, now time.Time) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(s); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		return t, nil
	}
	return time.Time{}, fmt.Errorf("since must be a duration such as 10m or a time such as 2006-01-02T15:04:05Z, it is %q", s)
}

// stream sends events as they come, after the kept ones since a time, if one is given. It
// ends with the request's context, or when the client does not read for writeTimeout.
func (a *API) stream(w http.ResponseWriter, r *http.Request, container string, since time.Time) {
	const writeTimeout = 10 * time.Second
	control := http.NewResponseController(w)
	send := func(text string) bool {
		if control.SetWriteDeadline(time.Now().Add(writeTimeout)) != nil {
			return false
		}
		_, err := io.WriteString(w, text)
		return err == nil
	}

	var seen uint64
	if since.IsZero() {
		seen = a.history.Last()
	}
	a.header(w, []string{"text/event-stream"})
	heartbeat := time.NewTicker(a.heartbeat)
	defer heartbeat.Stop()
	for beat := ": events\n\n"; ; {
		events, last, more := a.history.After(seen)
		seen = last
		sent := beat == "" || send(beat)
		for i := 0; sent && i < len(events); i++ {
			if ev := &events[i]; (container == "" || ev.Container == container) && !ev.Time.Before(since) {
				sent = send(frame(ev))
			}
		}
		if !sent || control.Flush() != nil {
			return
		}
		beat = ""
		select {
		case <-r.Context().Done():
			return
		case <-heartbeat.C:
			beat = ":\n\n"
		case <-more:
		}
	}
}

// frame writes an event as a server-sent event: one line of JSON, which cannot hold a line break.
func frame(ev *core.Event) string {
	data, err := json.Marshal(ev)
	if err != nil {
		return "" // cannot happen: an event has only texts, times and a number
	}
	return "data: " + string(data) + "\n\n"
}
