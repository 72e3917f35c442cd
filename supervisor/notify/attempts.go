package notify

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"healthd/supervisor/core"
)

// result is the end of an attempt.
type result struct {
	receiver, id string
	err          error
}

// newID returns the ID of a message: no receiver sees the same one of two messages.
func newID() string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	return hex.EncodeToString(id[:])
}

// send begins an attempt for a receiver if one is due, and returns when to look again.
func (s *rounds) send(ctx context.Context, r *Receiver, now time.Time) (next time.Time) {
	o := s.boxes[r.Name]
	o.expire(now)
	s.countLost(r, o)
	p, next := o.head(now)
	s.metrics.pending.WithLabelValues(r.Name).Set(float64(len(o.Queue)))
	if p == nil {
		return next
	}
	if p.saved == 0 {
		p.saved = s.out
	}
	if at := p.At.Add(saveWithin); s.saved < p.saved && now.Before(at) {
		return at // after a crash it would be told twice
	}
	o.attempt = true
	to, m := *r, p.Message
	s.running.Go(func() {
		err := s.try(ctx, &to, m)
		select {
		case s.results <- result{to.Name, m.ID, err}:
		case <-ctx.Done():
		}
	})
	return next
}

// attempt sends a message once.
func (n *Notifier) attempt(ctx context.Context, r *Receiver, m *Message) error {
	waiting, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	var err error
	switch {
	case r.Webhook != "":
		err = sendWebhook(waiting, r, m, time.Now())
	case len(r.Command) > 0:
		err = sendCommand(waiting, r.Command, m)
	default:
		err = sendChat(waiting, n.config.Chat, r.URL, m)
	}
	if err != nil && ctx.Err() == nil && errors.Is(waiting.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("it takes longer than %v", r.Timeout)
	}
	return err
}

// take takes in the end of an attempt.
func (s *rounds) take(r result, now time.Time) {
	o := s.boxes[r.receiver]
	if o == nil || !o.attempt || len(o.Queue) == 0 || o.Queue[0].Message.ID != r.id {
		return // of a receiver that a reload has replaced
	}
	if r.err != nil {
		s.metrics.count(r.receiver, failedResult, 1)
		s.problems.Set(r.receiver, fmt.Sprintf("cannot notify %s: %s (healthd notify test %[1]s)", r.receiver, clip(r.err.Error())))
		if o.failed(r.receiver, now) {
			s.record(core.EventNotifyFailed, "Cannot notify %s: %v: healthd keeps trying, and gives up what is older than %v (healthd notify test %[1]s)", r.receiver, clip(r.err.Error()), maxAge)
		}
		return
	}
	s.metrics.count(r.receiver, deliveredResult, 1)
	s.dirty = true
	s.problems.Set(r.receiver)
	if back, dropped := o.sent(); back {
		text := "all was delivered"
		if dropped > 0 {
			text = fmt.Sprintf("%d messages were given up", dropped)
		}
		s.record(core.EventNotifyBack, "Receiver %s can be notified again; %s", r.receiver, text)
	}
}

// countLost counts the messages that were given up. In an outage they are told of at its end.
func (s *rounds) countLost(r *Receiver, o *outbox) {
	if o.lost == 0 {
		return
	}
	s.metrics.count(r.Name, droppedResult, o.lost)
	if !o.failing {
		s.record(core.EventNotifyFailed, "Gave up %d messages to %s: more than %d waited, or for more than %v", o.lost, r.Name, maxPending, maxAge)
	}
	o.lost, s.dirty = 0, true
}

// save hands what is to be kept to the keeper, if it has changed.
func (s *rounds) save() {
	if !s.dirty {
		return
	}
	s.dirty = false
	s.out++
	s.keeper.keep(s.out, keptOf(s.seq, s.boxes))
}

func (s *rounds) takeSaved(done keptNews) {
	s.saved = max(s.saved, done.version)
	switch {
	case done.failed != nil:
		s.record(core.EventNotifyFailed, "Cannot keep what receivers were told: %v: after a restart of healthd they may be told again", done.failed)
	case done.back:
		s.record(core.EventNotifyBack, "What receivers were told is kept again")
	}
}
