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
	maxInspections = 8
	// slowAfter is when an inspection no longer counts towards maxInspections, so that
	// hung ones do not hold up the others.
	slowAfter = time.Second
	// historyPatience is how long the first list of a connection waits for the stream to come
	// to the newest event that is known.
	historyPatience = 5 * time.Second
)

// session is one connection to an engine: a loop that owns the view, and the
// goroutines that make the calls to the engine.
type session struct {
	w    *Watcher
	v    *view
	send *sender
	ctx  context.Context
	wg   sync.WaitGroup

	events    chan receivedEvent
	overflow  chan struct{}
	ended     chan error
	inspected chan inspectResult
	listed    chan listResult
	pinged    chan error

	inspectionStarts []time.Time // of the inspections under way that are not slow
	listReason       string      // of the list requested or being delivered; empty when there is none
	listApplied      bool        // the view has the list, not all of it is delivered yet
	nextListReason   string      // of the list to make next; empty when there is none
	pinging          bool
	synced           bool

	startedAt      time.Time
	lastContact    time.Time // newest event or answer of the engine
	relistAt       time.Time
	lossyListAfter time.Time // earliest time of the next list with RelistLossy
}

type receivedEvent struct {
	ev Event
	at time.Time
}

type inspectResult struct {
	e         *entry
	startedAt time.Time
	c         *Container
	kills     []Event // from the engine's history, for an end that no event explained
	err       error
}

type listResult struct {
	all   []Summary
	clock time.Duration // Update.ClockOffset
	err   error
}

// session subscribes, lists and follows the stream until the connection breaks. It
// returns whether a Synced was sent, and why the connection broke.
func (w *Watcher) session(ctx context.Context, v *view, send *sender, reason string) (bool, error) {
	ctx, cancel := context.WithCancel(ctx)
	select {
	case <-w.Refresh: // the first list is as good
	default:
	}
	s := &session{
		w: w, v: v, send: send, ctx: ctx,
		events: make(chan receivedEvent, queueSize), overflow: make(chan struct{}, 1), ended: make(chan error, 1),
		inspected: make(chan inspectResult), listed: make(chan listResult), pinged: make(chan error),
		nextListReason: reason, startedAt: time.Now(), lastContact: time.Now(), relistAt: time.Now().Add(w.relist()),
	}
	defer s.wg.Wait()
	defer cancel()
	s.v.clockOffset = s.readClock()
	since := v.subscribeFrom(time.Now().Add(s.v.clockOffset))
	stream, err := subscribe(ctx, w.Source, since)
	if err != nil {
		return false, err
	}
	s.wg.Go(func() { s.readEvents(stream) })
	if err := s.announce(since); err != nil {
		return false, err
	}
	s.v.connected(time.Now())
	err = s.loop()
	return s.synced, err
}

