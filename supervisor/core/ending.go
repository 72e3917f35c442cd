package core

import (
	"time"

	"healthd/runtime"
)

// Ender says who ended a run. The journal keeps it by number, so new ones come last.
type Ender uint8

// Who can have ended a run.
const (
	NotEnded        Ender = iota // the run goes on, or there was none
	EndedByItself                // its process ended: the restart policy decides
	EndedByHealthd               // healthd stopped it: Action.Stopping says why
	EndedByOperator              // an operator stopped or killed it without healthd: it stays stopped
	EndedByEngine                // it ended with its engine or its host: healthd starts it again
	EndedUnseen                  // nobody watched, and there is no evidence: healthd leaves it alone
)

// Ending is the evidence of who ended a run: stop signals, stop requests that the engine
// carried out, restarts of the engine, and healthd's own stop. Who gives the answer. News
// may come late, more than once and in any order that engines produce; the answer is the
// same. The first row that applies decides:
//
//	evidence                                                    who ended the run
//	------------------------------------------------------------------------------------
//	a signal from before the run began                          none: for the previous run
//	a signal more than 2 s after the run ended                  none: for the next run
//	a signal that stops nothing (HUP, USR1, …)                  none
//	a signal that the engine sent at its own start              the engine
//	healthd's own stop: one stop signal for each call, and      healthd
//	  KILL when the grace period is over
//	a KILL at the end of healthd's grace period, whose stop     healthd
//	  signal is told late
//	the stop signal of healthd's stop of the previous run,      healthd
//	  which had just ended by itself
//	a KILL of a stop that `healthd restart` has overruled       healthd
//	any other stop signal, and the engine restarts before       the engine
//	  healthd has seen it accept a connection
//	any other stop signal, but the run lives on for its grace   none: it has survived
//	  period and 10 s more
//	any other stop signal                                       an operator
//	a stop request carried out that was not healthd's           an operator
//	none of these, while healthd was stopping the run           healthd
//	the engine or the host restarted, and the run ended with it the engine
//	the same, but the run ended long before the others of its   unknown
//	  engine
//	healthd finds the run ended, and nobody had watched it      unknown
//	none of these                                               itself
type Ending struct {
	By Ender `json:"by,omitempty"` // the answer; NotEnded while the run goes on

	// healthd's own stop, as the engine reports it.
	OwnSignals int       `json:"ownSignals,omitempty"` // stop signals of healthd's calls
	KillDue    time.Time `json:"killDue,omitzero"`     // engine's time from which a KILL is healthd's
	Overruled  bool      `json:"overruled,omitempty"`  // an operator asked healthd for a restart after stop signals of others

	// Stop signals of others.
	First       time.Time `json:"first,omitzero"`        // engine's time of the first one; zero: none
	FirstSignal int       `json:"firstSignal,omitempty"` // number of the first one
	Overtaken   Cause     `json:"overtaken,omitempty"`   // why healthd was stopping the run when First came
	Last        time.Time `json:"last,omitzero"`         // engine's time of the newest one, which may be for the next run
	ForgetAt    time.Time `json:"forgetAt,omitzero"`     // when a run that still lives has survived them
	Survived    bool      `json:"survived,omitempty"`    // the run has survived stop signals
	CarriedOut  bool      `json:"carriedOut,omitempty"`  // the engine carried out a stop request of others, told after the end

	// Restarts of the engine.
	MaybeEngine bool `json:"maybeEngine,omitempty"` // the stop signals may come from an engine that shuts down
	WithEngine  bool `json:"withEngine,omitempty"`  // the run ended with its engine, which restarted
	LongBefore  bool `json:"longBefore,omitempty"`  // but the run had ended long before the engine did
	Unwatched   bool `json:"unwatched,omitempty"`   // nobody watched the engine when the run ended
}

// EngineLife is what healthd knows of the time since the engine's last start.
type EngineLife struct {
	Restarted    bool      // the engine restarted since a daemon last heard all its news, and healthd has not caught up yet
	KilledBefore time.Time // at its start the engine killed all runs that began before this moment; zero: none
}

const (
	killSignal = 9 // SIGKILL, which engines send when the grace period is over

	killSlack = 100 * time.Millisecond // a KILL may seem to come this much before the end of the grace period
	killLate  = 2 * time.Second        // a signal may seem to come this long after the end that it caused

	// engineGrace is the stop timeout that engines use for a container without its own.
	engineGrace = 10 * time.Second
)

