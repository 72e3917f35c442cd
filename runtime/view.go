package runtime

import (
	"slices"
	"time"
)

const (
	// bookmarkEvery is how many events without an update make a Bookmark. It is small
	// against the 256 events that an engine remembers, a third of which exec events fill.
	bookmarkEvery = 16
	// A start event comes right after the start; a later one tells of another.
	startSlack = 5 * time.Second
	// earlyMax bounds the causes kept of a container not yet inspected.
	earlyMax = 16
)

// view is what is known of an engine's containers, and what follows from a list,
// an event or an inspection. It does no I/O and has no clock: what is to be sent
// and inspected is left in out and queue.
type view struct {
	wanted func(string, map[string]string) bool

	entries map[string]*entry
	ignored map[string]struct{}            // known not to be wanted
	sharing map[string]map[string]struct{} // container → those that share its network
	waiting map[*entry]struct{}            // with held or retry set
	syncing map[*entry]struct{}            // what the present list told, not yet delivered
	seq     uint64                         // counts events
	newest  time.Time                      // time of the newest event; zero: none was heard
	first   time.Time                      // of the first attempt to connect
	from    time.Time                      // of the present stream
	met     bool                           // a connection has been made
	untold  map[*entry]time.Time           // not yet observed but heard of → newest before
	mute    int                            // events since the newest update
	lag     time.Duration                  // of the newest event, until an update tells it
	recent  [recents]eventKey              // ring of the newest events, at seq

	out   []Update
	queue []*entry
	lossy bool // the stream told something that does not fit
}

// recents is how many events are remembered so that a replay does not tell them
// again.
const recents = 64

type eventKey struct {
	id     string
	action Action
	time   int64
}

// entry is one container that is wanted, or may be.
type entry struct {
	id      string
	known   *Container // the newest that was sent; nil when none was
	early   []Update   // causes to be sent with the first observation
	heard   bool       // an event told of its beginning or its end
	up      bool       // has a main process, as far as we were told
	started time.Time  // newest start that events told of
	killed  time.Time  // newest signal that ends it, too
	stopped time.Time  // newest signal that a stop begins with, too
	asked   uint64     // seq when its newest inspection began
	died    bool       // a die event came since it was last observed alive
	unsure  bool       // the loss of the engine left an inspection undone

	flight flight
	again  bool // an event came while it was being inspected
	stale  bool // a die event came while it was being inspected

	held     *Container // a death that waits for its cause
	retry    time.Time
	until    time.Time // of held
	failures int
}

type flight uint8

const (
	idle flight = iota
	queued
	flying
)

func newView(wanted func(string, map[string]string) bool) *view {
	if wanted == nil {
		wanted = func(string, map[string]string) bool { return true }
	}
	return &view{
		wanted: wanted, entries: map[string]*entry{}, ignored: map[string]struct{}{},
		sharing: map[string]map[string]struct{}{},
		waiting: map[*entry]struct{}{}, syncing: map[*entry]struct{}{},
		untold: map[*entry]time.Time{},
	}
}

// event folds one event that was read lag after it happened; a lag of 0 is none that
// was measured.
func (v *view) event(ev Event, lag time.Duration) {
	before := v.newest
	if !v.fresh(ev) {
		return
	}
	v.mute++
	if lag > 0 {
		v.lag = lag
	}
	v.fold(ev, before)
	if v.mute >= bookmarkEvery {
		v.emit(Update{Kind: Bookmark})
	}
}

// fold takes in an event; before is the time of the newest one before it.
func (v *view) fold(ev Event, before time.Time) {
	if ev.Action == ActionExec {
		return
	}
	for id := range v.sharing[ev.ID] {
		if e := v.entries[id]; e != nil && ev.Action != ActionKill {
			v.dirty(e)
		}
	}
	e := v.entryOf(ev)
	if e == nil {
		return
	}
	if ev.Action == ActionDestroy {
		v.remove(e, ev.Time)
		return
	}
	if _, ok := v.untold[e]; !ok && e.known == nil {
		v.untold[e] = before
	}
	// Times count only where the clock was not set back since.
	if e.known == nil || ev.Time.IsZero() || !ev.Time.Before(e.known.StartedAt) || e.known.StartedAt.After(time.Now()) {
		v.cause(e, ev)
	}
	v.dirty(e)
}

// fresh says whether ev was not told before, and remembers it.
func (v *view) fresh(ev Event) bool {
	if ev.Action != ActionExec { // there are many, and nobody minds one told again
		key := eventKey{ev.ID, ev.Action, ev.Time.UnixNano()}
		if !ev.Time.IsZero() && slices.Contains(v.recent[:], key) {
			return false
		}
		v.recent[v.seq%recents] = key
		v.seq++
	}
	if ev.Time.After(v.newest) {
		v.newest = ev.Time
	}
	return true
}

// begin returns where a subscription made now begins. Without any event it is where
// the first one began, so that a quiet engine's first loss is replayed from there.
func (v *view) begin(now time.Time) time.Time {
	if v.first.IsZero() {
		v.first = now
	}
	v.from = v.newest
	if v.from.IsZero() {
		v.from = v.first
	}
	return v.from
}