// readEvents never waits for the loop: Docker drops events for a slow reader and does
// not say so.
func (s *session) readEvents(stream Stream) {
	for {
		ev, err := stream.Next()
		if err != nil {
			s.ended <- err
			return
		}
		select {
		case s.events <- receivedEvent{ev, time.Now()}:
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
		if err := s.advance(); err != nil {
			return err
		}
		timer.Reset(max(time.Until(s.nextDue()), time.Microsecond))
		select {
		case <-s.ctx.Done():
			return s.ctx.Err()
		case ev := <-s.events:
			s.applyEvent(ev)
			s.drainEvents()
		case <-s.overflow:
			s.v.lossy = true
		case err := <-s.ended:
			s.drainEvents()
			return errors.Join(fmt.Errorf("%w: %w", ErrStreamEnded, err), s.flush())
		case r := <-s.inspected:
			if isNotListening(r.err) {
				s.drainEvents()
				return errors.Join(r.err, s.flush())
			}
			s.finishInspection(r)
		case l := <-s.listed:
			s.drainEvents()
			if l.err != nil {
				return errors.Join(fmt.Errorf("cannot list the containers: %w", l.err), s.flush())
			}
			s.lastContact, s.v.clockOffset = time.Now(), l.clock
			s.v.applyList(l.all, s.lastContact)
			s.listApplied = true
		case err := <-s.pinged:
			if err != nil {
				return fmt.Errorf("the event stream is silent and the engine does not answer: %w", err)
			}
			s.pinging, s.lastContact = false, time.Now()
		case <-s.w.Refresh:
			s.nextListReason = RelistRefresh
		case <-timer.C:
		}
	}
}

// advance does everything that can be done without waiting.
func (s *session) advance() error {
	now := time.Now()
	s.v.runDue(now)
	s.inspect(now)
	if err := s.flush(); err != nil {
		return err
	}
	if s.listApplied && len(s.v.listPending) == 0 {
		if err := s.finishList(now); err != nil {
			return err
		}
	}
	s.scheduleList(now)
	if s.nextListReason != "" && s.listReason == "" && !s.awaitsHistory(now) {
		s.listReason, s.nextListReason, s.listApplied = s.nextListReason, "", false
		s.wg.Go(s.list)
	}
	if !s.pinging && now.Sub(s.lastContact) >= pingAfter {
		s.pinging = true
		s.wg.Go(s.ping)
	}
	return nil
}

// awaitsHistory says that the stream has not come to the newest event that is known. Until then
// there is no list: what the history tells is not to come after what the list shows.
func (s *session) awaitsHistory(now time.Time) bool {
	return !s.v.skipTo.IsZero() && now.Before(s.startedAt.Add(historyPatience))
}

// scheduleList decides whether a list has to be made, and why.
func (s *session) scheduleList(now time.Time) {
	switch {
	case s.nextListReason != "":
		s.v.lossy = false // that list shows what was missed
	case s.v.lossy && !now.Before(s.lossyListAfter):
		s.v.lossy, s.nextListReason, s.lossyListAfter = false, RelistLossy, now.Add(lossyPause)
	case !now.Before(s.relistAt):
		s.nextListReason, s.relistAt = RelistInterval, now.Add(s.w.relist())
	}
}

func (s *session) finishList(now time.Time) error {
	s.w.log().Debug("containers listed", zap.String("runtime", s.w.Name), zap.String("reason", s.listReason),
		zap.Int("containers", len(s.v.entries)))
	u := Update{Kind: Synced, Reason: s.listReason, Time: now, Lag: s.v.takeLag(), SeenUntil: s.v.seenUntil(), NotInspected: s.v.notInspected(), Unseen: s.v.unseen(), ClockOffset: s.v.clockOffset}
	s.listReason, s.listApplied, s.synced, s.v.synced = "", false, true, true
	s.relistAt = now.Add(s.w.relist())
	return s.send.one(u)
}

// nextDue returns when advance has something to do that no message announces.
func (s *session) nextDue() time.Time {
	next := s.relistAt
	if s.listReason != "" || s.nextListReason != "" {
		next = time.Now().Add(time.Hour)
	}
	if s.v.lossy {
		next = earlier(next, s.lossyListAfter)
	}
	if s.nextListReason != "" && s.listReason == "" { // see awaitsHistory
		next = earlier(next, s.startedAt.Add(historyPatience))
	}
	if !s.pinging {
		next = earlier(next, s.lastContact.Add(pingAfter))
	}
	if t := s.v.nextDue(); !t.IsZero() {
		next = earlier(next, t)
	}
	if len(s.v.inspectQueue) > 0 && len(s.inspectionStarts) > 0 {
		next = earlier(next, s.inspectionStarts[0].Add(slowAfter))
	}
	return next
}

func (s *session) applyEvent(r receivedEvent) {
	s.lastContact = r.at
	lag := r.at.Add(s.v.clockOffset).Sub(r.ev.Time)
	if s.v.replaying {
		lag = 0
	}
	s.v.applyEvent(r.ev, lag, r.at)
}

// drainEvents applies the events that were read before now.
func (s *session) drainEvents() {
	for {
		select {
		case ev := <-s.events:
			s.applyEvent(ev)
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

// inspect starts inspections, up to maxInspections at once.
func (s *session) inspect(now time.Time) {
	for len(s.inspectionStarts) > 0 && now.Sub(s.inspectionStarts[0]) >= slowAfter {
		s.inspectionStarts = s.inspectionStarts[1:]
	}
	for len(s.inspectionStarts) < maxInspections {
		e := s.v.nextToInspect()
		if e == nil {
			return
		}
		s.inspectionStarts = append(s.inspectionStarts, now)
		r, last := inspectResult{e: e, startedAt: now}, *e // a copy: the goroutine may not look at e
		last.causes = slices.Clone(e.causes)
		v := view{knownRun: s.v.knownRun, clockOffset: s.v.clockOffset}
		s.wg.Go(func() {
			ctx, cancel := context.WithTimeout(s.ctx, inspectTimeout)
			defer cancel()
			if r.c, r.err = s.w.Source.Inspect(ctx, e.id); r.err == nil && v.endUnexplained(&last, r.c, time.Now()) {
				r.kills = s.killEvents(r.c)
			}
			report(s.ctx, s.inspected, r)
		})
	}
}

// killEvents reads from the engine's history which signals were sent to the run that
// ended: the stream may have lost them.
func (s *session) killEvents(c *Container) []Event {
	ctx, cancel := context.WithTimeout(s.ctx, killEventsTimeout)
	defer cancel()
	events, err := s.w.Source.KillEvents(ctx, c.Run())
	if err != nil && s.ctx.Err() == nil {
		s.w.log().Warn("cannot ask the engine whether somebody stopped a container", zap.String("runtime", s.w.Name),
			zap.String("container", c.Name), zap.Error(err))
	}
	return events
}

func (s *session) finishInspection(r inspectResult) {
	if i := slices.Index(s.inspectionStarts, r.startedAt); i >= 0 {
		s.inspectionStarts = slices.Delete(s.inspectionStarts, i, i+1)
	}
	// Events that were read before the answer came may say why the container ended.
	s.drainEvents()
	now := time.Now()
	if r.err == nil {
		s.lastContact = now
	}
	if r.err != nil && !errors.Is(r.err, ErrNotFound) {
		s.w.log().Warn("container cannot be inspected", zap.String("runtime", s.w.Name),
			zap.String("id", r.e.id), zap.Error(r.err))
	}
	if r.c != nil {
		s.v.applyKills(r.e, r.c, r.kills, now)
	}
	s.v.applyInspection(r.e, r.c, r.err, now)
}

func (s *session) list() {
	ctx, cancel := context.WithTimeout(s.ctx, listTimeout)
	defer cancel()
	all, err := s.w.Source.List(ctx)
	report(s.ctx, s.listed, listResult{all, s.readClock(), err})
}

// readClock returns how far the engine's clock is ahead of healthd's; 0 when it does not
// tell.
func (s *session) readClock() time.Duration {
	ctx, cancel := context.WithTimeout(s.ctx, clockTimeout)
	defer cancel()
	at, err := s.w.Source.Clock(ctx)
	if err != nil || at.IsZero() {
		return 0
	}
	if d := time.Until(at); d.Abs() > clockTolerance {
		return d
	}
	return 0
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
