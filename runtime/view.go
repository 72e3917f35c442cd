package runtime

import (
	"slices"
	"strings"
	"time"
)

const (
	// bookmarkEvery is how many events without an update make a Bookmark. It is small
	// against the 256 events that an engine remembers, a third of which exec events fill.
	bookmarkEvery = 16
	// causesMax bounds the causes kept for a container not yet inspected.
	causesMax = 16
)

// view holds what is known of an engine's containers. It works out which updates and
// inspections follow from a list, an event or an inspection. It does no I/O: it
// puts the updates to send into out, and the containers to inspect into inspectQueue.
type view struct {
	wanted   func(Traits) bool
	knownRun func(id string) (run Run, alive bool) // Watcher.KnownRun

	entries         map[string]*entry
	unwanted        map[string]bool                // IDs that wanted refused; true: it was reported before
	networkUsers    map[string]map[string]struct{} // container → those that use its network
	waiting         map[*entry]struct{}            // with unexplainedEnd or retryAt set
	listPending     map[*entry]struct{}            // in the present list, not yet delivered
	eventSeq        uint64                         // counts events, except exec events
	newest          mark                           // the newest event in the order of arrival; zero time: none was received
	firstConnect    time.Time                      // first attempt to connect, by the engine's clock
	streamFrom      time.Time                      // the present subscription's since
	skipTo          time.Time                      // events before the one of that time are known; zero: none is
	skipCertain     bool                           // it will come
	skipped         []Event                        // those that came before it
	skipBefore      time.Time                      // events of the history with older times are known; zero: none is
	skipUntil       time.Time                      // when the history has come for certain
	replaying       bool                           // events may come from the engine's history
	synced          bool                           // a list of this connection was delivered
	clockOffset     time.Duration                  // Update.ClockOffset
	engineKills     bool                           // Update.EngineKills of the present connection
	connectedBefore bool
	unobserved      map[*entry]mark     // events came, no Observed yet → newest event before them
	sinceUpdate     int                 // events since the newest update
	lag             time.Duration       // of the newest event, until an update carries it
	recentEvents    map[eventKey]uint64 // → its eventSeq
	recentOrder     []eventKey          // ring of recentMax, indexed by eventSeq

	out          []Update
	inspectQueue []*entry
	lossy        bool // an event did not fit what is known: others were lost
}

// recentMax is how many events are kept, to drop those that a replay sends again. An
// engine's history has 256.
const recentMax = 512

// mark is a place in the order of events.
type mark struct {
	seq uint64 // counts all events
	at  time.Time
}

type eventKey struct {
	id     string
	action Action
	time   int64
}

// entry is one container that is wanted, or may be.
type entry struct {
	id             string
	known          *Container // of the newest Observed; nil before the first
	reported       bool       // there was an Observed, perhaps of the Watcher before, or before wanted refused it and took it back
	causes         []Update   // to be sent with the first Observed
	stateFromEvent bool       // a create, start or die event came
	alive          bool       // has a main process, by the newest event or inspection
	told           told       // of its newest run
	newer          bool       // a start event came after known's: events are of a run not observed yet
	startTold      bool       // known's own start event came
	startDue       time.Time  // until when it may come
	found          bool       // the first list of a connection showed known's run, or the first inspection, long after its start
	timesTellUntil time.Time  // until when the engine's times tell what came before known's run
	startInFuture  bool       // they do not: known's start was in the engine's future when known was first shown, or when the connection began
	endShownAt     time.Time  // when known's end was shown; zero: it goes on
	shownInLife    bool       // it was shown in the engine's present life: newer runs began after the engine did
	inspectSeq     uint64     // eventSeq when its newest inspection began
	dieEventSeen   bool       // a die event came since it was last observed alive
	outdated       bool       // its newest inspection failed, or the connection broke before it
	pauseTold      bool       // a pause or its end was told since known: who looked in between knows another state

	inspect       inspectStage
	inspectAgain  bool // an event came during the inspection
	diedMeanwhile bool // a die event came during the inspection

	unexplainedEnd   *Container // an end that waits until unexplainedUntil for its cause
	unexplainedUntil time.Time
	retryAt          time.Time // of a failed inspection
	failures         int       // of inspections, in a row
	unseen           *Unseen   // as listed, while known is nil; its Err is nil until an inspection has failed
}

