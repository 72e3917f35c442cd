package supervisor

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"healthd/runtime"
	"healthd/supervisor/core"
)

var (
	fleetSeedsFlag = flag.Int("fleet-seeds", 0, "how many seeds TestFleetPlaces plays; 0: some seconds of them")
	fleetSeedFlag  = flag.Int("fleet-seed", 0, "the first seed that TestFleetPlaces plays; without -fleet-seeds the only one, with all that happens")
)

// TestFleetPlaces plays three to five hosts with one service, whose group's limit is over all of them. Probes fail, also
// those of all containers at once, daemons are killed or paused, hosts are cut off from the store of the places,
// which answers late. Never may more members be down than the group allows, and whoever waits gets through
// in the end. Not counted are two kinds: those that a host restarted by its own limit while it could not reach
// the store, and those whose host lost its lease while they were down. A failure names its seed:
//
//	go test ./supervisor -run FleetPlaces -args -fleet-seed=17
//	go test ./supervisor -run FleetPlaces -v -args -fleet-seeds=1000
func TestFleetPlaces(t *testing.T) {
	first, n := 1, *fleetSeedsFlag
	switch {
	case *fleetSeedFlag > 0:
		first, n = *fleetSeedFlag, max(1, n)
	case n == 0:
		n = 15 // under the race detector one takes a second
	}
	var sum fleetCounts
	t.Run("seeds", func(t *testing.T) {
		for seed := first; seed < first+n; seed++ {
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) { playFleet(t, seed, &sum) })
			})
		}
	})
	t.Logf("%d restarts with a place, %d by the host's own limit; %d of the former while as many members were down, not all of which count; %d kills, %d pauses, %d cuts",
		sum.placed.Load(), sum.local.Load(), sum.over.Load(), sum.kills.Load(), sum.pauses.Load(), sum.cuts.Load())
	if n >= 40 && (sum.placed.Load() == 0 || sum.local.Load() == 0 || sum.over.Load() == 0) {
		t.Error("one of these never happened: the test shows nothing")
	}
}

type fleetCounts struct{ placed, local, over, kills, pauses, cuts atomic.Int64 }

// fleetSim is a fleet with one service.
type fleetSim struct {
	t     *testing.T
	sum   *fleetCounts
	r     *rand.Rand
	store *fleetStore
	hosts []*fleetSimHost
	spec  *core.Spec
	began time.Time

	mu      sync.Mutex
	outages []*fleetOutage
}

// fleetSimHost is a host of it, which outlives its daemons.
type fleetSimHost struct {
	*fakeHost
	sim       *fleetSim
	name      string
	ids       []string
	cut, slow atomic.Bool
	lease     atomic.Int64 // as the host's state file has it
	client    *fleetClient
	end       func() // of the client
	backAt    time.Time
}

// fleetOutage is a restart that has begun.
type fleetOutage struct {
	core.Outage
	host  *fleetSimHost
	id    string
	lease int       // under which its place is held; 0: it has none
	until time.Time // when the run that came after it has had its time; zero: there was none at the last look
}

func playFleet(t *testing.T, seed int, sum *fleetCounts) {
	f := &fleetSim{t: t, sum: sum, r: rand.New(rand.NewPCG(uint64(seed), 1)), began: time.Now()}
	f.spec = f.drawSpec()
	members := 0
	for i := range 3 + f.r.IntN(3) {
		h := &fleetSimHost{fakeHost: newFakeHost(t, f.spec), sim: f, name: fmt.Sprint("h", i)}
		h.log, h.places = journalFunc(h.recorded), h.newClient
		h.guard = core.Guard{MaxRestarts: f.r.IntN(4), Window: time.Duration(1+f.r.IntN(3)) * time.Minute}
		h.engine.onStopOf = func(id string) { h.probes.setResult(id+":2", success) }
		for j := range 1 + f.r.IntN(3) {
			h.ids = append(h.ids, fmt.Sprintf("%s-%d", h.name, j))
			members++
		}
		f.hosts = append(f.hosts, h)
	}
	f.store = newFleetStore(f.spec.Group.MaxUnavailable.Of(members), 10*time.Second)
	for _, h := range f.hosts {
		h.boot()
		for _, id := range h.ids {
			h.engine.run(id)
		}
	}
	time.Sleep(20 * time.Second)
	for range 60 {
		f.act()
		time.Sleep(time.Duration(1 + f.r.Int64N(int64(15*time.Second))))
	}
	f.settle()
	for _, h := range f.hosts {
		h.die()
	}
}

