package notify

import (
	"slices"
	"time"

	"healthd/supervisor/core"
)

// outbox is what is kept of one receiver, also over a restart of healthd.
type outbox struct {
	Told   map[string]told `json:"told,omitempty"`   // incidents that the receiver was told of, by key
	Events []Entry         `json:"events,omitempty"` // that it is to be told of; at most maxEvents
	Held   int             `json:"held,omitempty"`   // see Message
	Bucket bucket          `json:"bucket,omitzero"`
	Queue  []*pending      `json:"queue,omitempty"`

	over     map[string]time.Time // when incidents that it was told of ended
	waiting  time.Time            // since when it is to be told of something; zero: of nothing
	untold   map[string]bool      // incidents that it is to be told of
	failures int                  // attempts in a row that failed
	failing  bool                 // its outage was recorded
	attempt  bool                 // one is under way
	dropped  int                  // messages given up since the last one that was delivered
	lost     int                  // of these, those not counted yet
}

// told is an incident that a receiver was told of, and when it was last.
type told struct {
	subject
	Since time.Time `json:"since"`
	At    time.Time `json:"at"`
}

// maxEvents bounds the events that wait for one message.
const maxEvents = 100

func newOutbox() *outbox {
	return &outbox{Told: map[string]told{}, untold: map[string]bool{}, over: map[string]time.Time{}}
}

// addEvent takes in an event of the history that the receiver wants to be told of.
func (o *outbox) addEvent(s subject, ev *core.Event) {
	if len(o.Events) >= maxEvents {
		o.Held++
		return
	}
	cause := ev.Message
	if ev.Count > 1 {
		cause = "(several times) " + cause
	}
	e := newEntry(happened, incident{subject: s, Since: ev.Time, Cause: clip(cause)})
	o.Events = append(o.Events, e)
}

// step compares what is open with what the receiver was told. It returns a message when one is due, and when
// to step again; zero: when something changes.
func (o *outbox) step(r *Receiver, host string, open map[string]incident, now time.Time) (m *Message, next time.Time) {
	d := o.compare(r, open, now)
	o.noteUntold(d.begun, open, r, now)
	if len(d.begun)+len(d.ended)+len(o.Events) == 0 {
		o.waiting = time.Time{}
		if len(d.due) == 0 {
			return nil, d.nextRepeat
		}
	}
	if o.waiting.IsZero() {
		o.waiting = now
	}
	at := o.waiting.Add(r.GroupWait)
	if len(d.due) > 0 && len(d.begun)+len(d.ended)+len(o.Events) == 0 {
		at = now // a repeat has nothing to be grouped with
	}
	if room := o.Bucket.room(r.MaxPerHour, now); room.After(at) {
		at = room
	}
	if now.Before(at) {
		return nil, earliest(at, d.nextRepeat)
	}
	return o.tell(r, host, d, open, now), now
}

// difference is what a receiver has not been told, as sorted keys.
type difference struct {
	begun, ended []string
	due          []string // told, and to be repeated
	nextRepeat   time.Time
}

func (o *outbox) compare(r *Receiver, open map[string]incident, now time.Time) difference {
	var d difference
	for _, key := range sortedKeys(open) {
		i := open[key]
		if _, known := o.Told[key]; !known && r.wants(&i.subject) {
			d.begun = append(d.begun, key)
		}
	}
	for _, key := range sortedKeys(o.Told) {
		t := o.Told[key]
		if !r.wants(&t.subject) { // a reload has changed what it wants
			delete(o.Told, key)
			delete(o.over, key)
			continue
		}
		if _, lasts := open[key]; !lasts {
			if o.over[key].IsZero() {
				o.over[key] = now
			}
			d.ended = append(d.ended, key)
			continue
		}
		delete(o.over, key)
		if again := t.At.Add(r.Repeat); now.Before(again) {
			d.nextRepeat = earliest(d.nextRepeat, again)
		} else {
			d.due = append(d.due, key)
		}
	}
	return d
}

// noteUntold counts what was over before the limit let a message go.
func (o *outbox) noteUntold(begun []string, open map[string]incident, r *Receiver, now time.Time) {
	held := !o.waiting.IsZero() && now.After(o.waiting.Add(r.GroupWait))
	for key := range o.untold {
		if _, lasts := open[key]; !lasts {
			delete(o.untold, key)
			if held {
				o.Held++
			}
		}
	}
	for _, key := range begun {
		o.untold[key] = true
	}
}

// tell returns the message, and notes that its content was told. A repeat has all that lasts. A project of which the text shows no
// incident is not told of: the next message is.
func (o *outbox) tell(r *Receiver, host string, d difference, open map[string]incident, now time.Time) *Message {
	var entries []Entry
	d.begun = shown(d.begun, func(key string) string { return open[key].Project })
	for _, key := range d.begun {
		entries = append(entries, newEntry(begun, open[key]))
	}
	if len(d.due) > 0 {
		for _, key := range byTurns(sortedKeys(o.Told), o.projectOf) {
			if !slices.Contains(d.ended, key) {
				entries = append(entries, newEntry(lasts, incident{o.Told[key].subject, o.Told[key].Since, open[key].Cause, open[key].Next}))
				o.note(key, o.Told[key].Since, open, now)
			}
		}
	}
	for _, key := range d.begun {
		o.note(key, open[key].Since, open, now)
	}
	for _, key := range byTurns(d.ended, o.projectOf) {
		t := o.Told[key]
		e := newEntry(resolved, incident{subject: t.subject, Since: t.Since})
		e.Resolved = o.over[key].UTC().Round(0)
		entries = append(entries, e)
		delete(o.Told, key)
		delete(o.over, key)
	}
	m := newMessage(r.Name, host, append(entries, o.Events...), o.Held, now)
	o.Bucket.take(r.MaxPerHour, now)
	o.Events, o.Held, o.waiting = nil, 0, time.Time{}
	for _, key := range d.begun {
		delete(o.untold, key)
	}
	return m
}

func (o *outbox) projectOf(key string) string { return o.Told[key].Project }

// byTurns lets each project have its turn, so that the incidents of one do not hide those of others.
func byTurns(keys []string, project func(key string) string) []string {
	turns, seen := make(map[string]int, len(keys)), map[string]int{}
	for _, key := range keys {
		turns[key] = seen[project(key)]
		seen[project(key)]++
	}
	return slices.SortedStableFunc(slices.Values(keys), func(a, b string) int { return turns[a] - turns[b] })
}

// shown returns by turns the keys of those projects of which a text shows one.
func shown(keys []string, project func(key string) string) []string {
	keys = byTurns(keys, project)
	projects := map[string]bool{}
	for _, key := range keys[:min(len(keys), maxShown)] {
		projects[project(key)] = true
	}
	return slices.DeleteFunc(keys, func(key string) bool { return !projects[project(key)] })
}

func (o *outbox) note(key string, since time.Time, open map[string]incident, now time.Time) {
	o.Told[key] = told{open[key].subject, since, now}
}
