package runtime

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"
)

const (
	inspectors = 8
	// An inspection that takes longer no longer counts as one of inspectors, so
	// that hung ones do not hold up the others.
	slowAfter = time.Second
)

// session is one connection to an engine: a loop that owns the view, and the
// goroutines that wait for the engine on its behalf.
type session struct {
	w    *Watcher
	v    *view
	send *sender
	ctx  context.Context
	wg   sync.WaitGroup

	events    chan arrival
	overflow  chan struct{}
	ended     chan error
	inspected chan inspection
	listed    chan listing
	pinged    chan error

	flights []time.Time // starts of the inspections under way that are not slow
	reason  string      // of the list under way or being delivered; empty when there is none
	folded  bool        // the list is there, and is being delivered
	want    string      // reason for the next list; empty when there is none
	pinging bool
	synced  bool

	began    time.Time
	heard    time.Time // when the engine last gave a sign of life
	relistAt time.Time
	lossyAt  time.Time // no earlier list because of lost events
}

type arrival struct {
	ev Event
	at time.Time
}

type inspection struct {
	e     *entry
	began time.Time
	c     *Container
	kills []Event // of an end that no event explains, as the engine remembers
	err   error
}

type listing struct {
	all []Summary
	err error
}

// session subscribes, lists and follows the stream until the engine is lost. It
// says whether the list was delivered, and why the engine is lost.
func (w *Watcher) session(ctx context.Context, v *view, send *sender, reason string) (bool, error) {
	ctx, cancel := context.WithCancel(ctx)
	s := &session{
		w: w, v: v, send: send, ctx: ctx,
		events: make(chan arrival, queueSize), overflow: make(chan struct{}, 1), ended: make(chan error, 1),
		inspected: make(chan inspection), listed: make(chan listing), pinged: make(chan error),
		want: reason, began: time.Now(), heard: time.Now(), relistAt: time.Now().Add(w.relist()),
	}
	defer s.wg.Wait()
	defer cancel()
	since := v.begin(s.began)
	stream, err := subscribe(ctx, w.Source, since)
	if err != nil {
		return false, err
	}
	s.wg.Go(func() { s.read(stream) })
	if err := s.begin(since); err != nil {
		return false, err
	}
	err = s.loop()
	return s.synced, err
}

// read never waits for the loop: an engine that is kept waiting drops events
// without a word.
func (s *session) read(stream Stream) {
	for {
		ev, err := stream.Next()
		if err != nil {
			s.ended <- err
			return
		}
		select {
		case s.events <- arrival{ev, time.Now()}:
		default:
			select {
			case s.overflow <- struct{}{}:
			default:
			}
		}
	}
}

func (s *session) loop() error {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		if err := s.settleUp(); err != nil {
			return err
		}
		timer.Reset(max(time.Until(s.next()), time.Microsecond))
		select {
		case <-s.ctx.Done():
			return s.ctx.Err()
		case a := <-s.events:
			s.event(a)
			s.drain()
		case <-s.overflow:
			s.v.lossy = true
		case err := <-s.ended:
			s.drain()
			return errors.Join(fmt.Errorf("the event stream ended: %w", err), s.flush())
		case r := <-s.inspected:
			s.landed(r)
		case l := <-s.listed:
			if l.err != nil {
				return fmt.Errorf("cannot list the containers: %w", l.err)
			}
			s.drain()
			s.heard = time.Now()
			s.v.list(l.all)
			s.folded = true
		case err := <-s.pinged:
			if err != nil {
				return fmt.Errorf("the event stream is silent and the engine does not answer: %w", err)
			}
			s.pinging, s.heard = false, time.Now()
		case <-s.w.Refresh:
			s.want = RelistRefresh
		case <-timer.C:
		}
	}
}

// settleUp does everything that can be done without waiting.
func (s *session) settleUp() error {
	now := time.Now()
	s.v.due(now)
	s.inspect(now)
	if err := s.flush(); err != nil {
		return err
	}
	if s.folded && len(s.v.syncing) == 0 {
		if err := s.finishList(now); err != nil {
			return err
		}
	}
	s.wish(now)
	if s.want != "" && s.reason == "" {
		s.reason, s.want, s.folded = s.want, "", false
		s.wg.Go(s.list)
	}
	if !s.pinging && now.Sub(s.heard) >= pingAfter {
		s.pinging = true
		s.wg.Go(s.ping)
	}
	return nil
}

