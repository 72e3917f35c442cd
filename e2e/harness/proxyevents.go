package harness

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// events passes on an event stream line by line. One with an end asks for the past: it loses
// nothing and does not stall.
func (p *Proxy) events(w http.ResponseWriter, r *http.Request) {
	p.notify(r)
	began, bounded := time.Now(), r.URL.Query().Has("until")
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	a, err := p.askForEvents(ctx, r)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer a.Body.Close()
	w.Header().Set("Content-Type", a.Header.Get("Content-Type"))
	w.WriteHeader(a.StatusCode)
	flush := http.NewResponseController(w)
	_ = flush.Flush()
	pass := func(line []byte) {
		if !bounded && !p.waitForEventsResumed(ctx) {
			panic(http.ErrAbortHandler)
		}
		if bounded || !p.isDropped(line, began) {
			_, _ = w.Write(p.Clock.shiftEvent(line))
			_ = flush.Flush()
		}
	}
	for _, line := range a.history {
		pass(line)
	}
	if !a.ends.IsZero() {
		defer time.AfterFunc(time.Until(a.ends), cancel).Stop()
	}
	for lines := bufio.NewReader(a.Body); ; {
		line, err := lines.ReadBytes('\n')
		switch {
		case err == nil && a.follows(line):
			pass(line)
		case err == nil:
		case bounded && (errors.Is(err, io.EOF) || ctx.Err() != nil):
			return
		default:
			panic(http.ErrAbortHandler) // as an engine that has gone
		}
	}
}

// eventsAnswer is an engine's answer to a request for events.
type eventsAnswer struct {
	*http.Response
	history [][]byte               // lines that come before the body's
	follows func(line []byte) bool // says whether a line of the body belongs to the answer
	ends    time.Time              // when the engine ends the answer, by the machine's clock; zero: it says so itself
}

// askForEvents asks the engine for the events that r asks for. An engine whose clock was set
// chooses by times that the real one does not know: it is asked for all that it remembers.
func (p *Proxy) askForEvents(ctx context.Context, r *http.Request) (*eventsAnswer, error) {
	r = r.WithContext(ctx)
	a := &eventsAnswer{follows: func([]byte) bool { return true }}
	q, err := parseEventsQuery(r.URL.Query())
	if p.Clock.neverSet() || err != nil { // the engine knows best how to refuse a query
		a.Response, err = p.send(r)
		return a, err
	}
	now := time.Now()
	if !q.until.IsZero() {
		a.ends = now.Add(q.until.Sub(p.Clock.told(now)))
	}
	if err := p.addHistory(a, r, q); err != nil {
		return nil, err
	}
	if !a.ends.IsZero() && a.ends.Before(now) { // nothing that comes from now on belongs to it
		a.Response = &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: http.NoBody}
		return a, nil
	}
	// The history is told again, so that nothing is lost that came since it was read.
	a.Response, err = p.askAgain(r, url.Values{"since": {everything}, "filters": r.URL.Query()["filters"]})
	return a, err
}

// addHistory reads what the engine remembers. Whether an event hides others does not depend
// on the filters, and which pass the filters only the engine knows: it is asked for both.
func (p *Proxy) addHistory(a *eventsAnswer, r *http.Request, q eventsQuery) error {
	all, err := p.pastEvents(r, nil)
	if err != nil {
		return err
	}
	filtered, err := p.pastEvents(r, r.URL.Query()["filters"])
	if err != nil {
		return err
	}
	wanted := map[string]bool{} // by line, of all that are remembered
	for _, ev := range all {
		wanted[ev.line] = false
	}
	for _, ev := range q.choose(all) {
		wanted[ev.line] = true
	}
	for _, ev := range filtered {
		if wanted[ev.line] {
			a.history = append(a.history, []byte(ev.line))
		}
	}
	a.follows = func(line []byte) bool {
		_, past := wanted[string(line)]
		return !past
	}
	return nil
}

// pastEvent is a line of an event that the engine remembers.
type pastEvent struct {
	line string
	told time.Time // when it was, by the engine's clock
}

// pastEvents returns the events that the engine remembers, oldest first.
func (p *Proxy) pastEvents(r *http.Request, filters []string) ([]pastEvent, error) {
	answer, err := p.askAgain(r, url.Values{"since": {everything}, "until": {FormatTime(time.Now())}, "filters": filters})
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("the engine answers %s: %s", answer.Status, text)
	}
	var all []pastEvent
	for line := range bytes.Lines(text) {
		all = append(all, pastEvent{string(line), p.Clock.told(eventTime(line))})
	}
	return all, err
}

// askAgain sends r with another query.
func (p *Proxy) askAgain(r *http.Request, query url.Values) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.URL.RawQuery = query.Encode()
	return p.send(r)
}

// everything is a since that is before every event.
const everything = "1"

// eventsQuery is which events are asked for, by the engine's clock. Zero: not limited.
type eventsQuery struct{ since, until time.Time }

// choose returns those of the past events that the query asks for. As moby does, it looks
// from the newest back until one is too old: after the clock was set back, that one
// hides what is before it.
func (q eventsQuery) choose(all []pastEvent) []pastEvent {
	if q.since.IsZero() && q.until.IsZero() {
		return nil
	}
	var chosen []pastEvent
	for _, ev := range slices.Backward(all) {
		if ev.told.Before(q.since) {
			break
		}
		if q.until.IsZero() || !ev.told.After(q.until) {
			chosen = append(chosen, ev)
		}
	}
	slices.Reverse(chosen)
	return chosen
}

func parseEventsQuery(query url.Values) (q eventsQuery, err error) {
	q.since, err = parseEngineTime(query.Get("since"))
	if err == nil {
		q.until, err = parseEngineTime(query.Get("until"))
	}
	if err == nil && !q.until.IsZero() && q.until.Before(q.since) {
		err = errors.New("until is before since")
	}
	return q, err
}

// parseEngineTime parses "SECONDS" and "SECONDS.NANOSECONDS", and returns zero for nothing.
func parseEngineTime(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	whole, part, _ := strings.Cut(text, ".")
	seconds, err := strconv.ParseInt(whole, 10, 64)
	nanoseconds, err2 := strconv.ParseInt((part + "000000000")[:9], 10, 64)
	return time.Unix(seconds, nanoseconds), errors.Join(err, err2)
}

func FormatTime(t time.Time) string { return fmt.Sprintf("%d.%09d", t.Unix(), t.Nanosecond()) }

// eventTime returns when the event of a line was, by the machine's clock.
func eventTime(line []byte) time.Time {
	var ev ProxiedEvent
	_ = json.Unmarshal(line, &ev)
	return time.Unix(0, ev.TimeNano)
}

// shiftEvent replaces the times in a line of events by what the clock showed then.
func (c *engineClock) shiftEvent(line []byte) []byte {
	at := eventTime(line)
	told := c.told(at)
	if told.Equal(at) {
		return line
	}
	var ev map[string]json.RawMessage
	if json.Unmarshal(line, &ev) != nil {
		return line
	}
	ev["time"], ev["timeNano"] = strconv.AppendInt(nil, told.Unix(), 10), strconv.AppendInt(nil, told.UnixNano(), 10)
	shifted, err := json.Marshal(ev)
	if err != nil {
		return line
	}
	return append(shifted, '\n')
}
