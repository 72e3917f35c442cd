package core

import (
	"time"

	"healthd/runtime"
)

// Ender says who ended a run. It is written to the journal by number.
type Ender uint8

// Who can have ended a run.
const (
	NotEnded        Ender = iota // the run goes on, or there was none
	EndedByItself                // its process ended: the restart policy decides
	EndedByHealthd               // healthd stopped it: Action.Stopping says why
	EndedByOperator              // somebody stopped or killed it without healthd: it stays stopped
	EndedByEngine                // it ended with its engine or its host: it is started again
	EndedUnseen                  // nobody watched, and nothing tells: it is left alone
)

// Ending is the evidence of who ends a run. It takes in news of stop signals, of stop
// requests that were carried out and of the lives of the engine, knows healthd's own
// stop, and answers one question: Who. News may come in any order that engines produce
// and more than once. The first row that applies decides:
//
//	evidence                                                    who ended the run
//	------------------------------------------------------------------------------------
//	a signal before the run began                               none: the run before
//	a signal later than 2 s after the run ended                 none: the next run
//	a signal that stops nothing (HUP, USR1, …)                  none
//	a signal that the engine sent at its own start              the engine
//	healthd's stop: its stop signal once a call, and KILL       healthd
//	  from the end of its grace on
//	a KILL whose stop signal was told late, and was healthd's   healthd
//	the stop signal of healthd's stop of the run before, which  healthd
//	  had ended by itself
//	a KILL that ends a stop which `healthd restart` overruled   healthd
//	any other stop signal, and the engine was started anew      the engine
//	  before it was seen to take connections
//	any other stop signal, and the run lived on for its grace   none: it has survived
//	  and 10 s
//	any other stop signal                                       an operator
//	a stop request carried out that healthd did not make        an operator
//	healthd stops it, and nothing of the above                  healthd
//	the engine or the host was started anew, and it ended then  the engine
//	the same, but it ended long before the others of its engine nobody knows
//	it was found ended, and nobody had watched it               nobody knows
//	nothing of the above                                        itself
type Ending struct {
	By Ender `json:"by,omitempty"` // the answer, when the run has ended

	// healthd's own stop, by what the engine reported of it.
	OwnSignals int       `json:"ownSignals,omitempty"` // stop signals of our calls
	KillDue    time.Time `json:"killDue,omitzero"`     // engine's time from which KILL is of these calls
	Overruled  bool      `json:"overruled,omitempty"`  // an operator asked healthd for a restart after signals of others

	// Stop signals of others.
	First       time.Time `json:"first,omitzero"`        // engine's time of the first one; zero: none
	FirstSignal int       `json:"firstSignal,omitempty"` // its number
	Overtaken   Cause     `json:"overtaken,omitempty"`   // why healthd was stopping the run then
	Last        time.Time `json:"last,omitzero"`         // of the newest one, perhaps to a run that is not seen yet
	ForgetAt    time.Time `json:"forgetAt,omitzero"`     // when the run, if it still lives, has survived them
	Survived    bool      `json:"survived,omitempty"`    // it did, once
	CarriedOut  bool      `json:"carriedOut,omitempty"`  // a stop request of others was, after the run had ended

	// Lives of the engine.
	MaybeEngine bool `json:"maybeEngine,omitempty"` // the signals may be the engine's own, ending
	WithEngine  bool `json:"withEngine,omitempty"`  // the engine was started anew, which ended the run
	LongBefore  bool `json:"longBefore,omitempty"`  // but the run had ended long before
	Unwatched   bool `json:"unwatched,omitempty"`   // nobody watched the end
}

// EngineLife is what is known of an engine's present life, beside the signals that it
// tells of.
type EngineLife struct {
	Restarted   bool      // it began since a daemon last heard all of the engine, and not all is known again yet
	KilledUntil time.Time // the engine ended all runs from before that moment itself; zero: none
}

const (
	killSignal = 9 // SIGKILL, which engines send when the grace is over

	killSlack = 100 * time.Millisecond // KILL may seem to come that much before the grace is over
	killLate  = 2 * time.Second        // after the end that it caused a signal may seem to come

	// engineGrace is the stop timeout that engines use for a container without its own.
	engineGrace = 10 * time.Second
)