func (f *fleetSim) drawSpec() *core.Spec {
	most := []core.Share{{}, {Number: 2}, {Percent: 40}}[f.r.IntN(3)]
	spec := slowReadySpec(core.Group{Name: "web", MaxUnavailable: most, Fleet: true, FleetWait: f.r.IntN(2) == 0})
	spec.Probes[core.Liveness].Period, spec.Probes[core.Readiness].Period = 4*time.Second, 4*time.Second
	spec.Publish.Drain = time.Duration(f.r.IntN(2)) * 5 * time.Second
	return spec
}

// boot starts a daemon, with the lease that the last one had.
func (h *fleetSimHost) boot() {
	h.startDaemon(runtime.ReplayComplete, 0)
	daemon, _ := h.current()
	ctx, cancel := context.WithCancel(context.Background())
	c := h.client
	c.changed = func() { _ = daemon.PlacesChanged(ctx) }
	var ended sync.WaitGroup
	ended.Go(func() { c.run(ctx) })
	h.end = func() { cancel(); ended.Wait() }
}

func (h *fleetSimHost) newClient() Places {
	h.client = &fleetClient{
		host: h, wake: make(chan struct{}, 1), wished: make(map[string]wish), granted: make(map[string]bool),
		back: make(map[string]string), r: rand.New(rand.NewPCG(h.sim.r.Uint64(), 0)),
	}
	return h.client
}

// die is kill -9 of the daemon.
func (h *fleetSimHost) die() {
	h.kill()
	h.end()
	synctest.Wait()
}

func (h *fleetSimHost) alive() bool {
	daemon, _ := h.current()
	return daemon != nil
}

// act has something happen.
func (f *fleetSim) act() {
	synctest.Wait()
	f.mu.Lock()
	f.forgetOutages("") // one that is over does not come back
	f.mu.Unlock()
	for _, h := range f.hosts {
		if !h.alive() && !time.Now().Before(h.backAt) {
			h.boot()
		}
	}
	h := f.hosts[f.r.IntN(len(f.hosts))]
	id := h.ids[f.r.IntN(len(h.ids))]
	switch n := f.r.IntN(100); {
	case n < 40:
		f.logf("%s fails", id)
		h.probes.setResult(id+":2", refused)
	case n < 45:
		f.logf("all fail")
		f.each(func(h *fleetSimHost, id string) { h.probes.setResult(id+":2", refused) })
	case n < 50:
		h.probes.setResult(id+":2", success)
	case n < 58 && h.alive():
		h.backAt = time.Now().Add(time.Duration(f.r.Int64N(int64(40 * time.Second))))
		f.logf("the daemon of %s is killed for %v", h.name, time.Until(h.backAt))
		f.sum.kills.Add(1)
		h.die()
	case n < 64 && h.alive():
		h.pause(time.Duration(f.r.Int64N(int64(30 * time.Second))))
	case n < 74:
		f.logf("%s is cut off: %v", h.name, h.cut.Load())
		f.sum.cuts.Add(1)
		h.cut.Store(!h.cut.Load())
	case n < 80:
		h.slow.Store(!h.slow.Load())
	case n < 84 && h.running(id):
		f.logf("%s crashes", id)
		h.engine.exit(id, 1)
	case n < 88:
		f.logf("%s is not ready", id)
		h.probes.setResult(id+":3", refused)
	default:
		h.probes.setResult(id+":3", success)
	}
}

// pause stops the whole daemon for a while.
func (h *fleetSimHost) pause(d time.Duration) {
	h.sim.logf("%s is stopped for %v", h.name, d)
	h.sim.sum.pauses.Add(1)
	daemon, _ := h.current()
	h.client.pausedUntil.Store(time.Now().Add(d).UnixNano())
	_ = daemon.send(context.Background(), inspectLoop(func(*loop) { time.Sleep(d) }))
}

func (f *fleetSim) each(do func(h *fleetSimHost, id string)) {
	for _, h := range f.hosts {
		for _, id := range h.ids {
			do(h, id)
		}
	}
}

func (f *fleetSim) logf(format string, args ...any) {
	if *fleetSeedFlag > 0 && *fleetSeedsFlag == 0 {
		f.t.Logf("%v: %s", time.Since(f.began), fmt.Sprintf(format, args...))
	}
}