// Who returns who ended the run, by the evidence so far. stopping is why healthd was
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

// Signalled says that somebody else sent the run a stop signal, and that healthd has not
// forgotten it yet.
func (e *Ending) Signalled() bool { return !e.First.IsZero() }

// next returns the evidence that the next run begins with: a stop signal for it may be
// told before its start is.
func (e *Ending) next(startedAt time.Time) Ending {
	if e.Last.Before(startedAt) {
		return Ending{}
	}
	return Ending{First: e.Last, Last: e.Last, ForgetAt: e.ForgetAt, MaybeEngine: e.MaybeEngine}
}

// evidence is what Ending compares news with: the run, and healthd's own calls.
type evidence struct {
	container   *runtime.Container
	startedAt   time.Time // of the run, by the engine's clock
	finishedAt  time.Time // of the run, by the engine's clock; zero: it has not ended
	alive       bool
	stopping    Cause         // why healthd stops the run
	grace       time.Duration // of healthd's stop
	stopsSent   int           // stop calls of the run that have left for the engine
	openCall    bool          // the engine may still carry out a stop call, or tell of one
	earlierStop bool          // a stop call for the previous run is under way
	starting    bool          // a start call is under way
	calling     bool          // any call is under way
	now         time.Time
}

// signal is the news of a signal.
type signal struct {
	number      int
	at          time.Time  // engine's time
	newestStart time.Time  // newest start that earlier events told; zero: none
	life        EngineLife // of the engine that tells it
}

// meaning is what a signal turns out to be.
type meaning uint8

const (
	meansNothing     meaning = iota // a repetition, for another run, or a signal that stops nothing
	meansOwn                        // of healthd's stop
	meansEarlierStop                // of healthd's stop of the previous run, and it hit this run
	meansCorrected                  // of healthd's stop, and so was the KILL that seemed to be an operator's
	meansOperator                   // an operator, or an engine that shuts down, stops the run
	meansNextRun                    // the same for the next run, which healthd has not observed yet
)

// signal applies the news of a signal, and returns what it means.
func (e *Ending) signal(s signal, v *evidence) meaning {
	switch {
	case !v.container.Stops(s.number), v.before(s.at, v.startedAt), v.sentAtEngineStart(s):
		return meansNothing
	case e.isLateOwnSignal(s, v):
		e.KillDue, e.OwnSignals = s.at.Add(v.grace-killSlack), 1
		e.First, e.MaybeEngine = time.Time{}, false
		return meansCorrected
	}
	next := v.ofNextRun(s.at)
	switch {
	case !next && v.fromEarlierStop(s):
		e.OwnSignals = 1
		return meansEarlierStop
	case !next && e.countOwn(s, v):
		return meansOwn
	case !s.at.After(e.Last) && !e.Last.After(v.now):
		return meansNothing
	case !next && e.Overruled && v.stopping != NoCause && s.number == killSignal:
		e.Last = s.at
		return meansOwn
	}
	e.Last = s.at
	if next {
		e.MaybeEngine = true
		return meansNextRun
	}
	e.noteOperator(s, v)
	return meansOperator
}

// noteOperator notes a stop signal that is not healthd's. A KILL after a TERM belongs to
// the same stop.
func (e *Ending) noteOperator(s signal, v *evidence) {
	if !e.First.IsZero() && !e.First.Before(v.container.StartedAt) {
		return
	}
	e.First, e.FirstSignal, e.Overtaken = s.at, s.number, NoCause
	if v.stopsSent > 0 {
		e.Overtaken = v.stopping
	}
	e.MaybeEngine = true
}

