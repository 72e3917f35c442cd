package supervisor

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"healthd/supervisor/core"
)

// Board shows the newest View of every supervised container to whoever wants to
// read, at any time and from any goroutine, without the loop waiting for them. The
// loop alone writes it.
type Board struct {
	byID     sync.Map // full ID → *slot
	byName   sync.Map // name → *slot
	runtimes sync.Map // name → RuntimeView
	lateness latenessCounts

	sharedNames int // how often a name was taken while another container had it; the loop's
}

// slot holds the newest View of one container.
type slot struct{ view atomic.Pointer[core.View] }

// RuntimeView is what is known of one runtime.
type RuntimeView struct {
	Name    string
	Up      bool // it can be heard
	Synced  bool // a full list was taken in since the start of the daemon
	Err     error
	Lag     time.Duration // of its last event, from the engine's clock to ours
	Relists map[string]int
}

// minPrefix is the shortest prefix of an ID that Find takes for one: "db" is a name.
const minPrefix = 4

// Find returns the container of that name, or else the one whose ID begins with it,
// from four characters on. A prefix that fits several containers finds none.
func (b *Board) Find(name string) (*core.View, bool) {
	if s, ok := b.byName.Load(name); ok {
		return s.(*slot).view.Load(), true
	}
	if s, ok := b.byID.Load(name); ok {
		return s.(*slot).view.Load(), true
	}
	if !isIDPrefix(name) {
		return nil, false
	}
	var found *core.View
	unique := true
	b.byID.Range(func(id, s any) bool {
		if strings.HasPrefix(id.(string), name) {
			unique = found == nil
			found = s.(*slot).view.Load()
		}
		return unique
	})
	return found, found != nil && unique
}

// isIDPrefix keeps names that cannot be IDs from costing a walk over all of them.
func isIDPrefix(name string) bool {
	return len(name) >= minPrefix && len(name) <= 64 && strings.Trim(name, "0123456789abcdef") == ""
}

// Views returns all containers, sorted by name.
func (b *Board) Views() []*core.View {
	var all []*core.View
	b.byID.Range(func(_, s any) bool {
		all = append(all, s.(*slot).view.Load())
		return true
	})
	slices.SortFunc(all, func(x, y *core.View) int {
		return cmp.Or(strings.Compare(x.Container.Name, y.Container.Name), strings.Compare(x.Container.ID, y.Container.ID))
	})
	return all
}

// Runtimes returns all runtimes, sorted by name.
func (b *Board) Runtimes() []RuntimeView {
	var all []RuntimeView
	b.runtimes.Range(func(_, r any) bool {
		all = append(all, r.(RuntimeView))
		return true
	})
	slices.SortFunc(all, func(x, y RuntimeView) int { return strings.Compare(x.Name, y.Name) })
	return all
}

// Synced says whether every runtime has been taken in fully at least once.
func (b *Board) Synced() bool {
	synced := true
	b.runtimes.Range(func(_, r any) bool {
		synced = synced && r.(RuntimeView).Synced
		return synced
	})
	return synced
}

// LatenessBuckets are the upper bounds, in seconds, of what Lateness counts.
var LatenessBuckets = [...]float64{.0005, .001, .0025, .005, .01, .02, .05, .1, .25, .5, 1, 2.5}

// latenessCounts counts how late probes started. It is of the whole host.
type latenessCounts struct {
	counts [len(LatenessBuckets) + 1]atomic.Uint64
	nanos  atomic.Int64
}

func (l *latenessCounts) observe(d time.Duration) {
	seconds := d.Seconds()
	i := 0
	for i < len(LatenessBuckets) && seconds > LatenessBuckets[i] {
		i++
	}
	l.counts[i].Add(1)
	l.nanos.Add(int64(d))
}

// Lateness returns how many probes started how late since the start of the daemon:
// a count for each of LatenessBuckets and one for those above, and the sum in
// seconds.
func (b *Board) Lateness() (counts []uint64, sum float64) {
	counts = make([]uint64, len(b.lateness.counts))
	for i := range b.lateness.counts {
		counts[i] = b.lateness.counts[i].Load()
	}
	return counts, time.Duration(b.lateness.nanos.Load()).Seconds()
}

// put shows a container's newest view, and says whether load balancers see it
// otherwise than the one before. The slot is kept by the loop, so that this costs the
// same however many containers there are.
func (b *Board) put(s *slot, v *core.View) (changed bool) {
	old := s.view.Swap(v)
	if old != nil && old.Container.Name == v.Container.Name {
		return !samePublished(old, v)
	}
	if old != nil {
		b.release(old.Container.Name, s)
	}
	if _, taken := b.byName.Swap(v.Container.Name, s); taken {
		b.sharedNames++
	}
	b.byID.Store(v.Container.ID, s)
	return true
}

func (b *Board) remove(s *slot) {
	v := s.view.Load()
	b.byID.Delete(v.Container.ID)
	b.release(v.Container.Name, s)
}

// release gives a name up, to another container of that name if there is one: the
// engines of two runtimes do not know each other's names.
func (b *Board) release(name string, s *slot) {
	b.byName.CompareAndDelete(name, s)
	if b.sharedNames == 0 {
		return
	}
	b.byID.Range(func(_, other any) bool {
		o := other.(*slot)
		if o == s || o.view.Load().Container.Name != name {
			return true
		}
		b.byName.LoadOrStore(name, o)
		return false
	})
}

// samePublished says that a load balancer sees no difference between two views of a
// container.
func samePublished(a, b *core.View) bool {
	return a.Spec == b.Spec && a.Service == b.Service && a.Container.Name == b.Container.Name &&
		a.Container.Address == b.Container.Address && a.State.Run.ID == b.State.Run.ID &&
		a.State.Conditions.Ready.Status == b.State.Conditions.Ready.Status && a.State.Draining() == b.State.Draining() &&
		a.DrainingReady() == b.DrainingReady() && a.State.AwaitsDrain() == b.State.AwaitsDrain()
}
