package supervisor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"healthd/runtime"
)

// chaosStream is an event stream of one daemon. Events come a little late, in order.
type chaosStream struct {
	d      *chaosDaemon
	ctx    context.Context
	queue  []chaosDelivery
	more   chan struct{} // has room for one
	broken error
}

type chaosDelivery struct {
	ev runtime.Event
	at time.Time
}

func (s *chaosStream) deliver(ev runtime.Event) {
	at := time.Now().Add(s.d.w.between("news", ev.ID+string(ev.Action), time.Millisecond, 100*time.Millisecond))
	if n := len(s.queue); n > 0 {
		at = later(at, s.queue[n-1].at.Add(1))
	}
	s.queue = append(s.queue, chaosDelivery{ev, at})
	s.wake()
}

func (s *chaosStream) end(err error) {
	s.broken, s.queue = err, nil
	s.wake()
}

func (s *chaosStream) wake() {
	select {
	case s.more <- struct{}{}:
	default:
	}
}

// Next waits for the next event.
func (s *chaosStream) Next() (runtime.Event, error) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		s.d.w.mu.Lock()
		var wait time.Duration
		switch {
		case len(s.queue) == 0 && s.broken != nil:
			s.d.w.mu.Unlock()
			return runtime.Event{}, s.broken
		case len(s.queue) == 0:
			wait = 24 * time.Hour
		default:
			wait = time.Until(s.queue[0].at)
		}
		if wait <= 0 {
			ev := s.queue[0].ev
			s.queue = s.queue[1:]
			s.d.w.read(s.d, ev)
			s.d.w.mu.Unlock()
			return ev, nil
		}
		s.d.w.mu.Unlock()
		timer.Reset(wait)
		select {
		case <-s.more:
		case <-timer.C:
		case <-s.ctx.Done():
			return runtime.Event{}, s.ctx.Err()
		}
	}
}

// Subscribe is runtime.Source's. It takes so long that the jitter of the Watcher's
// back-off, which no seed governs, makes no difference.
func (d *chaosDaemon) Subscribe(ctx context.Context, since time.Time) (runtime.Stream, error) {
	context.AfterFunc(ctx, func() {
		d.w.mu.Lock()
		defer d.w.mu.Unlock()
		d.connectedAt = time.Now()
	})
	d.w.mu.Lock()
	before := d.connectedAt
	d.w.mu.Unlock()
	if !before.IsZero() {
		if err := d.pass(ctx, time.Until(before.Add(afterJitter(time.Since(before))))); err != nil {
			return nil, err
		}
	}
	if err := d.pass(ctx, d.w.between("subscribe", "", time.Millisecond, 20*time.Millisecond)); err != nil {
		return nil, err
	}
	d.w.mu.Lock()
	defer d.w.mu.Unlock()
	if !d.w.reachable() || d.w.engine.closing {
		return nil, errAway
	}
	s := &chaosStream{d: d, ctx: ctx, more: make(chan struct{}, 1)}
	d.w.subscribed(d, since)
	for _, ev := range d.w.engine.memory {
		if !ev.Time.Before(since) {
			s.queue = append(s.queue, chaosDelivery{ev, time.Now()})
		}
	}
	d.w.engine.streams = append(d.w.engine.streams, s)
	return s, nil
}

// afterJitter returns a time that is the same for all that the Watcher's jitter may
// make of one delay.
func afterJitter(d time.Duration) time.Duration {
	for _, ms := range []time.Duration{130, 250, 500, 1000, 2000, 4000, 7900, 12500} {
		if d < ms*time.Millisecond {
			return ms * time.Millisecond
		}
	}
	return d
}

// EventHistory is runtime.Source's.
func (d *chaosDaemon) EventHistory(ctx context.Context, at time.Time) (runtime.EventHistory, error) {
	if err := d.answer(ctx, "recall", ""); err != nil {
		d.w.mu.Lock()
		d.w.muddled(d, "nobody can tell whether events were lost")
		d.w.mu.Unlock()
		return runtime.EventHistory{}, err
	}
	d.w.mu.Lock()
	defer d.w.mu.Unlock()
	e := d.w.engine
	m := runtime.EventHistory{LiveRestore: e.live, Full: len(e.memory) >= d.w.memoryCap*200/chaosMemory}
	for _, ev := range e.memory {
		m.HasEvent = m.HasEvent || ev.Time.Equal(at)
	}
	if len(e.memory) > 0 {
		m.Oldest = e.memory[0].Time
	}
	if !m.HasEvent && (m.Full || !m.Oldest.IsZero() && !m.Oldest.After(at)) {
		d.w.muddled(d, "the engine has forgotten too much")
	}
	return m, nil
}

