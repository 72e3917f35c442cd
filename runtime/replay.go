package runtime

import (
	"context"
	"time"

	"go.uber.org/zap"
)

const recallTimeout = 10 * time.Second

// Replay is what an engine can still tell of the time since it was last heard.
type Replay uint8

// What it can tell.
const (
	ReplayUnknown  Replay = iota // some events may be lost
	ReplayComplete               // every event since then comes again
	ReplayRestart                // the engine was started since then, and has forgotten
)

// Memory is what an engine remembers of its own events, of all kinds.
type Memory struct {
	// Has says that it remembers the event of the moment that was asked for, and so
	// everything after it. The other fields then tell nothing.
	Has    bool
	Oldest time.Time // of all that it remembers; zero: it remembers none
	Full   bool      // it may have forgotten older ones since it was started
	// LiveRestore says that runs go on over the end of the engine. Without it an
	// engine that was killed ends, at its next start, all that it finds.
	LiveRestore bool
}

// replay says what a subscription from since on brings. since is the time of an
// event, or merely of a connection to the engine.
func (m Memory) replay(since time.Time, event bool) Replay {
	switch older := !m.Oldest.IsZero() && !m.Oldest.After(since); {
	case m.Has:
		return ReplayComplete
	case !event && older:
		return ReplayComplete
	case event && !older && !m.Full:
		// It forgets nothing before it is full.
		return ReplayRestart
	}
	// Older events without that one are a clock that was set back.
	return ReplayUnknown
}

// begin tells what the stream just subscribed to brings of the time before it. Asking
// after the subscription makes the answer hold for it: an engine forgets more with
// time, and a stream does not outlive its engine.
func (s *session) begin(since time.Time) error {
	u := Update{Kind: Connected, Time: s.began, SeenUntil: s.v.seenUntil()}
	if s.v.met || !s.v.newest.IsZero() {
		m, known := s.recall(since)
		if known {
			u.Replay = m.replay(since, !s.v.newest.IsZero())
		}
		if u.Replay == ReplayRestart && !m.LiveRestore {
			u.KilledByEngineBefore = m.Oldest
		}
	}
	s.v.met = true
	return s.send.one(u)
}

// recall asks the engine, and says whether it has answered.
func (s *session) recall(since time.Time) (Memory, bool) {
	ctx, cancel := context.WithTimeout(s.ctx, recallTimeout)
	defer cancel()
	m, err := s.w.Source.Recall(ctx, since)
	if err != nil && s.ctx.Err() == nil {
		s.w.log().Warn("cannot tell whether events were lost", zap.String("runtime", s.w.Name), zap.Error(err))
	}
	return m, err == nil
}