type inspectStage uint8

const (
	inspectIdle inspectStage = iota
	inspectQueued
	inspectRunning
)

func newView(wanted func(Traits) bool) *view {
	if wanted == nil {
		wanted = func(Traits) bool { return true }
	}
	return &view{
		wanted: wanted, entries: map[string]*entry{}, unwanted: map[string]bool{},
		networkUsers: map[string]map[string]struct{}{},
		waiting:      map[*entry]struct{}{}, listPending: map[*entry]struct{}{},
		unobserved: map[*entry]mark{}, recentEvents: map[eventKey]uint64{}, recentOrder: make([]eventKey, recentMax), replaying: true,
	}
}

// applyEvent takes in one event that was read now, lag after it happened; 0: not measured.
func (v *view) applyEvent(ev Event, lag time.Duration, now time.Time) {
	if v.isOldHistory(ev, now) {
		return
	}
	before := v.newest
	if !v.isNew(ev) {
		return
	}
	v.advance(ev)
	v.sinceUpdate++
	if lag > 0 {
		v.lag = lag
	}
	v.apply(ev, before, now)
	if v.sinceUpdate >= bookmarkEvery {
		v.emit(Update{Kind: Bookmark})
	}
}

// isOldHistory says that ev comes from the engine's history, from before what is known. It may
// come after the first list, when the host is busy.
func (v *view) isOldHistory(ev Event, now time.Time) bool {
	if !now.Before(v.skipUntil) {
		v.lossy = v.lossy || !v.skipTo.IsZero() // the engine said that it has that event
		v.skipTo, v.skipBefore, v.skipped = time.Time{}, time.Time{}, nil
	}
	switch {
	case ev.Time.Equal(v.skipTo):
		v.skipTo, v.skipped = time.Time{}, nil
	case !v.skipTo.IsZero():
		v.skipped = append(v.skipped[max(0, len(v.skipped)-recentMax+1):], ev)
		return true
	case ev.Time.IsZero(), !ev.Time.Before(v.skipBefore):
		v.skipBefore = time.Time{}
	default:
		if !v.connectedBefore { // the next connection can then tell whether the engine has restarted
			v.advance(ev)
		}
		// Or it is new, and the engine's clock was set back.
		v.lossy = v.lossy || v.synced && !now.Before(v.skipUntil.Add(historyUsual-historyMax))
		return true
	}
	return false
}

// apply takes in a new event; before is the newest one before it.
func (v *view) apply(ev Event, before mark, now time.Time) {
	if ev.Action == ActionExec {
		return
	}
	if ev.Action != ActionKill && len(v.networkUsers[ev.ID]) > 0 {
		v.inspectNetworkUsers(ev.ID, map[string]bool{ev.ID: true})
	}
	e := v.entryOf(ev)
	if e == nil {
		return
	}
	if ev.Action == ActionDestroy {
		v.remove(e, ev.Time)
		return
	}
	if _, ok := v.unobserved[e]; !ok && e.known == nil {
		v.unobserved[e] = before
	}
	e.pauseTold = e.pauseTold || ev.Action == ActionPause || ev.Action == ActionUnpause
	switch {
	case ev.Action == ActionStart:
		v.lossy = v.lossy || e.missedEnd(ev, now)
		e.alive, e.stateFromEvent = true, true
		e.noteStart(ev, now)
	case !e.ofEarlierRun(ev, now):
		v.emitCause(e, ev, now)
	}
	v.requestInspection(e)
}

