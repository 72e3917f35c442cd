package api

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"healthd/supervisor"
	"healthd/supervisor/core"
)

// events answers with the kept events, or with a stream of new ones when the client accepts
// text/event-stream.
func (a *API) events(l *limits) http.HandlerFunc {
	list := a.list(l, func(w http.ResponseWriter, r *http.Request) {
		if q, ok := a.eventsQuery(w, r); ok {
			jsonList(a, w, slices.Values(newest(a.history.Events(q.container, q.since), q.newest)))
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
			if q, ok := a.eventsQuery(w, r); ok {
				a.stream(w, r, q)
			}
		default:
			a.busy(w, fmt.Sprintf("there are %d event streams: end one, or ask again later", maxStreams))
		}
	}
}

// eventQuery says which events are asked for.
type eventQuery struct {
	container string // empty: of all
	since     time.Time
	newest    int  // of the kept ones; negative: all
	resumed   bool // after is the last event that the reader has
	after     uint64
	members   bool // tell of containers that come and go, too
}

// eventsQuery returns which events are asked for, or answers 400.
func (a *API) eventsQuery(w http.ResponseWriter, r *http.Request) (q eventQuery, ok bool) {
	query := r.URL.Query()
	since, err := ParseSince(query.Get("since"), time.Now())
	if err != nil {
		a.fail(w, http.StatusBadRequest, err.Error())
		return q, false
	}
	q = eventQuery{container: query.Get("container"), since: since, newest: -1}
	if text := query.Get("n"); text != "" {
		if q.newest, err = strconv.Atoi(text); err != nil || q.newest < 0 {
			a.fail(w, http.StatusBadRequest, fmt.Sprintf("n must be a number of events, it is %q", text))
			return q, false
		}
	}
	last := query.Get("after")
	if id := r.Header.Get("Last-Event-ID"); id != "" { // of a browser that has lost the stream
		last = id
	}
	if last != "" {
		q.resumed = true
		if q.after, err = strconv.ParseUint(last, 10, 64); err != nil {
			a.fail(w, http.StatusBadRequest, fmt.Sprintf("after must be the number of an event, it is %q", last))
			return q, false
		}
	}
	q.members = query.Has("members")
	if v, err := a.board.Find(q.container); err == nil {
		q.container = a.board.NameOf(v.Container) // the query may have an ID prefix
	}
	return q, true
}

// newest returns the last n events, all if n is negative.
func newest(events []core.Event, n int) []core.Event {
	if n < 0 {
		return events
	}
	return events[max(0, len(events)-n):]
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
	if days, found := strings.CutSuffix(s, "d"); found { // as the ages of status are written
		if n, err := strconv.ParseUint(days, 10, 16); err == nil {
			return now.Add(-time.Duration(n) * 24 * time.Hour), nil
		}
	}
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		return t, nil
	}
	return time.Time{}, fmt.Errorf("since must be a duration such as 10m or 1d, or a time such as 2006-01-02T15:04:05Z, it is %q", s)
}

// stream sends events as they come, after the kept ones since a time, if one is given. It
// ends with the request's context, or when the client does not read for writeTimeout.
func (a *API) stream(w http.ResponseWriter, r *http.Request, q eventQuery) {
	const writeTimeout = 10 * time.Second
	control := http.NewResponseController(w)
	send := func(text string) bool {
		if control.SetWriteDeadline(time.Now().Add(writeTimeout)) != nil {
			return false
		}
		_, err := io.WriteString(w, text)
		return err == nil
	}

	seen, skip, until := a.beginStream(&q)
	members := a.board.Members()
	a.header(w, []string{"text/event-stream"})
	heartbeat := time.NewTicker(a.heartbeat)
	defer heartbeat.Stop()
	for beat := ": events\n\n"; ; {
		var changed <-chan struct{}
		if q.members {
			changed = a.board.Changed()
			if now := a.board.Members(); now != members {
				members, beat = now, beat+membersFrame
			}
		}
		events, last, more := a.history.After(seen)
		seen = last
		events = q.filter(events)
		skipped := min(skip, len(events))
		if events, skip = events[skipped:], skip-skipped; seen >= until {
			skip = 0 // whatever has fallen out of the history meanwhile
		}
		sent := beat == "" || send(beat)
		for i := 0; sent && i < len(events); i++ {
			sent = send(frame(&events[i]))
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
		case <-changed:
		}
	}
}

// membersFrame tells that a container has come or gone, or has another name. No event need tell that.
const membersFrame = "event: members\ndata: {}\n\n"

// beginStream returns the number of the event after which a stream begins, and how many of those asked for up
// to the event until come before the newest ones that it is to begin with. All that follow count.
func (a *API) beginStream(q *eventQuery) (after uint64, skip int, until uint64) {
	switch {
	case q.resumed && q.after > a.history.Last():
		return 0, 0, 0 // of another journal, which was lost: all are new
	case q.resumed:
		return q.after, 0, 0
	}
	if q.since.IsZero() && q.newest < 0 {
		return a.history.Last(), 0, 0
	}
	if q.newest >= 0 {
		until = a.history.Last()
		skip = max(0, len(a.history.Events(q.container, q.since))-q.newest)
	}
	return 0, skip, until
}

func (q *eventQuery) filter(events []core.Event) []core.Event {
	var found []core.Event
	for _, ev := range events {
		if (q.container == "" || ev.Container == q.container) && !ev.Time.Before(q.since) {
			found = append(found, ev)
		}
	}
	return found
}

// frame writes an event as a server-sent event, whose ID a browser sends when it has lost the stream: one line of
// JSON, which cannot hold a line break.
func frame(ev *core.Event) string {
	data, err := json.Marshal(ev)
	if err != nil {
		return "" // cannot happen: an event has only texts, times and a number
	}
	return "id: " + strconv.FormatUint(ev.Number, 10) + "\ndata: " + string(supervisor.Escape(data)) + "\n\n"
}
