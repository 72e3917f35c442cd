package supervisor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"healthd/runtime"
)

// worldStream is an event stream of one daemon. Events arrive in order, a little late.
type worldStream struct {
	d     *worldDaemon
	ctx   context.Context
	queue []worldDelivery
	more  chan struct{} // buffered for one
	err   error
}

type worldDelivery struct {
	ev  runtime.Event
	at  time.Time
	old bool // of the history, up to the event that the daemon has subscribed from
}

func (s *worldStream) deliver(ev runtime.Event) {
	at := time.Now().Add(s.d.host.randomDuration("news", ev.ID+string(ev.Action), time.Millisecond, 100*time.Millisecond))
	if n := len(s.queue); n > 0 {
		at = later(at, s.queue[n-1].at.Add(1))
	}
	s.queue = append(s.queue, worldDelivery{ev: ev, at: at})
	s.wake()
}

func (s *worldStream) end(err error) {
	s.err, s.queue = err, nil
	s.wake()
}

func (s *worldStream) wake() {
	select {
	case s.more <- struct{}{}:
	default:
	}
}

// Next waits for the next event.
func (s *worldStream) Next() (runtime.Event, error) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		s.d.host.mu.Lock()
		var wait time.Duration
		switch {
		case len(s.queue) == 0 && s.err != nil:
			s.d.host.mu.Unlock()
			return runtime.Event{}, s.err
		case len(s.queue) == 0:
			wait = 24 * time.Hour
		default:
			wait = time.Until(s.queue[0].at)
		}
		if wait <= 0 {
			next := s.queue[0]
			s.queue = s.queue[1:]
			if !next.old {
				s.d.host.noteEventRead(s.d, next.ev)
			}
			s.d.host.mu.Unlock()
			return next.ev, nil
		}
		s.d.host.mu.Unlock()
		timer.Reset(wait)
		select {
		case <-s.more:
		case <-timer.C:
		case <-s.ctx.Done():
			return runtime.Event{}, s.ctx.Err()
		}
	}
}

// Subscribe implements runtime.Source. It takes so long that the jitter of the Watcher's
// back-off, which no seed controls, makes no difference.
func (d *worldDaemon) Subscribe(ctx context.Context, since time.Time) (runtime.Stream, error) {
	context.AfterFunc(ctx, func() {
		d.host.mu.Lock()
		defer d.host.mu.Unlock()
		d.disconnectedAt = time.Now()
	})
	d.host.mu.Lock()
	before := d.disconnectedAt
	d.host.mu.Unlock()
	if !before.IsZero() {
		if err := d.wait(ctx, time.Until(before.Add(afterJitter(time.Since(before))))); err != nil {
			return nil, err
		}
	}
	if err := d.wait(ctx, d.host.randomDuration("subscribe", "", time.Millisecond, 20*time.Millisecond)); err != nil {
		return nil, err
	}
	d.host.mu.Lock()
	defer d.host.mu.Unlock()
	if !d.host.reachable() || d.host.engine.shuttingDown {
		return nil, errUnreachable
	}
	s := &worldStream{d: d, ctx: ctx, more: make(chan struct{}, 1)}
	d.host.checkSubscription(d, since)
	order := d.host.engine.order
	for _, ev := range d.host.engine.history {
		s.queue = append(s.queue, worldDelivery{ev, time.Now(), order[ev.Time.UnixNano()] <= order[since.UnixNano()]})
	}
	d.host.engine.streams = append(d.host.engine.streams, s)
	return s, nil
}

// afterJitter returns the same time for every jitter that the Watcher may add to one
// delay.
func afterJitter(d time.Duration) time.Duration {
	for _, ms := range []time.Duration{130, 250, 500, 1000, 2000, 4000, 7900, 12500} {
		if d < ms*time.Millisecond {
			return ms * time.Millisecond
		}
	}
	return d
}

// EventHistory implements runtime.Source.
func (d *worldDaemon) EventHistory(ctx context.Context, at time.Time) (runtime.EventHistory, error) {
	if err := d.answer(ctx, "recall", ""); err != nil {
		d.host.mu.Lock()
		d.host.makeEngineEndUncertain(d, "nobody can tell whether events were lost")
		d.host.mu.Unlock()
		return runtime.EventHistory{}, err
	}
	d.host.mu.Lock()
	defer d.host.mu.Unlock()
	e := d.host.engine
	m := runtime.EventHistory{LiveRestore: e.liveRestore, Full: len(e.history) >= d.host.historyCap*200/worldHistory}
	for _, ev := range e.history {
		m.HasEvent = m.HasEvent || ev.Time.Equal(at)
	}
	if len(e.history) > 0 {
		m.Oldest = e.history[0].Time
	}
	if m.Full && !m.HasEvent && !e.began.After(e.now()) {
		m.Began = e.began
	}
	switch order := e.order[at.UnixNano()]; {
	case m.HasEvent:
	case m.Full && order > 0 && m.Began.After(at) && order <= e.lifeBegan && e.clockSetAt.IsZero():
		d.host.makeNewEndsUncertain("the engine was restarted, and has dropped events since")
	case m.Full, order == 0:
		d.host.makeEngineEndUncertain(d, "the engine has dropped too many events")
	}
	return m, nil
}

