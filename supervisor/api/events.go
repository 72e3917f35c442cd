package api

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"healthd/supervisor/core"
)

// events answers with the kept events, or with a stream of new ones when the client accepts
// text/event-stream.
func (a *API) events(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	since, err := ParseSince(query.Get("since"), time.Now())
	if err != nil {
		a.fail(w, http.StatusBadRequest, err.Error())
		return
	}
	container := query.Get("container")
	if v, err := a.board.Find(container); err == nil {
		container = a.board.NameOf(v.Container) // the query may have an ID prefix
	}
	if r.Method == http.MethodGet && strings.Contains(r.Header.Get("Accept"), "text/event-stream") {
		a.stream(w, r, container, since)
		return
	}
	a.json(w, http.StatusOK, a.history.Events(container, since))
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
		return err == nil && control.Flush() == nil
	}

	var seen uint64
	if since.IsZero() {
		seen = a.history.Last()
	}
	a.header(w, []string{"text/event-stream"})
	heartbeat := time.NewTicker(a.heartbeat)
	defer heartbeat.Stop()
	for text := ": events\n\n"; ; {
		events, last, more := a.history.After(seen)
		seen = last
		text += frames(events, container, since)
		if text != "" && !send(text) {
			return
		}
		text = ""
		select {
		case <-r.Context().Done():
			return
		case <-heartbeat.C:
			text = ":\n\n"
		case <-more:
		}
	}
}

// frames writes events as server-sent events: one line of JSON each, which cannot
// hold a line break.
func frames(events []core.Event, container string, since time.Time) string {
	var b strings.Builder
	for _, ev := range events {
		if container != "" && ev.Container != container || ev.Time.Before(since) {
			continue
		}
		data, err := json.Marshal(ev)
		if err != nil {
			continue // cannot happen: an event has only texts and a time
		}
		b.WriteString("data: ")
		b.Write(data)
		b.WriteString("\n\n")
	}
	return b.String()
}