// isNew says whether ev was not received before, and remembers it.
func (v *view) isNew(ev Event) bool {
	if ev.Action == ActionExec { // there are many, and receiving one twice does no harm
		return true
	}
	key := eventKey{ev.ID, ev.Action, ev.Time.UnixNano()}
	if _, known := v.recentEvents[key]; known && !ev.Time.IsZero() {
		return false
	}
	at := v.eventSeq % recentMax
	if old := v.recentOrder[at]; v.recentEvents[old] == v.eventSeq-recentMax {
		delete(v.recentEvents, old)
	}
	v.recentEvents[key], v.recentOrder[at] = v.eventSeq, key
	v.eventSeq++
	return true
}

// advance notes that the stream has come to ev.
func (v *view) advance(ev Event) {
	v.newest.seq++
	if !ev.Time.IsZero() {
		v.newest.at = ev.Time
	}
}

// subscribeFrom returns the time from which to subscribe now: the newest event's, else
// that of the first attempt to connect, so that no event since then is missed. now is by the
// engine's clock.
func (v *view) subscribeFrom(now time.Time) time.Time {
	if v.firstConnect.IsZero() {
		v.firstConnect = now
	}
	v.streamFrom = v.newest.at
	if v.streamFrom.IsZero() {
		v.streamFrom = v.firstConnect
	}
	return v.streamFrom
}

