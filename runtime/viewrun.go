package runtime

import (
	"slices"
	"time"
)

// Which run of its container an event belongs to follows from the order of the stream: an
// engine tells the start of a run before all that happens to it. Times do not tell, because
// an engine's clock may be set back between two runs. An inspection may show a new run before
// the stream has come to its start event. Until then events are of an earlier run.

// told is what events told of a container's newest run.
type told struct {
	start time.Time // of its start event, or its start if an inspection told it first; zero: neither did
	lost  bool      // its start event is lost
	kill  bool      // a signal that Container.Stops
	// stopAt is when the newest signal was told that a stop begins with; zero: none was.
	stopAt time.Time
	// signals are the times of the newest signals.
	signals []time.Time
}

// runHint says which run the next event of e belongs to.
func (e *entry) runHint() RunHint {
	h := RunHint{Newer: e.newer, Started: e.told.start, StartLost: e.told.lost}
	if e.known != nil {
		h.Run = e.known.Run()
	}
	return h
}

// toldOf returns what events told of c's run.
func (e *entry) toldOf(c *Container) told {
	if e.toldStartOf(c) || e.known != nil && e.known.Run() == c.Run() && !e.newer {
		return e.told
	}
	return told{}
}

// toldStartOf says that the newest start event is that of c's run, which is not known's.
func (e *entry) toldStartOf(c *Container) bool {
	if e.known != nil && (!e.newer || e.known.Run() == c.Run()) {
		return false // it belongs to known's run, or to a newer one
	}
	return c.Run().IsStart(e.told.start) && !c.endedBefore(e.told.start)
}

// endedBefore says that a start event is of a run after c's, which has ended.
func (c *Container) endedBefore(start time.Time) bool {
	return !c.State.Alive() && !c.FinishedAt.IsZero() && !c.FinishedAt.Before(c.StartedAt) && start.After(c.FinishedAt)
}

// noteStart takes in a start event.
func (e *entry) noteStart(ev Event, now time.Time) {
	e.told = told{start: ev.Time}
	switch {
	case e.known == nil:
	case e.isOwnStart(ev):
		e.startTold = true
	case e.ofEarlierRun(ev, now): // its own is yet to come
	default:
		e.newer = true
	}
}

// isOwnStart says that ev is the start event of the known run.
func (e *entry) isOwnStart(ev Event) bool {
	return !e.startTold && !e.newer && e.known.Run().IsStart(ev.Time) && !e.known.endedBefore(ev.Time)
}

// ofEarlierRun says that an event belongs to a run before the known one, which an
// inspection showed before the stream came to it. Its start event follows soon, and until then
// the order decides. But that event may be long gone when the first list of a connection showed
// the run, and lost when the history of a later connection tells what came meanwhile: there the
// engine's own times decide, for a short time. A start in the engine's future shows that its
// clock was set back since.
func (e *entry) ofEarlierRun(ev Event, now time.Time) bool {
	switch {
	case e.known == nil, e.newer, e.startTold:
		return false
	case !e.found && now.Before(e.startDue):
		return true
	case now.Before(e.timesTellUntil):
		return !ev.Time.IsZero() && ev.Time.Before(e.known.StartedAt) && !e.startInFuture
	}
	return false
}

// noteObserved takes in that c is reported, of which e.known is still the container before.
func (v *view) noteObserved(e *entry, c *Container, now time.Time) {
	run := c.Run()
	switch {
	case c.State.Alive():
		e.endShownAt = time.Time{}
	case e.endShownAt.IsZero() || e.known.Run() != run:
		e.endShownAt = now
	}
	switch {
	case run == (Run{}): // a start that was told meanwhile is of its first run
		e.newer = e.newer || e.known == nil && !e.told.start.IsZero()
		return
	case e.known != nil && e.known.Run() == run:
		return
	case e.toldStartOf(c):
		e.newer, e.startTold = false, true
		return
	case (e.known == nil || e.newer) && c.endedBefore(e.told.start): // its own start came before that
		e.newer, e.startTold, e.found = true, true, !v.synced
		return
	}
	first := e.known == nil
	old := first && now.Add(v.clockOffset).Sub(c.StartedAt) > startEventDelay
	e.newer, e.startTold, e.found, e.told = false, first && v.knew(c), !v.synced || old, told{}
	if v.synced || e.shownInLife || v.engineKills && c.State.Alive() { // it began after the engine did
		e.told.start = c.StartedAt
	}
	e.startDue, e.startInFuture = now.Add(startEventDelay), v.inFuture(c.StartedAt)
	e.timesTellUntil = e.startDue
}