// KillEvents implements runtime.Source.
func (d *worldDaemon) KillEvents(ctx context.Context, run runtime.Run) ([]runtime.Event, error) {
	err := d.answer(ctx, "kills", run.ID)
	d.host.mu.Lock()
	defer d.host.mu.Unlock()
	if err != nil {
		if c := d.host.engine.find(run.ID); c != nil {
			c.lookupFailed = true
		}
		return nil, err
	}
	kills := runtime.FindKillsOf(run, worldHistory)
	for _, ev := range d.host.engine.history {
		kills.Add(ev)
	}
	return kills.Kills(), nil
}

// Clock implements runtime.Source.
func (d *worldDaemon) Clock(ctx context.Context) (time.Time, error) {
	if err := d.answer(ctx, "clock", ""); err != nil {
		return time.Time{}, err
	}
	d.host.mu.Lock()
	defer d.host.mu.Unlock()
	return d.host.engine.now(), nil
}

// Accept implements Restarter.
func (d *worldDaemon) Accept(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := d.answer(ctx, "accept", ""); err != nil {
		return err
	}
	d.host.mu.Lock()
	defer d.host.mu.Unlock()
	if d.host.engine.shuttingDown {
		return errUnreachable
	}
	return nil
}

// List implements runtime.Source.
func (d *worldDaemon) List(ctx context.Context) ([]runtime.Summary, error) {
	if err := d.answer(ctx, "list", ""); err != nil {
		return nil, err
	}
	d.host.mu.Lock()
	defer d.host.mu.Unlock()
	var all []runtime.Summary
	for _, c := range d.host.engine.containers {
		s := runtime.Summary{ID: c.info.ID, Name: c.info.Name, Labels: c.info.Labels, State: c.info.State, Fingerprint: c.info.Fingerprint}
		at := c.info.FinishedAt
		if c.info.State.Alive() {
			at = c.info.StartedAt
		}
		if !at.IsZero() {
			s.EarliestChange, s.LatestChange = at.Add(-2*time.Second), at.Add(2*time.Second)
		}
		all = append(all, s)
	}
	return all, nil
}

// Inspect implements runtime.Source and Restarter.
func (d *worldDaemon) Inspect(ctx context.Context, id string) (*runtime.Container, error) {
	if err := d.answer(ctx, "inspect", id); err != nil {
		return nil, err
	}
	d.host.mu.Lock()
	c := d.host.engine.find(id)
	if c == nil {
		d.host.mu.Unlock()
		return nil, fmt.Errorf("inspect %s: %w", id, runtime.ErrNotFound)
	}
	if d.host.engine.failLooks > 0 {
		d.host.engine.failLooks--
		d.host.mu.Unlock()
		return nil, errors.New("the engine is busy")
	}
	copied := c.info
	if owner := d.host.engine.find(copied.NetworkOwner); owner != nil {
		copied.NetworkOwnerStartedAt = owner.info.StartedAt
	} else {
		copied.NetworkOwnerGone = copied.NetworkOwner != ""
	}
	d.host.mu.Unlock()
	return &copied, d.wait(ctx, d.host.randomDuration("inspected", id, time.Millisecond, 10*time.Millisecond))
}

// Ping implements runtime.Source.
func (d *worldDaemon) Ping(ctx context.Context) error { return d.answer(ctx, "ping", "") }

const worldCallTimeout = 10 * time.Second

// answer is what all requests to the engine share. They take a moment; an engine whose
// calls hang may never answer.
func (d *worldDaemon) answer(ctx context.Context, what, id string) error {
	if err := d.wait(ctx, d.host.randomDuration(what, id, time.Millisecond, 10*time.Millisecond)); err != nil {
		return err
	}
	d.host.mu.Lock()
	hangs, reachable := d.host.callsHang && d.host.roll("hang "+what, id, 3) > 0, d.host.reachable()
	d.host.mu.Unlock()
	switch {
	case !reachable:
		return errUnreachable
	case !hangs:
		return nil
	}
	d.host.locked(func() { d.host.hangingCalls++ })
	err := d.wait(ctx, worldCallTimeout)
	d.host.locked(func() { d.host.hangingCalls--; d.host.disturbedAt = time.Now() })
	if err != nil {
		return err
	}
	return context.DeadlineExceeded
}

var errKilled = errors.New("the daemon was killed")

// wait waits for t. It ends early with the context or the daemon.
func (d *worldDaemon) wait(ctx context.Context, t time.Duration) error {
	timer := time.NewTimer(max(t, 1))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return ctx.Err()
	case <-d.killed:
		return errKilled
	}
	if d.isKilled() {
		return errKilled
	}
	return nil
}
