package supervisor

import (
	"cmp"
	"iter"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"healthd/runtime"
	"healthd/supervisor/core"
)

// Board has the newest View of every supervised container, and with a fleet the members of other hosts. Any goroutine
// may read it at any time; readers never make a writer wait. Only the loop writes what is of this host. One other
// goroutine writes what is of others: see ShowRemote. The two share nothing but what Changed tells.
type Board struct {
	byID      table[string, *slot] // by full ID
	names     names
	services  services
	remote    remote
	gone      gone                       // names and IDs of containers of this host
	runtimes  table[string, RuntimeView] // by name
	lateness  latenessCounts
	latencies latencies
	budget    atomic.Pointer[BudgetView]
	suspect   atomic.Bool // see HostSuspect
	changes   changes
	local     changes // of this host's containers alone
	tally     tally
	began     time.Time     // timelines count from then
	members   atomic.Uint64 // see Members
}

// slot holds the newest View of one container.
type slot struct {
	view    atomic.Pointer[core.View]
	recent  recent
	latency *serviceLatency // where its probes are counted; the loop's own
	counted counted         // how the tally counts it; the loop's own

	timeline timeline
}

// RuntimeView is what the Board shows of one runtime.
type RuntimeView struct {
	Name    string
	Up      bool             // healthd is connected and knows all its containers
	Synced  bool             // the daemon has taken in a full list, once
	Err     error            // why it is not Up; nil before the first connection
	Lag     time.Duration    // of its newest event: healthd's clock less the engine's
	Relists map[string]int   // full lists, by reason
	Unseen  []runtime.Unseen // as of the newest full list; see Board.Unseen
}

// NewBoard returns a board with these runtimes and containers, for the tests of outlets: see Show. A
// Supervisor makes its own board.
func NewBoard(runtimes []RuntimeView, views ...*core.View) *Board {
	b := &Board{began: time.Now()}
	for _, r := range runtimes {
		b.runtimes.set(r.Name, r)
	}
	for _, v := range views {
		s := &slot{}
		b.put(s, v)
		s.timeline.note(nil, v, time.Since(b.began))
		s.latency.add(&v.State.Totals)
	}
	return b
}

// ByID returns the container with that ID; nil when it is not supervised.
func (b *Board) ByID(id string) *core.View {
	s, ok := b.byID.get(id)
	if !ok {
		return nil
	}
	return s.view.Load()
}

// minPrefix is the length of the shortest ID prefix that Find accepts: "db" is a name.
const minPrefix = 4

// Find returns the container of that full ID or name, or else the one whose ID begins with name. What
// has the form of a full ID is never a name. A name
// that several containers have must be as runtime.NamesAmong says: id:ID has the whole ID. A prefix
// has at least four characters; a prefix of several IDs finds none of them. The error is
// ErrUnknownContainer or an *AmbiguousNameError.
func (b *Board) Find(name string) (*core.View, error) {
	if id, ok := strings.CutPrefix(name, runtime.IDPrefix); ok {
		if s, ok := b.byID.get(id); ok {
			return s.view.Load(), nil
		}
		return nil, ErrUnknownContainer
	}
	if runtime.IsFullID(name) { // a container named so would get what is meant for another, known or not
		return b.findID(name)
	}
	if slots := b.names.of(name); len(slots) == 1 {
		return slots[0].view.Load(), nil
	}
	if found := b.names.find(name); len(found) > 0 {
		return only(found)
	}
	return b.findID(name)
}

// NameOf returns the name by which Find finds a container: its own, unless others have the same.
// See runtime.NamesAmong.
func (b *Board) NameOf(c *runtime.Container) string {
	var others []*runtime.Container
	for _, s := range b.names.of(c.Name) {
		if o := s.view.Load().Container; o.ID != c.ID {
			others = append(others, o)
		}
	}
	if len(others) == 0 && !c.NamedAsID() {
		return c.Name
	}
	return runtime.NamesAmong(append(others, c))[len(others)]
}

// findID returns the container whose ID, healthd's or the engine's, begins with a text.
func (b *Board) findID(name string) (*core.View, error) {
	if s, ok := b.byID.get(name); ok {
		return s.view.Load(), nil
	}
	if !isIDPrefix(name) {
		return nil, ErrUnknownContainer
	}
	var found *core.View
	unique := true
	for v := range b.All() {
		if strings.HasPrefix(v.Container.EngineID(), name) {
			unique = found == nil
			found = v
		}
		if !unique {
			break
		}
	}
	if found == nil || !unique {
		return nil, ErrUnknownContainer
	}
	return found, nil
}

// isIDPrefix spares Find a walk over all IDs for a name that is no ID.
func isIDPrefix(name string) bool {
	return len(name) >= minPrefix && strings.Trim(name, "0123456789abcdef") == ""
}

// All yields all containers in no order.
func (b *Board) All() iter.Seq[*core.View] {
	return func(yield func(*core.View) bool) {
		b.byID.all(func(_ string, s *slot) bool { return yield(s.view.Load()) })
	}
}

// Views returns all containers, sorted by name.
func (b *Board) Views() []*core.View { return b.sorted(func(*core.View) bool { return true }) }

// sorted returns some containers, sorted by name.
func (b *Board) sorted(wanted func(*core.View) bool) []*core.View {
	var all []*core.View
	for v := range b.All() {
		if wanted(v) {
			all = append(all, v)
		}
	}
	slices.SortFunc(all, func(x, y *core.View) int {
		return cmp.Or(strings.Compare(x.Container.Name, y.Container.Name), strings.Compare(x.Container.ID, y.Container.ID))
	})
	return all
}

