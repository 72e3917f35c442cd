package engine

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/docker/docker/api/types/events"
	"github.com/docker/docker/api/types/filters"
)

// kept is how many events Docker keeps.
const kept = 256

// listener is one who reads the events. One who reads too slowly loses the connection, as with Docker
// the stream would lag.
type listener struct {
	wants    filters.Args
	messages chan events.Message
}

// tell tells of an event. The caller holds mu.
func (e *Engine) tell(i *instance, action events.Action, attributes map[string]string) {
	now := time.Now()
	all := maps.Clone(i.labels)
	all["name"], all["image"] = i.name, image
	maps.Copy(all, attributes)
	m := events.Message{
		Type: events.ContainerEventType, Action: action, Actor: events.Actor{ID: i.id, Attributes: all},
		Scope: "local", Time: now.Unix(), TimeNano: now.UnixNano(),
	}
	e.history = append(e.history, m)
	if len(e.history) > 2*kept {
		e.history = slices.Clone(e.history[len(e.history)-kept:])
	}
	for l := range e.listeners {
		if l.wantsAction(m) {
			select {
			case l.messages <- m:
			default:
				delete(e.listeners, l)
				close(l.messages)
			}
		}
	}
}

func (l *listener) wantsAction(m events.Message) bool {
	return l.wants.ExactMatch("event", string(m.Action)) && l.wants.ExactMatch("type", string(m.Type)) &&
		(!l.wants.Contains("container") || l.wants.ExactMatch("container", m.Actor.ID))
}

// events answers GET /events: those of the history since a moment, and, unless there is an until, what follows.
func (e *Engine) events(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	wants, err := filters.FromJSON(q.Get("filters"))
	if err != nil {
		fail(w, http.StatusBadRequest, err.Error())
		return
	}
	l := &listener{wants: wants, messages: make(chan events.Message, 1<<16)}
	w.Header().Set("Content-Type", "application/json")
	out, send := json.NewEncoder(w), http.NewResponseController(w)
	e.mu.Lock()
	past := slices.Clone(e.history[max(0, len(e.history)-kept):])
	if q.Get("until") == "" {
		e.listeners[l] = true
	} else {
		close(l.messages)
	}
	e.mu.Unlock()
	defer func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.listeners, l)
	}()
	since := moment(q.Get("since"))
	for _, m := range past {
		if m.TimeNano >= since && l.wantsAction(m) {
			_ = out.Encode(m)
		}
	}
	_ = send.Flush()
	for {
		select {
		case m, ok := <-l.messages:
			if !ok || out.Encode(m) != nil {
				return
			}
			if len(l.messages) == 0 {
				_ = send.Flush()
			}
		case <-r.Context().Done():
			return
		}
	}
}

// moment parses SECONDS.NANOSECONDS.
func moment(text string) int64 {
	seconds, nanos, _ := strings.Cut(text, ".")
	s, _ := strconv.ParseInt(seconds, 10, 64)
	n, _ := strconv.ParseInt(nanos, 10, 64)
	return s*int64(time.Second) + n
}