// notInspected returns the IDs that were listed but could not be inspected.
func (v *view) notInspected() []string {
	var ids []string
	for id, e := range v.entries {
		if e.known == nil || e.outdated {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// unseen returns the listed containers that could not be inspected once.
func (v *view) unseen() []Unseen {
	var all []Unseen
	for _, e := range v.entries {
		if e.unseen != nil && e.unseen.Err != nil {
			all = append(all, *e.unseen)
		}
	}
	slices.SortFunc(all, func(a, b Unseen) int { return strings.Compare(a.ID, b.ID) })
	return all
}

// seenUntil returns the time of the newest event that, with all before it, is covered by
// the updates up to now. Events of a container are held back until its first Observed.
func (v *view) seenUntil() time.Time {
	seen := v.newest
	for _, before := range v.unobserved {
		if before.seq < seen.seq {
			seen = before
		}
	}
	return seen.at
}

func (v *view) emit(u Update) {
	u.SeenUntil, u.Lag = v.seenUntil(), v.takeLag()
	v.out = append(v.out, u)
	v.sinceUpdate = 0
}

// takeLag returns the lag of the newest event, and 0 until the next one.
func (v *view) takeLag() time.Duration {
	lag := v.lag
	v.lag = 0
	return lag
}

// entryOf returns the entry of ev's container, and nil when that is not wanted.
func (v *view) entryOf(ev Event) *entry {
	e := v.entries[ev.ID]
	described := ev.Labels != nil && ev.Name != ""
	switch {
	case ev.Action == ActionDestroy:
		v.unwantedGone(ev.ID, ev.Time)
		return e
	case e != nil:
		// An event cannot make it unwanted: Docker puts labels and its own attributes
		// into one map, and a label of the same key is lost. The inspection can.
		return e
	case described && !v.wanted(ev.traits()):
		v.ignore(ev.ID)
		return nil
	case !described:
		if _, ok := v.unwanted[ev.ID]; ok {
			return nil
		}
	}
	return v.add(ev.ID)
}

// emitCause sends what only events say: signals, exit codes and stops.
func (v *view) emitCause(e *entry, ev Event, now time.Time) {
	if ev.Action == ActionKill && !v.replaying && (e.endedLongAgo(now) || e.endedBeforeSignal(ev)) {
		e.noteLostStart()
	}
	u := Update{ID: ev.ID, Time: ev.Time, Of: e.runHint(), Late: v.replaying}
	switch ev.Action {
	case ActionCreate:
		e.stateFromEvent = true
	case ActionKill:
		u.Kind, u.Signal = Killed, ev.Signal
		if e.known != nil {
			e.told.note(e.known, ev.Signal, ev.Time, now)
		}
	case ActionDie:
		u.Kind, u.ExitCode = Died, ev.ExitCode
		e.stateFromEvent = true
		v.lossy = v.lossy || e.known != nil && !e.alive && !e.isOwnEnd(ev)
		e.alive, e.dieEventSeen = false, true
		e.diedMeanwhile = e.diedMeanwhile || e.inspect == inspectRunning
		e.unexplainedEnd = nil
	case ActionStop:
		u.Kind, u.ByOthers = Stopped, ev.ByOthers
	}
	if u.Kind != 0 {
		v.emitOrKeep(e, u)
	}
}

// emitOrKeep sends u, or keeps it until the first Observed of its container.
func (v *view) emitOrKeep(e *entry, u Update) {
	if e.known != nil {
		v.emit(u)
		return
	}
	e.causes = append(e.causes[max(0, len(e.causes)-causesMax+1):], u)
}

// note notes a signal to c, which is told now.
func (t *told) note(c *Container, signal int, at, now time.Time) {
	t.signals = append(t.signals[max(0, len(t.signals)-causesMax+1):], at)
	t.kill = t.kill || c.Stops(signal)
	if c.BeginsStop(signal) {
		t.stopAt = now
	}
}

// missedEnd says whether a start event shows that a die event was lost: the container
// was running already.
func (e *entry) missedEnd(ev Event, now time.Time) bool {
	return e.known != nil && e.alive && e.known.State.Alive() && !ev.Time.IsZero() &&
		!e.isOwnStart(ev) && !e.ofEarlierRun(ev, now)
}

// nextToInspect returns the next container to inspect, and nil when there is none.
func (v *view) nextToInspect() *entry {
	for len(v.inspectQueue) > 0 {
		e := v.inspectQueue[0]
		v.inspectQueue = v.inspectQueue[1:]
		if v.entries[e.id] == e && e.inspect == inspectQueued {
			e.inspect, e.inspectSeq = inspectRunning, v.eventSeq
			return e
		}
	}
	return nil
}

// disconnected drops what was under way on the connection that broke.
func (v *view) disconnected() {
	for _, e := range v.entries {
		e.outdated = e.outdated || e.inspect != inspectIdle || e.unexplainedEnd != nil
		e.inspect, e.inspectAgain, e.diedMeanwhile = inspectIdle, false, false
		e.unexplainedEnd, e.retryAt, e.failures = nil, time.Time{}, 0
	}
	v.inspectQueue, v.lossy = nil, false
	v.replaying, v.synced, v.engineKills = true, false, false
	v.skipTo, v.skipBefore, v.skipped = time.Time{}, time.Time{}, nil
	clear(v.waiting)
	clear(v.listPending)
}

func (v *view) add(id string) *entry {
	e := &entry{id: id, reported: v.unwanted[id] || v.remembers(id)}
	delete(v.unwanted, id)
	v.entries[id] = e
	return e
}

// requestInspection makes sure that an inspection of e begins after now.
func (v *view) requestInspection(e *entry) {
	e.retryAt = time.Time{}
	switch e.inspect {
	case inspectIdle:
		e.inspect = inspectQueued
		v.inspectQueue = append(v.inspectQueue, e)
	case inspectRunning:
		e.inspectAgain = true
	}
}

func (v *view) ignore(id string) {
	reported := v.unwanted[id]
	if e := v.entries[id]; e != nil {
		reported = e.reported
		v.forget(e, Update{Unwanted: true})
	}
	v.unwanted[id] = reported
}

// unwantedGone takes in that a container no longer exists that wanted may have refused. Whoever was told
// of it before may remember it.
func (v *view) unwantedGone(id string, at time.Time) {
	if v.unwanted[id] {
		v.emit(Update{Kind: Removed, ID: id, Time: at})
	}
	delete(v.unwanted, id)
}

func (v *view) remove(e *entry, at time.Time) { v.forget(e, Update{Time: at}) }

// forget drops e, and sends u as a Removed if that is news.
func (v *view) forget(e *entry, u Update) {
	v.setNetworkOwner(e, nil)
	delete(v.entries, e.id)
	delete(v.waiting, e)
	delete(v.listPending, e)
	delete(v.unobserved, e)
	if e.known != nil || e.reported && !u.Unwanted {
		u.Kind, u.ID = Removed, e.id
		v.emit(u)
	}
}