// Who answers who ended the run, by what is known now. stopping is why healthd was
// stopping it.
func (e *Ending) Who(stopping Cause) Ender {
	switch {
	case !e.First.IsZero(), e.CarriedOut:
		return EndedByOperator
	case stopping != NoCause:
		return EndedByHealthd
	case e.WithEngine && !e.LongBefore:
		return EndedByEngine
	case e.Unwatched, e.WithEngine:
		return EndedUnseen
	}
	return EndedByItself
}

// Signalled says that somebody else has sent the run a stop signal which it has not
// survived yet.
func (e *Ending) Signalled() bool { return !e.First.IsZero() }

// next is the evidence that a run begins with: of a signal that was for it, and whose
// news was faster than that of its start.
func (e *Ending) next(startedAt time.Time) Ending {
	if e.Last.Before(startedAt) {
		return Ending{}
	}
	return Ending{First: e.Last, Last: e.Last, ForgetAt: e.ForgetAt, MaybeEngine: e.MaybeEngine}
}

// evidence is what Ending is held against: the run, and healthd's own calls.
type evidence struct {
	container   *runtime.Container
	startedAt   time.Time
	finishedAt  time.Time // zero: it has not ended
	alive       bool
	stopping    Cause // why healthd stops it
	grace       time.Duration
	stopsSent   int  // stops of the run that have gone to the engine
	openCall    bool // one may still be carried out, or its news come
	earlierStop bool // a stop of the run before is under way
	starting    bool // a start is
	calling     bool // any call of ours is
	now         time.Time
}

// signal is the news of a signal.
type signal struct {
	number      int
	at          time.Time  // engine's
	newestStart time.Time  // that events had told of before; zero: none
	life        EngineLife // of the engine that tells it
}

// meaning is what a signal comes to.
type meaning uint8

const (
	meansNothing     meaning = iota // told before, of another run, or it stops nothing
	meansOwn                        // of healthd's stop
	meansEarlierStop                // of healthd's stop of the run before, which has hit this one
	meansCorrected                  // of healthd's stop, and what seemed to be somebody's is its KILL
	meansOperator                   // somebody wants the run stopped, or the engine ends
	meansNextRun                    // the same, but of the run after this one, not seen yet
)

// signal takes the news of a signal in, and says what it comes to.
func (e *Ending) signal(s signal, v *evidence) meaning {
	switch {
	case !v.container.Stops(s.number), v.before(s.at, v.startedAt), v.sentAtEngineStart(s):
		return meansNothing
	case e.isOwnToldLate(s, v):
		e.KillDue, e.OwnSignals = s.at.Add(v.grace-killSlack), 1
		e.First, e.MaybeEngine = time.Time{}, false
		return meansCorrected
	}
	next := v.ofNextRun(s.at)
	switch {
	case !next && v.fromEarlierStop(s):
		e.OwnSignals = 1
		return meansEarlierStop
	case !next && e.isOwn(s, v):
		return meansOwn
	case !s.at.After(e.Last) && !e.Last.After(v.now):
		return meansNothing
	case !next && e.Overruled && s.number == killSignal:
		e.Last = s.at
		return meansOwn
	}
	e.noteOperator(s, v, next)
	if next {
		return meansNextRun
	}
	return meansOperator
}

// noteOperator notes a signal that is not healthd's. KILL after TERM is one wish.
func (e *Ending) noteOperator(s signal, v *evidence, next bool) {
	e.Last = s.at
	if e.First.IsZero() || e.First.Before(v.container.StartedAt) || next {
		e.First, e.FirstSignal, e.Overtaken = s.at, s.number, NoCause
		if v.stopsSent > 0 {
			e.Overtaken = v.stopping
		}
		e.MaybeEngine = true
	}
}

// isOwn says whether a signal is of a stop call of ours, which shows as one stop signal
// and, when the grace after it is over, KILL; whatever comes beside these is not ours.
// The engine may carry a call out, and its news may come, after we gave it up, so only
// its own times count.
func (e *Ending) isOwn(s signal, v *evidence) bool {
	if v.stopping == NoCause || !v.openCall || v.stopsSent <= 0 {
		return false
	}
	if s.number == v.container.StopSignalNumber() && e.OwnSignals <= v.stopsSent {
		due := s.at.Add(v.grace - killSlack)
		switch {
		case e.OwnSignals > 0 && due.Equal(e.KillDue):
			return true // told again: more was remembered than noted as heard
		case e.OwnSignals == v.stopsSent:
			return false
		case e.OwnSignals == 0:
			e.KillDue = due
		}
		e.OwnSignals++
		return true
	}
	return s.number == killSignal && e.OwnSignals > 0 && !s.at.Before(e.KillDue)
}

