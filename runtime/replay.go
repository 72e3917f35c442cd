package runtime

import (
	"context"
	"time"

	"go.uber.org/zap"
)

const (
	historyTimeout = 10 * time.Second
	historyUsual   = time.Second // from the connection until the engine's history has come
	historyMax     = time.Minute // the same on a busy host
)

// Replay says which of the events since the last connection the engine sends again.
type Replay uint8

// What an engine sends again.
const (
	ReplayUnknown  Replay = iota // some events may be lost
	ReplayComplete               // all of them
	ReplayRestart                // those since the engine's restart, which came after the last connection; see Update.EngineBegan
)

// EventHistory describes the past events, of all containers and actions, that an engine
// still has. An engine keeps a limited number, in memory, and loses them at a restart.
type EventHistory struct {
	// HasEvent says that it has the event of the moment that was asked for, and so all
	// events after it. The other fields are then not set.
	HasEvent bool
	Oldest   time.Time // of the oldest event that it has; zero: it has none
	Full     bool      // it may have dropped events since the engine started
	// Began is when the engine started, by its own clock, if it tells: after it had stopped
	// what it found running, and before it started anything. It is only set for a history
	// that is Full and has not the event that was asked for.
	Began time.Time
	// LiveRestore is the engine's setting of that name: containers outlive the engine.
	// Without it, an engine that was killed kills at its next start all containers that
	// still run. It is set where it matters: the history shows that the engine was restarted.
	LiveRestore bool
}

// restartedSince says that the engine was restarted after the event of that moment, which
// the history has not. An engine drops no event before its history is full; times do
// not matter then, for its clock may have been set back before it restarted. A full history
// tells nothing, so there the engine's own times decide. If its clock was set back since that
// event, the restart is not noticed.
func (h EventHistory) restartedSince(event time.Time) bool {
	return !h.Full || h.Began.After(event)
}

// replay says what a subscription from since on brings. isEvent says that since is the
// time of an event, not that of a connection to the engine.
func (h EventHistory) replay(since time.Time, isEvent bool) Replay {
	switch hasOlder := !h.Oldest.IsZero() && !h.Oldest.After(since); {
	case h.HasEvent:
		return ReplayComplete
	case !isEvent && hasOlder:
		return ReplayComplete
	case isEvent && h.restartedSince(since):
		return ReplayRestart
	}
	return ReplayUnknown
}

// announce sends Connected, with what the stream just subscribed to replays. The engine
// is asked after the subscription: it drops more events with time, and a stream does
// not outlive its engine, so the answer holds for the stream.
func (s *session) announce(since time.Time) error {
	u := Update{Kind: Connected, Time: s.startedAt, SeenUntil: s.v.seenUntil(), ClockOffset: s.v.clockOffset}
	isEvent := !s.v.newest.at.IsZero()
	s.v.skipUntil = s.startedAt.Add(historyMax)
	if !s.v.connectedBefore && !isEvent {
		s.v.skipBefore = since.Add(-clockTolerance) // its clock may be a little behind
		return s.send.one(u)
	}
	h, err := s.eventHistory(since)
	if err == nil {
		u.Replay = h.replay(since, isEvent)
	}
	switch {
	case u.Replay == ReplayRestart:
		u.EngineKills, u.EngineBegan = !h.Oldest.IsZero() && !h.LiveRestore, h.Began
		s.v.engineRestarted(u.EngineKills)
	case !isEvent: // nothing better than the times tells what is known
		s.v.skipBefore = since
	case u.Replay == ReplayComplete, err != nil:
		s.v.skipTo, s.v.skipCertain = since, u.Replay == ReplayComplete
	}
	return s.send.one(u)
}

func (s *session) eventHistory(since time.Time) (EventHistory, error) {
	ctx, cancel := context.WithTimeout(s.ctx, historyTimeout)
	defer cancel()
	h, err := s.w.Source.EventHistory(ctx, since)
	if err != nil && s.ctx.Err() == nil {
		s.w.log().Warn("cannot tell whether events were lost", zap.String("runtime", s.w.Name), zap.Error(err))
	}
	return h, err
}