// countOwn counts a signal that comes from one of healthd's stop calls, and says whether it
// does. A call shows as one
// stop signal, and KILL when the grace period after it is over. All other signals are
// an operator's. The engine may carry out a call, and tell of it, after healthd gave the
// call up, so only the engine's times count.
func (e *Ending) countOwn(s signal, v *evidence) bool {
	if v.stopping == NoCause || !v.openCall || v.stopsSent <= 0 {
		return false
	}
	if s.number == v.container.StopSignalNumber() && e.OwnSignals <= v.stopsSent {
		due := s.at.Add(v.grace - killSlack)
		switch {
		case e.OwnSignals > 0 && due.Equal(e.KillDue):
			return true // a repetition of one that the journal already counted
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

// isLateOwnSignal says whether a signal is the late news of the stop signal of healthd's
// stop, after its KILL was taken for an operator's. That KILL then came at the end of
// healthd's grace period.
func (e *Ending) isLateOwnSignal(s signal, v *evidence) bool {
	return e.Signalled() && e.FirstSignal == killSignal && e.Overtaken != NoCause && e.OwnSignals == 0 &&
		s.number == v.container.StopSignalNumber() && !e.First.Before(s.at.Add(v.grace-killSlack))
}

// carriedOut takes in that the engine carried out a stop request, and says what it comes to.
// It is evidence of an operator's stop whose timeout was so long that its signal is
// forgotten, or lost.
func (e *Ending) carriedOut(at time.Time, life EngineLife, v *evidence) meaning {
	switch {
	case life.Restarted: // the engine has told the signals of every operator's stop, too
		return meansNothing
	case v.stopping != NoCause, v.before(at, v.startedAt):
		return meansNothing
	case v.alive: // the news of the end has not come yet
		if e.First.IsZero() {
			e.MaybeEngine = true
		}
		e.First = later(e.First, at)
		e.Last = e.First
		return meansOperator
	case v.calling: // it may be healthd's
		return meansNothing
	case v.ofNextRun(at):
		e.Last, e.MaybeEngine = later(e.Last, at), true
		return meansNextRun
	}
	if !e.Signalled() && !e.CarriedOut {
		e.CarriedOut, e.MaybeEngine = true, true
	}
	return meansOperator
}

// engineRestarted applies that the engine has restarted: signals that may have been its
// own were its own. The restarted engine tells anew what it still knows.
func (e *Ending) engineRestarted() {
	if !e.MaybeEngine {
		return
	}
	e.First, e.Last, e.CarriedOut, e.MaybeEngine = time.Time{}, time.Time{}, false, false
	e.WithEngine = e.By == EndedByOperator
}

// survived forgets the stop signals of a run that lives on: some programs use TERM or INT
// for something else.
func (e *Ending) survived() { e.First, e.Survived = time.Time{}, true }

// before says that at is earlier than then. A then in the future means that the clock was
// set back, and the comparison tells nothing.
func (v *evidence) before(at, then time.Time) bool { return at.Before(then) && !then.After(v.now) }

// ofNextRun says that a signal was for the run after the one that has ended. healthd's
// start call makes that run, or somebody started it and healthd has not observed it yet.
func (v *evidence) ofNextRun(at time.Time) bool {
	since := at.Sub(v.finishedAt)
	return !v.finishedAt.IsZero() && (since > killLate || since > 0 && v.starting)
}

// fromEarlierStop says that a signal comes from healthd's stop of the previous run. That
// run ended by itself before the signal came, and this run followed.
func (v *evidence) fromEarlierStop(s signal) bool {
	return v.earlierStop && v.alive && v.stopping == NoCause && s.number == v.container.StopSignalNumber()
}

// sentAtEngineStart says that the engine itself sent a signal. After an engine without
// live-restore was killed, its next start stops all containers that it finds running,
// before it answers any request.
func (v *evidence) sentAtEngineStart(s signal) bool {
	if !v.beganBeforeEngine(s.life, s.newestStart) {
		return false
	}
	// healthd may have missed a newer run and its start. Then the time tells whose signal
	// it was.
	c, patience := v.container, v.container.StopTimeout
	if patience < 0 {
		patience = engineGrace
	}
	return c.State.Alive() || s.at.Sub(c.FinishedAt) < killLate || s.at.Sub(s.life.KilledBefore) < patience+killLate
}

// beganBeforeEngine says that the newest run began before the engine's start, at which the
// engine killed all runs.
func (v *evidence) beganBeforeEngine(life EngineLife, newestStart time.Time) bool {
	started := v.container.StartedAt
	return !started.IsZero() && later(started, newestStart).Before(life.KilledBefore)
}

// Checks are the questions to the engine about the end of a run. The journal does not keep
// them: the next daemon asks again.
type Checks struct {
	InspectAt        time.Time // earliest next inspection: has the run survived its stop signals?
	MaybeEngineSince time.Time // since when Ending.MaybeEngine is true
	DialAt           time.Time // earliest next connection: is the engine shutting down?
}
