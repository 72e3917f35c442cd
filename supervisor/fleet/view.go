package fleet

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// record is a key below PREFIX/v1/ as the store has it, or that it was deleted.
type record struct {
	name    string
	value   []byte
	rev     int64 // of the write, or of the deletion
	lease   int64
	deleted bool
}

// limits bound what a store can make healthd keep.
type limits struct {
	keys  int // of hosts and members
	bytes int // of their names and values
	wrong int // keys that are none of healthd's, by name
	gone  int // hosts that are not live
}

var defaultLimits = limits{keys: 1_000_000, bytes: 64 << 20, wrong: 1000, gone: 1000}

const (
	graceExtra  = 3 * time.Second // what a host needs to write again all that a lost lease took with it
	forgetAfter = 24 * time.Hour  // a host that is not live
	// maxUnanswered is how many asks an answer may be of: with more the watch counts as silent.
	maxUnanswered = int(silence/progressEvery) + 1
	wrongAgain    = time.Hour // between two events about wrong keys
	// After a longer break all is listed: the store may have been replaced by an older one that has as many revisions by now.
	resumeWithin = 5 * time.Second
	// After a silence this long, or a break, ends of leases are in doubt for a while: a store that stood still for longer than the TTL
	// ends the leases of hosts that live, half a second after it goes on. Half a silence is shorter than two thirds of the least TTL.
	standstill = 2 * time.Second
	doubtFor   = 3 * time.Second
)

// view is what a store says of other hosts, as it is shown: a fold of lists and of what a watch reports. It is pure: its
// methods take the time. What a break in the watch may have hidden does not remove a member at once:
//
//   - A key that the newest list lacks stays for TTL + 3 s of live watch: its host may be about to write it again. After the
//     store went back to an older state it stays for 2 × TTL.
//   - So does all that an expired lease took while the watch was broken, or just after that. The store itself may have stood still.
//   - So does a key whose value cannot be read any more: somebody else has written it.
//   - A lease whose end a live watch reports takes its members with it at once; so does a single deleted member.
type view struct {
	self   string
	ttl    time.Duration
	local  bool // see memberValue.check
	limits limits

	revision int64 // of the newest list or event that was folded: the watch goes on after it
	// seen is the highest revision of any answer. That nothing below it is to come is not said: etcd before 3.4.25 and 3.5.8
	// reports progress ahead of events that it has yet to send.
	seen    int64
	replay  int64 // up to this one the watch reports what a break had hidden
	live    liveTime
	doubt   time.Duration     // up to this live time ends of leases are in doubt
	entries map[string]*entry // of hosts and members, by key
	bytes   int
	absent  map[*entry]bool
	hosts   map[string]*host
	shown   map[string]*shown // by ID
	words   map[key]wordValue // what others say of runs of this host
	asks    []int64           // what was seen at the newest asks
	wrong   wrongKeys
	over    bool // there is more than limits allow

	out *changes
}

// entry is one key of another host.
type entry struct {
	key    key
	name   string
	size   int
	rev    int64
	host   hostValue
	member memberValue

	gone time.Duration // in live time; when an absent entry goes
	// next is what the list after a step back has, and is older than what was known.
	next *record
}

// shown is what the Board shows under one ID: the newest of its entries.
type shown struct {
	entries []*entry
	now     remote
}

// remote is a member of another host.
type remote struct {
	host, service string
	memberValue
}

func (r remote) boardID() string { return r.host + "/" + r.ID }

// changes are what a fold has changed.
type changes struct {
	put   []remote
	gone  []string // IDs on the board
	hosts bool     // a host, or how many members it has
	words bool     // what others say of runs of this host
	tell  []told

	ids     map[string]bool
	touched map[string]bool // hosts
}

type told struct{ reason, message string }

func newView(self string, ttl time.Duration, local bool) *view {
	return &view{
		self: self, ttl: ttl, local: local, limits: defaultLimits,
		entries: map[string]*entry{}, absent: map[*entry]bool{}, hosts: map[string]*host{}, shown: map[string]*shown{},
		words: map[key]wordValue{}, wrong: wrongKeys{names: map[string]bool{}},
	}
}

// fold collects what a function changes.
func (v *view) fold(now time.Time, do func()) *changes {
	v.out = &changes{ids: map[string]bool{}, touched: map[string]bool{}}
	v.live.advance(now)
	do()
	v.judgeHosts(now)
	v.show()
	v.tellWrong(now)
	return v.out
}

// list takes in a linearizable list of all keys. back says that the store went back to an older state.
func (v *view) list(all []record, revision int64, now time.Time) (_ *changes, back bool) {
	back = revision < v.seen
	return v.fold(now, func() {
		v.begin(now)
		grace := v.ttl + graceExtra
		if back {
			grace = 2 * v.ttl
		}
		v.revision, v.seen, v.replay, v.over = revision, revision, 0, false
		v.wrong.relist()
		v.forgetWords()
		listed := make(map[string]bool, len(all))
		reborn := v.reborn(all)
		for i := range all {
			r := &all[i]
			listed[r.name] = true
			if !back || !v.keepNewer(r, reborn, grace) {
				v.put(r)
			}
		}
		for name, e := range v.entries {
			if !listed[name] {
				v.miss(e, grace)
			}
		}
	}), back
}