// recorded is called by the loop of the host's daemon with each event.
func (h *fleetSimHost) recorded(ev core.Event) {
	daemon, _ := h.current()
	if ev.Reason != core.EventKilling || !strings.Contains(ev.Message, "will be restarted") || daemon == nil {
		return
	}
	v, err := daemon.Board().Find(ev.Container)
	if err != nil || !v.State.Action.Stopping.ByProbe() { // of the daemon before
		return
	}
	f, id := h.sim, v.Container.ID
	state := h.client.State(id)
	o := &fleetOutage{Outage: core.Outage{Run: v.State.Run.ID, Since: time.Now()}, host: h, id: id}
	if state.Granted {
		o.lease = int(h.lease.Load())
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.logf("%s is restarted: %+v", id, state)
	f.forgetOutages(id)
	f.check(o, state)
	f.outages = append(f.outages, o)
}

// forgetOutages forgets those that are over, and that of the container.
func (f *fleetSim) forgetOutages(id string) {
	f.outages = slices.DeleteFunc(f.outages, func(o *fleetOutage) bool {
		if o.lease != 0 && !f.store.alive(o.lease) {
			o.lease = 0
		}
		daemon, _ := o.host.current()
		switch {
		case o.id == id:
			return true
		case daemon == nil: // whatever the container does later, the next daemon finds this outage over
			return !o.until.IsZero() && !time.Now().Before(o.until)
		}
		v, err := daemon.Board().Find(o.id)
		if err != nil {
			return false
		}
		if o.until = (time.Time{}); v.State.Run.ID != o.Run {
			o.until = v.State.Run.BeganAt.Add(f.spec.TimeToReady())
		}
		return !stillDown(&v.State, f.spec, o.Outage)
	})
}

// check checks a restart that begins now.
func (f *fleetSim) check(o *fleetOutage, state PlaceState) {
	var covered, own []string
	for _, other := range f.outages {
		if other.lease != 0 {
			covered = append(covered, other.id)
		}
		if other.host == o.host {
			own = append(own, other.id)
		}
	}
	most := f.spec.Group.MaxUnavailable.Of(len(o.host.ids))
	switch {
	case o.lease != 0:
		f.sum.placed.Add(1)
		if len(f.outages) >= f.store.k {
			f.sum.over.Add(1)
		}
		if len(covered) >= f.store.k {
			f.t.Errorf("%v: %s is restarted, and %v are down, of which the fleet allows %d", time.Since(f.began), o.id, covered, f.store.k)
		}
	case f.spec.Group.FleetWait || !state.Unreachable:
		f.t.Errorf("%v: %s is restarted without a place: %+v", time.Since(f.began), o.id, state)
	default:
		f.sum.local.Add(1)
	}
	if len(own) >= most {
		f.t.Errorf("%v: %s is restarted, and %v of its host are down, of which it allows %d", time.Since(f.began), o.id, own, most)
	}
}

// settle ends all that is wrong, and waits until everybody is through.
func (f *fleetSim) settle() {
	for _, h := range f.hosts {
		h.cut.Store(false)
		h.slow.Store(false)
		if !h.alive() {
			h.boot()
		}
	}
	f.each(func(h *fleetSimHost, id string) {
		h.probes.setResult(id+":3", success)
		h.probes.setResult(id+":2", refused)
	})
	var left []string
	for range 360 {
		time.Sleep(10 * time.Second)
		synctest.Wait()
		left = nil
		f.each(func(h *fleetSimHost, id string) {
			if s := h.view(id).State; !s.Conditions.Ready.Status || s.Health.Failed != core.NoCause || h.probes.result(id+":2") != success.Outcome {
				left = append(left, fmt.Sprint(id, " ", s.Health.Wait))
			}
		})
		if len(left) == 0 {
			f.checkGivenBack()
			return
		}
	}
	f.t.Errorf("after an hour without faults: %v", left)
}

// checkGivenBack checks that nobody holds a place for nothing.
func (f *fleetSim) checkGivenBack() {
	time.Sleep(f.store.ttl)
	synctest.Wait()
	for _, h := range f.hosts {
		if left := h.sim.store.leftOf(h.name); len(left) > 0 {
			f.t.Errorf("%s holds places of %v, and nobody is down", h.name, left)
		}
	}
}