// inFuture says that a time of the engine's is in its future: its clock was set back since.
func (v *view) inFuture(at time.Time) bool {
	return at.After(time.Now().Add(v.clockOffset + clockTolerance))
}

// endedLongAgo says that known's run ended so long ago that news of it cannot come any more.
func (e *entry) endedLongAgo(now time.Time) bool {
	return e.known != nil && !e.newer && !e.endShownAt.IsZero() && now.Sub(e.endShownAt) > startEventDelay
}

// endedBeforeSignal says that known's run ended well before a signal, by the engine's own times. An
// engine tells a signal when it has sent it, which may be a moment after the end. If its clock was
// set back between the two, the signal seems to be one to the next run.
func (e *entry) endedBeforeSignal(ev Event) bool {
	return e.known != nil && !e.newer && !e.known.State.Alive() && !e.known.FinishedAt.IsZero() && ev.Time.Sub(e.known.FinishedAt) > signalSlack
}

// isOwnEnd says that ev is the end of known's run, which an inspection showed before the stream came
// to it.
func (e *entry) isOwnEnd(ev Event) bool {
	late := ev.Time.Sub(e.known.FinishedAt)
	return !e.dieEventSeen && !e.newer && !e.known.State.Alive() && late >= -signalSlack && late <= endEventDelay
}

// endEventDelay is how long after the end of a run its event may be. Podman makes it when it has
// tidied up, which takes its time on a busy host.
const endEventDelay = 5 * time.Second

// signalSlack is how long after the end of a run the engine may tell a signal to it.
const signalSlack = time.Second

// noteLostStart takes in that the start event of a new run must be lost, because the run gets
// a signal.
func (e *entry) noteLostStart() {
	e.newer, e.told = true, told{lost: true}
}

// knew says that the Watcher before observed c's run: its start event came then.
func (v *view) knew(c *Container) bool {
	if v.knownRun == nil {
		return false
	}
	run, _ := v.knownRun(c.ID)
	return run == c.Run() && run != Run{}
}

// endNotObserved says that the Watcher before did not observe how c's run ended: it observed a
// container last while that ran, or in an earlier run.
func (v *view) endNotObserved(c *Container) bool {
	if v.knownRun == nil {
		return false
	}
	run, alive := v.knownRun(c.ID)
	return alive || run != (Run{}) && run != c.Run()
}

// remembers says that the Watcher before observed a run of the container.
func (v *view) remembers(id string) bool {
	if v.knownRun == nil {
		return false
	}
	run, _ := v.knownRun(id)
	return run != Run{}
}

// splitCauses divides the events that came before the first Observed of a container into
// those of the run that it shows and those of a later one. Those of earlier runs are dropped.
func (v *view) splitCauses(e *entry, c *Container) (own, later []Update) {
	run, byTime := c.Run(), !v.knew(c) && !v.inFuture(c.StartedAt)
	startTold := slices.ContainsFunc(e.causes, func(u Update) bool { return run.IsStart(u.Of.Started) }) || run.IsStart(e.told.start)
	for _, u := range e.causes {
		switch {
		case !u.Of.Started.IsZero() && c.endedBefore(u.Of.Started):
			later = append(later, u)
		case run.IsStart(u.Of.Started):
			own = append(own, u)
		case startTold, byTime && u.beganBefore(c.StartedAt):
		case u.Of.Started.IsZero():
			own = append(own, u)
		default:
			later = append(later, u)
		}
	}
	for i := range own {
		own[i].Of.Run = run
	}
	for i := range later {
		later[i].Of.Run, later[i].Of.Newer = run, true
	}
	return own, later
}

// beganBefore says that the run that u belongs to, or u itself, came before that time.
func (u *Update) beganBefore(at time.Time) bool {
	began := u.Of.Started
	if began.IsZero() {
		began = u.Time
	}
	return !began.IsZero() && began.Before(at)
}

// connected takes in that a connection has begun: the engine's history may tell start events that
// the last connection lost, and what came before them.
func (v *view) connected(now time.Time) {
	for _, e := range v.entries {
		if e.known != nil && !e.newer && !e.startTold {
			e.timesTellUntil, e.startInFuture = now.Add(startEventDelay), v.inFuture(e.known.StartedAt)
		}
	}
}

// engineRestarted takes in that the engine has restarted: no start of its present life has
// been told yet.
func (v *view) engineRestarted(kills bool) {
	v.engineKills = kills
	for _, e := range v.entries {
		e.told.start, e.told.lost, e.shownInLife = time.Time{}, false, false
	}
}