// resume says that the watch goes on after the folded revision, and that the store is at revision now.
func (v *view) resume(revision int64, now time.Time) *changes {
	return v.fold(now, func() {
		v.begin(now)
		v.seen, v.replay = max(v.seen, revision), max(v.replay, revision)
	})
}

func (v *view) begin(now time.Time) {
	v.live.begin(now)
	v.doubt = v.live.ran + doubtFor
}

// stood says that nothing was heard for some time up to now: the store stood still, or this daemon did.
func (v *view) stood(now time.Time) {
	v.live.at = now
	v.doubt = v.live.ran + doubtFor
}

// broke says that the watch is not live any more.
func (v *view) broke(now time.Time) {
	v.asks = nil
	v.live.end(now)
}

// behind says that a store at this revision has an older state than before.
func (v *view) behind(revision int64) bool { return revision < v.seen }

// ask says that the watch is asked for its progress now, as it is each second.
func (v *view) ask() {
	if v.asks = append(v.asks, v.seen); len(v.asks) > maxUnanswered {
		v.asks = v.asks[1:]
	}
}

// wentBack says that an answer of the watch is of an older state than before. Events are compared with events: etcd may tell progress
// first. Progress is compared with what was seen when it was asked for at the earliest: it may be told after events that came since.
func (v *view) wentBack(revision int64, events bool) bool {
	if events {
		return revision < v.revision
	}
	return len(v.asks) == maxUnanswered && revision < v.asks[0]
}

// progress takes in the revision of an answer without events.
func (v *view) progress(revision int64) { v.seen = max(v.seen, revision) }

// events takes in what a watch reports, in its order.
func (v *view) events(all []record, revision int64, now time.Time) *changes {
	return v.fold(now, func() {
		expired := v.hidden(all)
		known := v.revision
		for i := range all {
			r := &all[i]
			e := v.entries[r.name]
			v.revision = max(v.revision, r.rev)
			switch {
			case r.rev <= known: // the list had it
			case !r.deleted:
				v.put(r)
			case e != nil && expired[hostAt{e.key.host, r.rev}]:
				v.miss(e, v.ttl+graceExtra)
			default:
				v.remove(r.name)
			}
		}
		v.seen = max(v.seen, v.revision, revision)
	})
}

type hostAt struct {
	host string
	rev  int64
}

// hidden returns whose lease ended while the watch was broken, or soon after that, and when. A host that leaves says so before.
func (v *view) hidden(all []record) map[hostAt]bool {
	found := map[hostAt]bool{}
	for i := range all {
		r := &all[i]
		if e := v.entries[r.name]; r.deleted && (r.rev <= v.replay || v.live.ran < v.doubt) && e != nil && e.key.kind == hostKey && !e.host.Leaving {
			found[hostAt{e.key.host, r.rev}] = true
		}
	}
	return found
}

// tick removes what was absent for long enough, and forgets hosts.
func (v *view) tick(now time.Time) *changes {
	return v.fold(now, func() {
		for e := range v.absent {
			if !v.live.running || v.live.ran < e.gone { // nobody leaves while the connection is down
				continue
			}
			if next := e.next; next != nil {
				v.put(next)
			} else {
				v.leave(e)
			}
		}
		v.forgetHosts(now)
	})
}

// next returns when tick has something to do; zero: nothing that is known now.
func (v *view) next(now time.Time) time.Time {
	v.live.advance(now)
	var next time.Time
	if v.live.running {
		for e := range v.absent {
			if at := now.Add(e.gone - v.live.ran); next.IsZero() || at.Before(next) {
				next = at
			}
		}
	}
	return next
}

// show finds what has changed for those who look at the board.
func (v *view) show() {
	for _, id := range slices.Sorted(maps.Keys(v.out.ids)) {
		s := v.shown[id]
		if len(s.entries) == 0 {
			delete(v.shown, id)
			if s.now.host != "" {
				v.out.gone = append(v.out.gone, id)
			}
			continue
		}
		e := slices.MaxFunc(s.entries, func(a, b *entry) int { return cmp.Or(cmp.Compare(a.rev, b.rev), strings.Compare(a.name, b.name)) })
		next := remote{host: e.key.host, service: e.key.service, memberValue: e.member}
		before := s.now
		s.now = next
		next.Revision, before.Revision = 0, 0
		if next != before {
			v.out.put = append(v.out.put, s.now)
		}
	}
}

func (v *view) tell(reason, format string, args ...any) {
	v.out.tell = append(v.out.tell, told{reason, fmt.Sprintf(format, args...)})
}

// liveTime counts how long the watch was live.
type liveTime struct {
	running bool
	at      time.Time // up to which it is counted
	ran     time.Duration
}

func (l *liveTime) advance(now time.Time) {
	if l.running && now.After(l.at) {
		l.ran += now.Sub(l.at)
	}
	l.at = now
}

func (l *liveTime) begin(now time.Time) { l.advance(now); l.running = true }
func (l *liveTime) end(now time.Time)   { l.advance(now); l.running = false }