// KillEvents is runtime.Source's.
func (d *chaosDaemon) KillEvents(ctx context.Context, id string, since time.Time) ([]runtime.Event, error) {
	err := d.answer(ctx, "kills", id)
	d.w.mu.Lock()
	defer d.w.mu.Unlock()
	if err != nil {
		if c := d.w.engine.find(id); c != nil {
			c.unasked = true
		}
		return nil, err
	}
	var kills []runtime.Event
	for _, ev := range d.w.engine.memory {
		if ev.ID == id && ev.Action == runtime.ActionKill && !ev.Time.Before(since) {
			kills = append(kills, ev)
		}
	}
	return kills, nil
}

// Accept is Restarter's.
func (d *chaosDaemon) Accept(ctx context.Context) error {
	if err := d.answer(ctx, "accept", ""); err != nil {
		return err
	}
	d.w.mu.Lock()
	defer d.w.mu.Unlock()
	if d.w.engine.closing {
		return errAway
	}
	return nil
}

// List is runtime.Source's.
func (d *chaosDaemon) List(ctx context.Context) ([]runtime.Summary, error) {
	if err := d.answer(ctx, "list", ""); err != nil {
		return nil, err
	}
	d.w.mu.Lock()
	defer d.w.mu.Unlock()
	var all []runtime.Summary
	for _, c := range d.w.engine.all {
		if c.gone {
			continue
		}
		s := runtime.Summary{ID: c.c.ID, Name: c.c.Name, Labels: c.c.Labels, State: c.c.State, Fingerprint: c.c.Fingerprint}
		at := c.c.FinishedAt
		if c.c.State.Alive() {
			at = c.c.StartedAt
		}
		if !at.IsZero() {
			s.EarliestChange, s.LatestChange = at.Add(-2*time.Second), at.Add(2*time.Second)
		}
		all = append(all, s)
	}
	return all, nil
}

// Inspect is runtime.Source's and Restarter's.
func (d *chaosDaemon) Inspect(ctx context.Context, id string) (*runtime.Container, error) {
	if err := d.answer(ctx, "inspect", id); err != nil {
		return nil, err
	}
	d.w.mu.Lock()
	c := d.w.engine.find(id)
	if c == nil {
		d.w.mu.Unlock()
		return nil, fmt.Errorf("inspect %s: %w", id, runtime.ErrNotFound)
	}
	copied := c.c
	d.w.mu.Unlock()
	return &copied, d.pass(ctx, d.w.between("inspected", id, time.Millisecond, 10*time.Millisecond))
}

// Ping is runtime.Source's.
func (d *chaosDaemon) Ping(ctx context.Context) error { return d.answer(ctx, "ping", "") }

const chaosCallTimeout = 10 * time.Second

// answer is what all questions to the engine have in common: they take a moment, and
// a sick engine may never answer.
func (d *chaosDaemon) answer(ctx context.Context, what, id string) error {
	if err := d.pass(ctx, d.w.between(what, id, time.Millisecond, 10*time.Millisecond)); err != nil {
		return err
	}
	d.w.mu.Lock()
	sick, reachable := d.w.sick && d.w.roll("sick "+what, id, 3) > 0, d.w.reachable()
	d.w.mu.Unlock()
	switch {
	case !reachable:
		return errAway
	case !sick:
		return nil
	}
	d.w.locked(func() { d.w.hanging++ })
	err := d.pass(ctx, chaosCallTimeout)
	d.w.locked(func() { d.w.hanging--; d.w.troubleAt = time.Now() })
	if err != nil {
		return err
	}
	return context.DeadlineExceeded
}

var errDark = errors.New("this daemon is dead")

// pass lets time go by. It ends early with the context, or with the daemon.
func (d *chaosDaemon) pass(ctx context.Context, t time.Duration) error {
	timer := time.NewTimer(max(t, 1))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return ctx.Err()
	case <-d.dark:
		return errDark
	}
	if d.isDark() {
		return errDark
	}
	return nil
}