// wish notes that a list is wanted, and why.
func (s *session) wish(now time.Time) {
	switch {
	case s.want != "":
		s.v.lossy = false // that list will tell
	case s.v.lossy && !now.Before(s.lossyAt):
		s.v.lossy, s.want, s.lossyAt = false, RelistLossy, now.Add(lossyPause)
	case !now.Before(s.relistAt):
		s.want, s.relistAt = RelistInterval, now.Add(s.w.relist())
	}
}

func (s *session) finishList(now time.Time) error {
	s.w.log().Debug("containers listed", zap.String("runtime", s.w.Name), zap.String("reason", s.reason),
		zap.Int("containers", len(s.v.entries)))
	u := Update{Kind: Synced, Reason: s.reason, Time: now, Lag: s.v.takeLag(), SeenUntil: s.v.seenUntil(), NotInspected: s.v.notInspected()}
	s.reason, s.folded, s.synced = "", false, true
	s.relistAt = now.Add(s.w.relist())
	return s.send.one(u)
}

// next returns when settleUp has something to do that nobody reports.
func (s *session) next() time.Time {
	next := s.relistAt
	if s.reason != "" || s.want != "" {
		next = time.Now().Add(time.Hour)
	}
	if s.v.lossy {
		next = earlier(next, s.lossyAt)
	}
	if !s.pinging {
		next = earlier(next, s.heard.Add(pingAfter))
	}
	if t := s.v.next(); !t.IsZero() {
		next = earlier(next, t)
	}
	if len(s.v.queue) > 0 && len(s.flights) > 0 {
		next = earlier(next, s.flights[0].Add(slowAfter))
	}
	return next
}

func (s *session) event(a arrival) {
	s.heard = a.at
	lag := a.at.Sub(a.ev.Time)
	if a.ev.Time.Before(s.began) {
		lag = 0 // replayed
	}
	s.v.event(a.ev, lag)
}

// drain folds the events that were read before now.
func (s *session) drain() {
	for {
		select {
		case a := <-s.events:
			s.event(a)
		default:
			return
		}
	}
}

func (s *session) flush() error {
	out := s.v.out
	s.v.out = nil
	return s.send.all(out)
}

// inspect starts as many inspections as there is room for.
func (s *session) inspect(now time.Time) {
	for len(s.flights) > 0 && now.Sub(s.flights[0]) >= slowAfter {
		s.flights = s.flights[1:]
	}
	for len(s.flights) < inspectors {
		e := s.v.take()
		if e == nil {
			return
		}
		s.flights = append(s.flights, now)
		r, last := inspection{e: e, began: now}, lastKnown{e.known, e.stopped}
		s.wg.Go(func() {
			ctx, cancel := context.WithTimeout(s.ctx, inspectTimeout)
			defer cancel()
			if r.c, r.err = s.w.Source.Inspect(ctx, e.id); r.err == nil && last.leavesOpen(r.c) {
				r.kills = s.kills(r.c)
			}
			report(s.ctx, s.inspected, r)
		})
	}
}

// kills asks the engine for the signals of the run that has ended: events may be lost.
func (s *session) kills(c *Container) []Event {
	ctx, cancel := context.WithTimeout(s.ctx, killsTimeout)
	defer cancel()
	kills, err := s.w.Source.Kills(ctx, c.ID, c.StartedAt)
	if err != nil && s.ctx.Err() == nil {
		s.w.log().Warn("cannot ask whether somebody has ended a container", zap.String("runtime", s.w.Name),
			zap.String("container", c.Name), zap.Error(err))
	}
	return kills
}

func (s *session) landed(r inspection) {
	if i := slices.Index(s.flights, r.began); i >= 0 {
		s.flights = slices.Delete(s.flights, i, i+1)
	}
	// What was read before the answer came may tell why the container died.
	s.drain()
	now := time.Now()
	if r.err == nil {
		s.heard = now
	}
	if r.err != nil && !errors.Is(r.err, ErrNotFound) {
		s.w.log().Warn("container cannot be inspected", zap.String("runtime", s.w.Name),
			zap.String("id", r.e.id), zap.Error(r.err))
	}
	for _, ev := range r.kills {
		s.v.event(ev, 0)
	}
	s.v.inspected(r.e, r.c, r.err, now)
}

func (s *session) list() {
	ctx, cancel := context.WithTimeout(s.ctx, listTimeout)
	defer cancel()
	all, err := s.w.Source.List(ctx)
	report(s.ctx, s.listed, listing{all, err})
}

func (s *session) ping() {
	ctx, cancel := context.WithTimeout(s.ctx, pingTimeout)
	defer cancel()
	report(s.ctx, s.pinged, s.w.Source.Ping(ctx))
}

func report[T any](ctx context.Context, to chan<- T, v T) {
	select {
	case to <- v:
	case <-ctx.Done():
	}
}
