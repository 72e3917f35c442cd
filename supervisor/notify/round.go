package notify

import (
	"context"
	"fmt"
	"slices"
	"time"

	"healthd/supervisor/core"
)

const (
	lookEvery  = time.Second     // at most: many changes come together
	lookAgain  = 5 * time.Second // while something is wrong: its end may be but a matter of time
	saveWithin = 2 * time.Second // a message does not wait longer for the disk
)

// rounds is the state of Run. Only its goroutine uses it.
type rounds struct {
	*Notifier
	incidents incidents
	boxes     map[string]*outbox
	all       []Receiver
	seq       uint64 // events up to this one are taken in

	changed, more <-chan struct{} // nil: not asked yet
	stale         bool            // the board has changed since the last look
	looked        time.Time
	due           time.Time // of an incident that is about to begin
	tellAt        time.Time // when a message is due; zero: when something changes

	keeper     *keeper
	dirty      bool   // what is kept has changed since the last save
	saved, out uint64 // saves that are done, and that were begun
}

// Run tells the receivers until ctx ends. What is then pending is told by the next daemon. It returns nil.
func (n *Notifier) Run(ctx context.Context) error {
	defer close(n.ended)
	k := newKeeper(n.config.File)
	s := &rounds{Notifier: n, incidents: newIncidents(), keeper: k, boxes: map[string]*outbox{}}
	keeping, stopKeeping := context.WithCancel(context.WithoutCancel(ctx))
	defer n.running.Wait()
	defer stopKeeping() // after the last save
	n.running.Go(func() { k.run(keeping) })
	s.restore(n.config.Receivers)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		timer.Reset(s.round(ctx, time.Now()))
		select {
		case <-ctx.Done():
			s.save()
			return nil
		case <-s.changed:
			s.changed, s.stale = nil, true
		case <-s.more:
			s.more, s.stale = nil, true
		case r := <-n.results:
			s.take(r, time.Now())
		case done := <-k.done:
			s.takeSaved(done)
		case receivers := <-n.reload:
			s.configure(receivers)
		case <-timer.C:
		}
	}
}

// restore begins with what the last daemon has left.
func (s *rounds) restore(receivers []Receiver) {
	kept, err := s.keeper.load()
	if err != nil {
		s.record(core.EventNotifyFailed, "Cannot read what receivers were told: %v: they may be told again", err)
	}
	s.seq = s.config.History.Last()
	if kept != nil {
		s.boxes, s.seq = kept.boxes(), min(kept.Seq, s.seq) // a new journal counts from 1
		for _, o := range s.boxes {
			for key, t := range o.Told {
				s.incidents.open[key] = incident{subject: t.subject, Since: t.Since}
			}
		}
	}
	s.configure(receivers)
}

// configure takes over these receivers.
func (s *rounds) configure(receivers []Receiver) {
	if len(s.all) == 0 && len(s.boxes) == 0 {
		s.seq = s.config.History.Last()
	}
	boxes := map[string]*outbox{}
	for _, r := range receivers {
		if boxes[r.Name] = s.boxes[r.Name]; boxes[r.Name] == nil {
			boxes[r.Name] = newOutbox()
		}
	}
	for name, o := range s.boxes {
		if boxes[name] == nil {
			s.problems.Set(name)
		}
		if boxes[name] == nil && len(o.Queue) > 0 {
			s.record(core.EventNotifyFailed, "Receiver %s is not configured any more: %d messages were not sent to it", name, len(o.Queue))
		}
	}
	s.dirty = s.dirty || len(boxes)+len(s.boxes) > 0 // without receivers there is no file
	s.all, s.boxes, s.stale = receivers, boxes, true
	s.use(receivers)
}

// round does all that is due, and returns the time until the next round.
func (s *rounds) round(ctx context.Context, now time.Time) time.Duration {
	const idle = time.Hour
	if len(s.all) == 0 {
		s.changed, s.more = nil, nil
		s.save()
		return idle
	}
	s.readEvents()
	looked, next := s.lookAround(now)
	if looked || !s.tellAt.IsZero() && !now.Before(s.tellAt) { // not for each event: there may be very many
		s.tell(now)
	}
	s.save()
	next = earliest(next, s.tellAt)
	for i := range s.all {
		next = earliest(next, s.send(ctx, &s.all[i], now))
	}
	if next.IsZero() {
		return idle
	}
	return max(time.Millisecond, next.Sub(now))
}

// tell makes the messages that are due, and notes when the next ones are.
func (s *rounds) tell(now time.Time) {
	s.tellAt = time.Time{}
	for i := range s.all {
		r := &s.all[i]
		o := s.boxes[r.Name]
		m, again := o.step(r, s.config.Host, s.incidents.open, now)
		if m != nil {
			m.ID = newID()
			o.push(m, now)
			s.dirty = true
		}
		s.tellAt = earliest(s.tellAt, again)
	}
}

// readEvents takes in the newest events of the history, and asks to hear of more.
func (s *rounds) readEvents() {
	for s.more == nil {
		events, last, more := s.config.History.After(s.seq)
		for i := range events {
			s.takeEvent(&events[i])
		}
		s.seq = last
		if len(events) == 0 {
			s.more = more
		}
	}
}

// takeEvent hands an event to those who want to be told of it. What is an incident is told as that.
func (s *rounds) takeEvent(ev *core.Event) {
	if slices.Contains(Reasons(), ev.Reason) {
		return
	}
	of := subject{Reason: ev.Reason, Container: ev.Container, Runtime: ev.Runtime, Service: ev.Service}
	if v, err := s.config.Board.Find(ev.Container); err == nil && ev.Container != "" {
		of = subjectOf(s.config.Board, v, ev.Reason) // the history keeps the name only
	}
	for i := range s.all {
		if r := &s.all[i]; r.wants(&of) {
			s.boxes[r.Name].addEvent(of, ev)
			s.dirty = true
		}
	}
}

// lookAround takes in what the board shows, if it may have changed. It returns when to look again; zero: when
// something changes.
func (s *rounds) lookAround(now time.Time) (looked bool, next time.Time) {
	wrong := len(s.incidents.open)+len(s.incidents.since)+len(s.incidents.windows) > 0
	switch {
	case s.changed == nil:
		s.changed = s.config.Board.Changed()
	case wrong && now.Sub(s.looked) >= lookAgain:
		s.stale = true
	}
	if at := s.looked.Add(lookEvery); s.stale && now.Before(at) {
		return false, at
	}
	if s.stale || !s.due.IsZero() && !now.Before(s.due) {
		s.due = s.incidents.step(s.look(s.incidents.open, now), now)
		s.stale, s.looked, looked = false, now, true
	}
	if len(s.incidents.open)+len(s.incidents.since)+len(s.incidents.windows) > 0 {
		next = s.looked.Add(lookAgain)
	}
	return looked, earliest(next, s.due)
}

func (s *rounds) record(reason, format string, args ...any) {
	s.config.History.Record(core.Event{Time: time.Now(), Reason: reason, Message: fmt.Sprintf(format, args...)})
}
