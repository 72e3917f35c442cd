package core

import (
	"slices"
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
//	a signal told before the start of the run                   none: for an earlier run
//	a signal told after the start of a newer run                none: for that run
//	a signal that stops nothing (HUP, USR1, …)                  none
//	a signal that the engine sent at its own start              the engine
//	healthd's own stop: one stop signal for each call, and      healthd
//	  KILL when the grace period is over
//	a KILL at the end of healthd's grace period, whose stop     healthd
//	  signal is told late, or lost
//	the stop signal of healthd's stop of the previous run,      healthd
//	  which had just ended by itself
//	a KILL of a stop that `healthd restart` has overruled       healthd
//	any other stop signal, and the engine restarts before       the engine
//	  healthd has seen it accept a connection
//	any other stop signal, but the run lives on for longer than none: it has survived
//	  the engine waits (othersGrace), and 10 s more
//	any other stop signal                                       an operator
//	a stop request carried out that was not healthd's           an operator
//	the run has survived a stop signal, and ended within        an operator, whose stop had a
//	  healthd's stop, and the engine has carried out more         timeout that the engine tells no
//	  stop requests than healthd made                             one
//	the run had ended when healthd decided to stop it for a     itself
//	  failed probe or hook, and no stop was sent
//	none of these, while healthd was stopping the run           healthd
//	the same, but it had not sent the stop, and nobody had      unknown
//	  watched the run
//	the engine restarted, but that has ended no run: this one   itself
//	  ended meanwhile
//	the engine or the host restarted, and the run ended with it the engine
//	the same, but the run ended long before the others of its   unknown
//	  engine
//	the engine restarted and has dropped events since, and the  unknown
//	  run ended after its start
//	healthd finds the run ended, and nobody had watched it      unknown
//	none of these                                               itself
type Ending struct {
	By     Ender `json:"by,omitempty"`     // the answer; NotEnded while the run goes on
	Untold bool  `json:"untold,omitempty"` // it is an operator, and no event says so: it may be an engine that shuts down

	// healthd's own stop, as the engine reports it.
	OwnSignals int       `json:"ownSignals,omitempty"` // stop signals of healthd's calls
	OwnAt      time.Time `json:"ownAt,omitzero"`       // engine's time of the first of them
	OwnHeardAt time.Time `json:"ownHeardAt,omitzero"`  // when healthd heard of it; zero: later than at once
	Overruled  bool      `json:"overruled,omitempty"`  // an operator asked healthd for a restart after stop signals of others

	// Stop signals of others.
	First       time.Time `json:"first,omitzero"`        // engine's time of the first one; zero: none
	FirstSignal int       `json:"firstSignal,omitempty"` // number of the first one
	Overtaken   Cause     `json:"overtaken,omitempty"`   // why healthd was stopping the run when First came
	Next        NextRun   `json:"next,omitzero"`         // to a newer run, which healthd has not observed yet
	ForgetAt    time.Time `json:"forgetAt,omitzero"`     // when a run that still lives has survived them
	Survived    bool      `json:"survived,omitempty"`    // the run has survived stop signals
	CarriedOut  bool      `json:"carriedOut,omitempty"`  // the engine carried out a stop request of others, told after the end

	Heard   eventTimes `json:"heard,omitzero"`    // of the newest signals to the run
	Stops   eventTimes `json:"stops,omitzero"`    // of the newest stop requests that the engine carried out
	GivenUp int        `json:"givenUp,omitempty"` // healthd's stop calls before the present stop, which the engine may carry out

	// Restarts of the engine.
	MaybeEngine bool `json:"maybeEngine,omitempty"` // the stop signals may come from an engine that shuts down
	MaybeEnded  bool `json:"maybeEnded,omitempty"`  // they did, and nobody has looked since whether the run has ended
	WithEngine  bool `json:"withEngine,omitempty"`  // the run ended with its engine, which restarted
	LongBefore  bool `json:"longBefore,omitempty"`  // but the run had ended long before the engine did
	Unwatched   bool `json:"unwatched,omitempty"`   // nobody watched the engine when the run ended, or the news of that is lost
	NeverSeen   bool `json:"neverSeen,omitempty"`   // healthd has found the run ended: it was never to go on
}

// eventTimes are the engine's times of the newest events of a kind, in nanoseconds: it may tell them again.
type eventTimes [4]int64

// note notes an event. known says that it was told before.
func (e *eventTimes) note(at time.Time) (known bool) {
	t := at.UnixNano()
	if slices.Contains(e[:], t) {
		return true
	}
	copy(e[1:], e[:])
	e[0] = t
	return false
}

// more says that there are more than n of them.
func (e *eventTimes) more(n int) bool { return n < len(e) && e[n] != 0 }

// NextRun is a stop signal of others to a run that healthd has not observed yet.
type NextRun struct {
	At      time.Time `json:"at,omitzero"`      // engine's time of the first one; zero: none
	Started time.Time `json:"started,omitzero"` // time of that run's start event; zero: not known
}

// EngineLife is what healthd knows of the time since the engine's last start.
type EngineLife struct {
	Restarted bool // the engine restarted since a daemon last heard all its news, and healthd has not caught up yet
	Kills     bool // at its start the engine killed all runs that were still there

	// Began is when the engine started, by its own clock, if it has dropped events since
	// then: what ended a run after that may be lost. Zero: none is lost.
	Began time.Time
}

// EndedSince says that a container's run ended in the engine's present life, and that the
// news of it may be lost. It compares the engine's own times: nothing else tells what came
// first. If the engine's clock was set back since its start, the run seems to have ended with
// the engine.
func (l EngineLife) EndedSince(c *runtime.Container) bool {
	return !l.Began.IsZero() && !c.State.Alive() && c.FinishedAt.After(l.Began)
}

const (
	killSignal = 9 // SIGKILL, which engines send when the grace period is over

	killSlack = 100 * time.Millisecond // a KILL may seem to come this much before the end of the grace period
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
// told before healthd observes it.
func (e *Ending) next(run runtime.Run) Ending {
	if e.Next.At.IsZero() || !e.Next.Started.IsZero() && !run.IsStart(e.Next.Started) { // none, or it was for a run in between
		return Ending{}
	}
	return Ending{First: e.Next.At, ForgetAt: e.ForgetAt, MaybeEngine: e.MaybeEngine, Heard: eventTimes{e.Next.At.UnixNano()}}
}

// evidence is what Ending compares news with: the run, and healthd's own calls.
type evidence struct {
	container   *runtime.Container
	run, before runtime.Run // the newest that healthd has observed, and the one before
	alive       bool
	stopping    Cause         // why healthd stops the run
	grace       time.Duration // of healthd's stop
	stopsSent   int           // stop calls of the run that have left for the engine
	sentAt      time.Time     // when the first of them left; zero: an earlier daemon sent it, or none did
	openCall    bool          // the engine may still carry out a stop call, or tell of one
	earlierStop bool          // a stop call for the previous run is under way, and its signal was not told yet
	calling     bool          // any call is under way
	now         time.Time
}

// news is what all events that concern the end of a run have.
type news struct {
	at      time.Time       // engine's time
	of      runtime.RunHint // the run that it belongs to
	late    bool            // from the engine's history
	foreign bool            // certainly not of healthd's stop
	next    bool            // told before the first observation of the run that it belongs to
	life    EngineLife      // of the engine that tells it
}

func newsOf(in *Input) news {
	return news{at: in.Time, of: in.Of, foreign: in.ByOthers, late: in.Late || in.Early, next: in.Early, life: in.Life}
}

// signal is the news of a signal.
type signal struct {
	news
	number int
}

func (s *signal) mayBeKill() bool { return s.number == killSignal || s.number == runtime.UnknownSignal }

// whichRun is the run that news belongs to, as seen from the newest that healthd has
// observed.
type whichRun uint8

const (
	earlierRun whichRun = iota
	presentRun
	nextRun // which healthd has not observed yet
)

// whichRun returns the run that news belongs to. It goes by the order of events: clocks may
// have been set between two runs. healthd's own inspections may be ahead of the events.
func (v *evidence) whichRun(n *news) whichRun {
	switch of := &n.of; {
	case of.Run == v.run && of.Newer:
		return nextRun
	case of.Newer && v.run.IsStart(of.Started), of.Run == v.run, of.Run == runtime.Run{} && !of.Newer:
		return presentRun
	case of.Run == v.before && of.Newer:
		return v.runOfStart(of.Started)
	case n.next:
		return nextRun
	}
	return earlierRun
}

// runOfStart returns the run that has a start event which is not the newest run's, but came after
// the run before. Only the engine's own times tell that it is a later one. Else it may be one
// between the two, or the engine's clock was set back.
func (v *evidence) runOfStart(start time.Time) whichRun {
	if start.UnixNano() > v.run.Started && !start.IsZero() {
		return nextRun
	}
	return presentRun
}

// meaning is what a signal turns out to be.
type meaning uint8

const (
	meansNothing     meaning = iota // a repetition, for an earlier run, or a signal that stops nothing
	meansOwn                        // of healthd's stop
	meansEarlierStop                // of healthd's stop of the previous run, and it hit this run
	meansCorrected                  // of healthd's stop, and so was the KILL that seemed to be an operator's
	meansOperator                   // an operator, or an engine that shuts down, stops the run
	meansNextRun                    // the same for the next run, which healthd has not observed yet
)

// signal applies the news of a signal, and returns what it means.
func (e *Ending) signal(s signal, v *evidence) meaning {
	which := v.whichRun(&s.news)
	switch {
	case !v.container.Stops(s.number), which == earlierRun, s.sentAtEngineStart():
		return meansNothing
	case which == nextRun: // also if it was heard of before, as one to the present run: its start event may be lost
		e.noteNext(s.news)
		return meansNextRun
	case e.Heard.note(s.at):
		return meansNothing
	case e.isLateOwnSignal(s, v):
		e.noteOwn(s, v)
		e.First, e.MaybeEngine = time.Time{}, false
		return meansCorrected
	case v.fromEarlierStop(s):
		e.noteOwn(s, v)
		return meansEarlierStop
	case e.isOwn(s, v):
		if s.number == v.container.StopSignalNumber() || s.number == runtime.UnknownSignal && e.OwnSignals < v.stopsSent {
			e.noteOwn(s, v)
		}
		return meansOwn
	case e.Overruled && v.stopping != NoCause && s.mayBeKill():
		return meansOwn
	}
	e.noteOperator(s, v)
	return meansOperator
}

// Unheard returns which of the signals to the run, oldest first, may not have been told before.
// Only the newest are remembered: if there were more, those before them were told, too.
func (e *Ending) Unheard(kills []runtime.Event) []runtime.Event {
	if e.Heard[len(e.Heard)-1] == 0 {
		return kills
	}
	first := slices.IndexFunc(kills, func(k runtime.Event) bool { return slices.Contains(e.Heard[:], k.Time.UnixNano()) })
	return kills[max(0, first):]
}

// noteOwn notes a stop signal of healthd's.
func (e *Ending) noteOwn(s signal, v *evidence) {
	if e.OwnSignals++; e.OwnSignals > 1 {
		return
	}
	e.OwnAt, e.OwnHeardAt = s.at, time.Time{}
	if !s.late {
		e.OwnHeardAt = v.now
	}
}

// noteNext notes a stop signal of others to a run that healthd has not observed yet.
func (e *Ending) noteNext(n news) {
	if e.Next.At.IsZero() || !e.Next.Started.Equal(n.of.Started) {
		e.Next = NextRun{n.at, n.of.Started}
	}
	e.MaybeEngine = true
}

// noteOperator notes a stop signal that is not healthd's. A KILL after a TERM belongs to
// the same stop.
func (e *Ending) noteOperator(s signal, v *evidence) {
	if s.of.Newer && v.run.IsStart(s.of.Started) { // which may be the start of a run right after this one, too
		e.Next = NextRun{s.at, s.of.Started}
	}
	if e.Signalled() {
		return
	}
	e.First, e.FirstSignal, e.Overtaken = s.at, s.number, NoCause
	if v.stopsSent > 0 {
		e.Overtaken = v.stopping
	}
	e.MaybeEngine = true
}

// isOwn says whether a signal comes from one of healthd's stop calls. A call shows as one
// stop signal, and KILL when the grace period after it is over. All other signals are
// an operator's. The engine may carry out a call, and tell of it, after healthd gave the
// call up.
func (e *Ending) isOwn(s signal, v *evidence) bool {
	switch {
	case v.stopping == NoCause, !v.openCall, v.stopsSent <= 0:
		return false
	case v.container.BeginsStop(s.number) && e.OwnSignals < v.stopsSent:
		return true
	}
	return s.mayBeKill() && (e.OwnSignals > 0 || v.graceOfCallIsOver(s)) && e.graceIsOver(s, v)
}

// graceOfCallIsOver says that a KILL came just when the grace period of healthd's call was over, by
// its own clock. The stop signal of that call is lost, or told late. A KILL that comes later
// may be an operator's, while a slow engine has not carried out the call.
func (v *evidence) graceOfCallIsOver(s signal) bool {
	since := v.now.Sub(v.sentAt)
	return !s.late && !v.sentAt.IsZero() && since >= v.grace-killSlack && since <= v.grace+freshNews
}

// graceIsOver says whether healthd's grace period was over at a KILL. What the engine tells
// at once is judged by healthd's own clock, which nobody sets: from the stop signal on, or, if
// that was told late, from healthd's call. For what it tells from its
// history there are only its own times; if the KILL seems to come before the stop signal,
// its clock was set back between the two.
func (e *Ending) graceIsOver(s signal, v *evidence) bool {
	due := v.grace - killSlack
	switch {
	case !s.late && !e.OwnHeardAt.IsZero() && v.now.Sub(e.OwnHeardAt) >= due:
		return true
	case e.OwnHeardAt.IsZero() && v.graceOfCallIsOver(s):
		return true
	case !v.sentAt.IsZero() && v.now.Sub(v.sentAt) < due:
		return false
	}
	d := s.at.Sub(e.OwnAt)
	return d >= due || d < 0
}

// isLateOwnSignal says whether a signal is the late news of the stop signal of healthd's
// stop, after its KILL was taken for an operator's. That KILL then came at the end of
// healthd's grace period.
func (e *Ending) isLateOwnSignal(s signal, v *evidence) bool {
	return e.Signalled() && e.FirstSignal == killSignal && e.Overtaken != NoCause && e.OwnSignals == 0 &&
		s.number == v.container.StopSignalNumber() && e.First.Sub(s.at) >= v.grace-killSlack
}

// carriedOut takes in that the engine carried out a stop request, and says what it comes to.
// It is evidence of an operator's stop whose timeout was so long that its signal is
// forgotten, or lost.
func (e *Ending) carriedOut(n news, v *evidence) meaning {
	which := v.whichRun(&n)
	others := n.foreign || which == presentRun && e.moreStopsThanCalls(n, v)
	switch {
	case n.life.Restarted && !n.sinceBegan(): // the engine has told the signals of every operator's stop, too
		return meansNothing
	case which == earlierRun, v.stopping != NoCause && !others:
		return meansNothing
	case which == nextRun:
		e.noteNext(n)
		return meansNextRun
	case v.alive: // the news of the end has not come yet
		if !e.Signalled() {
			e.First, e.MaybeEngine = n.at, true
		}
		return meansOperator
	case v.calling && !others: // it may be healthd's
		return meansNothing
	}
	if !e.Signalled() && !e.CarriedOut {
		e.CarriedOut, e.MaybeEngine = true, true
	}
	return meansOperator
}

// moreStopsThanCalls notes a stop request that was carried out. It says that it was an operator's, of a run
// that has survived the signal which such a request begins with: each call of healthd's explains one.
func (e *Ending) moreStopsThanCalls(n news, v *evidence) bool {
	return !e.Stops.note(n.at) && e.Survived && v.stopping != NoCause && v.stopping != ByOperator && e.Stops.more(e.GivenUp+v.stopsSent)
}

// engineRestarted applies that the engine has restarted: signals that may have been its
// own were its own. The restarted engine tells anew what it still knows.
func (e *Ending) engineRestarted() {
	if !e.MaybeEngine {
		return
	}
	e.MaybeEnded = e.Signalled()
	e.First, e.Next, e.CarriedOut, e.MaybeEngine = time.Time{}, NextRun{}, false, false
	e.Heard, e.Stops = eventTimes{}, eventTimes{}
	e.WithEngine = e.By == EndedByOperator
}

// survived forgets the stop signals of a run that lives on: some programs use TERM or INT
// for something else.
func (e *Ending) survived() { e.First, e.Survived = time.Time{}, true }

// fromEarlierStop says that a signal comes from healthd's stop of the previous run. That
// run ended by itself before the signal came, and this run followed.
func (v *evidence) fromEarlierStop(s signal) bool {
	return v.earlierStop && v.alive && v.stopping == NoCause && v.container.BeginsStop(s.number)
}

// sentAtEngineStart says that the engine itself sent a signal. After an engine without
// live-restore was killed, its next start stops all containers that it finds running,
// before it answers any request.
func (n *news) sentAtEngineStart() bool { return n.life.Kills && n.of.Old() && !n.sinceBegan() }

// sinceBegan says that news of the engine's present life lacks some of what came before.
func (n *news) sinceBegan() bool { return !n.life.Began.IsZero() && n.at.After(n.life.Began) }

// Checks are the questions to the engine about the end of a run. The journal does not keep
// them: the next daemon asks again.
type Checks struct {
	InspectAt        time.Time // earliest next inspection: has the run survived its stop signals?
	MaybeEngineSince time.Time // since when Ending.MaybeEngine is true
	DialAt           time.Time // earliest next connection: is the engine shutting down?
}