// notInspected returns the IDs that were listed but could not be inspected.
func (v *view) notInspected() []string {
	var ids []string
	for id, e := range v.entries {
		if e.known == nil || e.unsure {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// seenUntil returns the time of the newest event that, with all before it, is covered by
// the updates up to now. Events of a container are held back until its first Observed.
func (v *view) seenUntil() time.Time {
	seen := v.newest
	for _, before := range v.untold {
		if before.Before(seen) {
			seen = before
		}
	}
	return seen
}

func (v *view) emit(u Update) {
	u.SeenUntil, u.Lag = v.seenUntil(), v.takeLag()
	v.out = append(v.out, u)
	v.mute = 0
}

// takeLag returns the lag of the newest event, once.
func (v *view) takeLag() time.Duration {
	lag := v.lag
	v.lag = 0
	return lag
}

// entryOf returns the entry that ev is about, and nil when it is about a
// container that is not wanted.
func (v *view) entryOf(ev Event) *entry {
	e := v.entries[ev.ID]
	told := ev.Labels != nil && ev.Name != ""
	switch {
	case ev.Action == ActionDestroy:
		delete(v.ignored, ev.ID)
		return e
	case e != nil:
		// An event cannot make it unwanted: the engine's own attributes hide labels
		// of the same key. The inspection that follows can.
		return e
	case told && !v.wanted(ev.Name, ev.Labels):
		v.ignore(ev.ID)
		return nil
	case !told:
		if _, ok := v.ignored[ev.ID]; ok {
			return nil
		}
	}
	delete(v.ignored, ev.ID)
	return v.add(ev.ID)
}

// cause passes on what only events tell.
func (v *view) cause(e *entry, ev Event) {
	u := Update{ID: ev.ID, Time: ev.Time, Started: e.started}
	switch ev.Action {
	case ActionCreate:
		e.heard = true
	case ActionKill:
		u.Kind, u.Signal = Killed, ev.Signal
		if e.known != nil {
			e.signalled(e.known, ev.Signal, ev.Time)
		}
	case ActionDie:
		u.Kind, u.ExitCode = Died, ev.ExitCode
		e.heard = true
		v.lossy = v.lossy || e.known != nil && !e.up
		e.up, e.died = false, true
		e.stale = e.stale || e.flight == flying
		e.held = nil
	case ActionStop:
		u.Kind = Stopped
	case ActionStart:
		v.lossy = v.lossy || e.restartedUnheard(ev)
		e.up, e.heard, e.started = true, true, ev.Time
	}
	if u.Kind == 0 {
		return
	}
	if e.known != nil {
		v.emit(u)
		return
	}
	e.early = append(e.early[max(0, len(e.early)-earlyMax+1):], u)
}

// signalled notes a signal that was told.
func (e *entry) signalled(c *Container, signal int, at time.Time) {
	if c.Stops(signal) {
		e.killed = at
	}
	if signal == c.StopSignalNumber() {
		e.stopped = at
	}
}

// restartedUnheard says that a start of something that runs already means that
// its death was not told.
func (e *entry) restartedUnheard(ev Event) bool {
	return e.known != nil && e.up && e.known.State.Alive() && !ev.Time.IsZero() &&
		ev.Time.Sub(e.known.StartedAt) > startSlack
}

// take returns the next container to inspect, and nil when there is none.
func (v *view) take() *entry {
	for len(v.queue) > 0 {
		e := v.queue[0]
		v.queue = v.queue[1:]
		if v.entries[e.id] == e && e.flight == queued {
			e.flight, e.asked = flying, v.seq
			return e
		}
	}
	return nil
}

// lost forgets what was under way, because the engine is gone.
func (v *view) lost() {
	for _, e := range v.entries {
		e.unsure = e.unsure || e.flight != idle || e.held != nil
		e.flight, e.again, e.stale = idle, false, false
		e.held, e.retry, e.failures = nil, time.Time{}, 0
	}
	v.queue, v.lossy = nil, false
	clear(v.waiting)
	clear(v.syncing)
}

func (v *view) add(id string) *entry {
	e := &entry{id: id}
	v.entries[id] = e
	return e
}

// dirty makes sure that e is inspected after now.
func (v *view) dirty(e *entry) {
	e.retry = time.Time{}
	switch e.flight {
	case idle:
		e.flight = queued
		v.queue = append(v.queue, e)
	case flying:
		e.again = true
	}
}

func (v *view) ignore(id string) {
	if e := v.entries[id]; e != nil {
		v.forget(e, Update{Unwanted: true})
	}
	v.ignored[id] = struct{}{}
}

func (v *view) remove(e *entry, at time.Time) { v.forget(e, Update{Time: at}) }

// forget drops e and tells so, with what u says beside.
func (v *view) forget(e *entry, u Update) {
	v.share(e, nil)
	delete(v.entries, e.id)
	delete(v.waiting, e)
	delete(v.syncing, e)
	delete(v.untold, e)
	if e.known != nil {
		u.Kind, u.ID = Removed, e.id
		v.emit(u)
	}
}