// isOwnToldLate says that a signal is the one that healthd's stop began with, of which nobody
// had heard when its KILL seemed to be somebody's: KILL came when the grace was over.
func (e *Ending) isOwnToldLate(s signal, v *evidence) bool {
	return e.Signalled() && e.FirstSignal == killSignal && e.Overtaken != NoCause && e.OwnSignals == 0 &&
		s.number == v.container.StopSignalNumber() && !e.First.Before(s.at.Add(v.grace-killSlack))
}

// carriedOut takes in that a stop request was carried out, which tells of an operator's
// stop with so long a timeout that its signal was forgotten. It says whether that is news.
func (e *Ending) carriedOut(at time.Time, life EngineLife, v *evidence) bool {
	switch {
	case life.Restarted: // if it was anybody else's, its signal was told as well
		return false
	case v.stopping != NoCause, v.before(at, v.startedAt):
		return false
	case v.alive: // the news of the end is slower
		if e.First.IsZero() {
			e.MaybeEngine = true
		}
		e.First = later(e.First, at)
		e.Last = e.First
		return true
	case v.calling: // perhaps it is ours
		return false
	}
	if !e.Signalled() && !e.CarriedOut {
		e.CarriedOut, e.MaybeEngine = true, true
	}
	return true
}

// engineRestarted takes in that the engine was started anew: signals that may have been
// its own were, and what the new life knows of, it tells.
func (e *Ending) engineRestarted() {
	if !e.MaybeEngine {
		return
	}
	e.First, e.Last, e.CarriedOut, e.MaybeEngine = time.Time{}, time.Time{}, false, false
	e.WithEngine = e.By == EndedByOperator
}

// survived takes in that the run lives on although it was sent stop signals: some
// programs take TERM or INT for something else.
func (e *Ending) survived() { e.First, e.Survived = time.Time{}, true }

// before says that at was before the moment then, unless the clock was set back since.
func (v *evidence) before(at, then time.Time) bool { return at.Before(then) && !then.After(v.now) }

// ofNextRun says that a signal was for the run after the one that has ended: our call
// makes it, or somebody has begun it and that is not seen yet.
func (v *evidence) ofNextRun(at time.Time) bool {
	since := at.Sub(v.finishedAt)
	return !v.finishedAt.IsZero() && (since > killLate || since > 0 && v.starting)
}

// fromEarlierStop says that a signal is of our stop of the run before, which was faster with
// ending by itself and was followed by this one.
func (v *evidence) fromEarlierStop(s signal) bool {
	return v.earlierStop && v.alive && v.stopping == NoCause && s.number == v.container.StopSignalNumber()
}

// sentAtEngineStart says that the engine sent a signal itself: without live-restore an
// engine that was killed ends all that it finds at its start, before it answers anybody.
func (v *evidence) sentAtEngineStart(s signal) bool {
	if !v.fromBefore(s.life, s.newestStart) {
		return false
	}
	// Where a newer run was not seen, nor its start, the moment tells whose it was.
	c, patience := v.container, v.container.StopTimeout
	if patience < 0 {
		patience = engineGrace
	}
	return c.State.Alive() || s.at.Sub(c.FinishedAt) < killLate || s.at.Sub(s.life.KilledUntil) < patience+killLate
}

// fromBefore says that the newest run began before its engine ended all that it found.
func (v *evidence) fromBefore(life EngineLife, newestStart time.Time) bool {
	started := v.container.StartedAt
	return !started.IsZero() && later(started, newestStart).Before(life.KilledUntil)
}

// Checks is what the engine is to be asked about an ending, and when. A daemon that comes
// back asks afresh.
type Checks struct {
	InspectAt     time.Time // whether the run has survived stop signals
	DoubtfulSince time.Time // since when the signals may be the engine's own
	DialAt        time.Time // whether it takes new connections
}