// Runtimes returns all runtimes, sorted by name.
func (b *Board) Runtimes() []RuntimeView {
	var all []RuntimeView
	for _, r := range b.runtimes.all {
		all = append(all, r)
	}
	slices.SortFunc(all, func(x, y RuntimeView) int { return strings.Compare(x.Name, y.Name) })
	return all
}

// Unseen returns the containers that their engines list, but that healthd could not inspect: it can neither restart
// nor publish them.
func (b *Board) Unseen() iter.Seq2[RuntimeView, runtime.Unseen] {
	return func(yield func(RuntimeView, runtime.Unseen) bool) {
		for _, r := range b.Runtimes() {
			for _, u := range r.Unseen {
				if b.ByID(u.ID) == nil && !yield(r, u) { // an inspection has succeeded since
					return
				}
			}
		}
	}
}

// Synced says whether every runtime has been Synced. It is true when there is none. Of other hosts it says nothing: see
// Complete.
func (b *Board) Synced() bool {
	for _, r := range b.runtimes.all {
		if !r.Synced {
			return false
		}
	}
	return true
}

// Waits says whether healthd is about to know the containers of a runtime. Of one that it has failed to reach since it
// began, nobody knows when that will be.
func (b *Board) Waits() bool {
	for _, r := range b.runtimes.all {
		if !r.Synced && r.Err == nil {
			return true
		}
	}
	return false
}

// Changed returns a channel that is closed with the next change of which Publisher.Changed
// tells or which ShowRemote shows, or when Synced or Complete has become true. Call it before a look at the board: then no change
// after the look is missed.
func (b *Board) Changed() <-chan struct{} { return b.changes.wait() }

// ChangedHere is Changed for the containers of this host alone.
func (b *Board) ChangedHere() <-chan struct{} { return b.local.wait() }

// tellChanged tells of a change of a container of this host.
func (b *Board) tellChanged() {
	b.local.tell()
	b.changes.tell()
}

// Members returns a number that is another one when a container of this host has come, has gone or has another name.
// Changed tells of that, too.
func (b *Board) Members() uint64 { return b.members.Load() }

// LatenessBuckets are the upper bounds of the counts of Lateness, in seconds.
var LatenessBuckets = [...]float64{.0005, .001, .0025, .005, .01, .02, .05, .1, .25, .5, 1, 2.5}

// latenessCounts counts how late probes of the whole host started.
type latenessCounts struct {
	counts [len(LatenessBuckets) + 1]atomic.Uint64
	nanos  atomic.Int64
}

func (l *latenessCounts) observe(d time.Duration) {
	l.counts[core.BucketOf(LatenessBuckets[:], d)].Add(1)
	l.nanos.Add(int64(d))
}

// Lateness returns how late probes have started since the start of the daemon. counts has
// a count for each of LatenessBuckets and one for all above; they are not cumulative. sum
// is in seconds.
func (b *Board) Lateness() (counts []uint64, sum float64) {
	counts = make([]uint64, len(b.lateness.counts))
	for i := range b.lateness.counts {
		counts[i] = b.lateness.counts[i].Load()
	}
	return counts, time.Duration(b.lateness.nanos.Load()).Seconds()
}

// Budget returns the host's restart budget; nil on a board of no Supervisor.
func (b *Board) Budget() *BudgetView { return b.budget.Load() }

// put shows a container's newest view. It returns true when load balancers need to know
// of the change. The entry keeps its slot, so that put is as fast for 10,000 containers
// as for one.
func (b *Board) put(s *slot, v *core.View) (changed bool) {
	old := s.view.Swap(v)
	b.services.move(serviceOf(old), serviceOf(v))
	s.latency = b.latencies.move(s.latency, v)
	b.count(s, countedOf(v))
	if old != nil && old.Container.Name == v.Container.Name {
		return !samePublished(old, v)
	}
	if old != nil {
		b.names.release(old.Container.Name, s)
		b.noteGone(old.Container.Runtime, old.Container.Name, old.Container.QualifiedName())
	}
	b.names.take(v.Container.Name, s)
	b.byID.set(v.Container.ID, s)
	b.members.Add(1)
	return true
}

func (b *Board) remove(s *slot) {
	v := s.view.Load()
	b.services.move(serviceOf(v), service{})
	s.latency = b.latencies.move(s.latency, nil)
	b.count(s, counted{})
	b.byID.remove(v.Container.ID)
	b.names.release(v.Container.Name, s)
	b.noteGone(v.Container.Runtime, v.Container.ID, v.Container.Name, v.Container.QualifiedName())
	b.members.Add(1)
}

// samePublished says whether two views of a container are the same for a load balancer.
func samePublished(a, b *core.View) bool {
	address, port := a.Address()
	address2, port2 := b.Address()
	return a.Spec == b.Spec && a.Service == b.Service && a.Container.Name == b.Container.Name &&
		address == address2 && port == port2 && a.State.Run.ID == b.State.Run.ID &&
		a.State.Conditions.Ready.Status == b.State.Conditions.Ready.Status && a.State.Draining() == b.State.Draining() &&
		a.DrainingReady() == b.DrainingReady() && a.State.AwaitsDrain() == b.State.AwaitsDrain() &&
		a.State.AwaitsWithdrawal() == b.State.AwaitsWithdrawal()
}
