package supervisor

import (
	"context"
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

var fleetSeeds = newSeeds("fleet-", "TestFleetPlaces", 3, 15)

// TestFleetPlaces plays three to five hosts with one service, whose group's limit is over all of them. Probes fail, also
// those of all containers at once, daemons are killed or paused, hosts are cut off from the store of the places,
// which answers late. Never may more members be down than the group allows, and whoever waits gets through
// in the end. Not counted are two kinds: those that a host restarted by its own limit while it could not reach
// the store, and those whose host lost its lease while they were down. A failure names its seed:
//
//	go test ./supervisor -run FleetPlaces -args -fleet-seed=17
//	go test ./supervisor -run FleetPlaces -v -args -fleet-seeds=1000
func TestFleetPlaces(t *testing.T) {
	var sum fleetCounts
	n := 0
	t.Run("seeds", func(t *testing.T) {
		n = fleetSeeds.play(t, func(t *testing.T, seed int) { playFleet(t, seed, &sum) })
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

// fleetSimHost is a world with a host of it.
type fleetSimHost struct {
	*world
	sim       *fleetSim
	name      string
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
	name  string
	lease int       // under which its place is held; 0: it has none
	until time.Time // when the run that came after it has had its time; zero: there was none at the last look
}

func playFleet(t *testing.T, seed int, sum *fleetCounts) {
	f := &fleetSim{t: t, sum: sum, r: rand.New(rand.NewPCG(uint64(seed), 1)), began: time.Now()}
	f.spec = f.drawSpec()
	members := 0
	for i := range 3 + f.r.IntN(3) {
		h := &fleetSimHost{sim: f, name: fmt.Sprint("h", i)}
		k := knobs{seed: uint64(seed + i<<32), r: f.r, one: fleetSeeds.one(), recorded: h.recorded, assemble: h.assemble}
		k.guard = core.Guard{MaxRestarts: f.r.IntN(4), Window: time.Duration(1+f.r.IntN(3)) * time.Minute}
		for j := range 1 + f.r.IntN(3) {
			k.templates = append(k.templates, &worldTemplate{name: fmt.Sprintf("%s-%d", h.name, j), own: func(*rand.Rand) *core.Spec { return f.spec }, enginePolicy: "no", stopTimeout: -1, exitCode: 1})
			members++
		}
		h.world = newWorld(t, k)
		for _, t := range h.templates {
			h.dockerStart(h.engine.newestOf(t)) // unless it runs
		}
		f.hosts = append(f.hosts, h)
	}
	f.store = newFleetStore(f.spec.Group.MaxUnavailable.Of(members), 10*time.Second)
	for _, h := range f.hosts {
		h.boot()
	}
	time.Sleep(20 * time.Second)
	for range 60 {
		f.act()
		time.Sleep(time.Duration(1 + f.r.Int64N(int64(15*time.Second))))
	}
	f.settle()
	for _, h := range f.hosts {
		h.die()
		h.wg.Wait()
	}
}

func (f *fleetSim) drawSpec() *core.Spec {
	most := []core.Share{{}, {Number: 2}, {Percent: 40}}[f.r.IntN(3)]
	spec := slowReadySpec(core.Group{Name: "web", MaxUnavailable: most, Fleet: true, FleetWait: f.r.IntN(2) == 0})
	spec.Probes[core.Liveness].Period, spec.Probes[core.Readiness].Period = 4*time.Second, 4*time.Second
	for probe, p := range spec.Probes {
		if p != nil {
			p.Handler.TCPSocket.Port = probe // as the world's containers answer them
		}
	}
	spec.Publish.Drain = time.Duration(f.r.IntN(2)) * 5 * time.Second
	return spec
}

// boot starts a daemon, with the lease that the last one had.
func (h *fleetSimHost) boot() {
	h.bootDaemon(false)
	sup, c := h.runningDaemon().sup, h.client
	ctx, cancel := context.WithCancel(context.Background())
	c.changed = func() { _ = sup.PlacesChanged(ctx) }
	var ended sync.WaitGroup
	ended.Go(func() { c.run(ctx) })
	h.end = func() { cancel(); ended.Wait() }
}

func (h *fleetSimHost) assemble(_ *worldDaemon, c *Config, _ *runtime.Watcher) {
	h.client = &fleetClient{
		host: h, wake: make(chan struct{}, 1), wished: make(map[string]wish), granted: make(map[string]bool),
		back: make(map[string]string), r: rand.New(rand.NewPCG(h.r.Uint64(), 0)),
	}
	c.Places = h.client
}

// die is kill -9 of the daemon.
func (h *fleetSimHost) die() {
	h.runningDaemon().kill()
	h.end()
	synctest.Wait()
}

// set has the process of a container hang until its end, or be ready or not.
func (h *fleetSimHost) set(c *worldContainer, hung, notReady bool) {
	h.locked(func() { c.hung, c.notReady = hung, notReady })
}

// act has something happen.
func (f *fleetSim) act() {
	synctest.Wait()
	f.mu.Lock()
	f.forgetOutages("") // one that is over does not come back
	f.mu.Unlock()
	for _, h := range f.hosts {
		if h.runningDaemon() == nil && !time.Now().Before(h.backAt) {
			h.boot()
		}
		if !h.client.paused() {
			h.checkAll()
		}
	}
	h := f.hosts[f.r.IntN(len(f.hosts))]
	c := h.engine.newestOf(h.templates[f.r.IntN(len(h.templates))])
	name, alive := c.template.name, h.runningDaemon() != nil
	switch n := f.r.IntN(100); {
	case n < 40:
		f.logf("%s fails", name)
		h.set(c, true, c.notReady)
	case n < 45:
		f.logf("all fail")
		f.each(func(h *fleetSimHost, c *worldContainer) { h.set(c, true, c.notReady) })
	case n < 50:
		h.set(c, false, c.notReady)
	case n < 58 && alive:
		h.backAt = time.Now().Add(time.Duration(f.r.Int64N(int64(40 * time.Second))))
		f.logf("the daemon of %s is killed for %v", h.name, time.Until(h.backAt))
		f.sum.kills.Add(1)
		h.die()
	case n < 64 && alive:
		h.pause(time.Duration(f.r.Int64N(int64(30 * time.Second))))
	case n < 74:
		f.logf("%s is cut off: %v", h.name, h.cut.Load())
		f.sum.cuts.Add(1)
		h.cut.Store(!h.cut.Load())
	case n < 80:
		h.slow.Store(!h.slow.Load())
	case n < 84:
		f.logf("%s crashes", name)
		h.crash(c)
	case n < 88:
		f.logf("%s is not ready", name)
		h.set(c, c.hung, true)
	default:
		h.set(c, c.hung, false)
	}
}

// pause stops the whole daemon for a while.
func (h *fleetSimHost) pause(d time.Duration) {
	h.sim.logf("%s is stopped for %v", h.name, d)
	h.sim.sum.pauses.Add(1)
	h.client.pausedUntil.Store(time.Now().Add(d).UnixNano())
	h.locked(func() { h.disturbedAt = time.Now().Add(d) })
	_ = h.runningDaemon().sup.send(context.Background(), inspectLoop(func(*loop) { time.Sleep(max(d, 1)) }))
}

func (f *fleetSim) each(do func(*fleetSimHost, *worldContainer)) {
	for _, h := range f.hosts {
		for _, c := range h.engine.containers {
			do(h, c)
		}
	}
}

func (f *fleetSim) logf(format string, args ...any) {
	if fleetSeeds.one() {
		f.t.Logf("%v: %s", time.Since(f.began), fmt.Sprintf(format, args...))
	}
}

// recorded is called by the loop of a daemon of the host with each event.
func (h *fleetSimHost) recorded(d *worldDaemon, ev core.Event) {
	if ev.Reason != core.EventKilling || !strings.Contains(ev.Message, "will be restarted") {
		return
	}
	v, err := d.sup.Board().Find(ev.Container)
	if err != nil || !v.State.Action.Stopping.ByProbe() { // of the daemon before
		return
	}
	f, state := h.sim, h.client.State(v.Container.ID)
	o := &fleetOutage{Outage: core.Outage{Run: v.State.Run.ID, Since: time.Now()}, host: h, name: ev.Container}
	if state.Granted {
		o.lease = int(h.lease.Load())
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.logf("%s is restarted: %+v", o.name, state)
	f.forgetOutages(o.name)
	f.check(o, state)
	f.outages = append(f.outages, o)
}

// forgetOutages forgets those that are over, and that of the container.
func (f *fleetSim) forgetOutages(name string) {
	f.outages = slices.DeleteFunc(f.outages, func(o *fleetOutage) bool {
		if o.lease != 0 && !f.store.alive(o.lease) {
			o.lease = 0
		}
		d := o.host.runningDaemon()
		switch {
		case o.name == name:
			return true
		case d == nil: // whatever the container does later, the next daemon finds this outage over
			return !o.until.IsZero() && !time.Now().Before(o.until)
		}
		v, err := d.sup.Board().Find(o.name)
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
			covered = append(covered, other.name)
		}
		if other.host == o.host {
			own = append(own, other.name)
		}
	}
	most := f.spec.Group.MaxUnavailable.Of(len(o.host.templates))
	switch {
	case o.lease != 0:
		f.sum.placed.Add(1)
		if len(f.outages) >= f.store.k {
			f.sum.over.Add(1)
		}
		if len(covered) >= f.store.k {
			f.t.Errorf("%v: %s is restarted, and %v are down, of which the fleet allows %d", time.Since(f.began), o.name, covered, f.store.k)
		}
	case f.spec.Group.FleetWait || !state.Unreachable:
		f.t.Errorf("%v: %s is restarted without a place: %+v", time.Since(f.began), o.name, state)
	default:
		f.sum.local.Add(1)
	}
	if len(own) >= most {
		f.t.Errorf("%v: %s is restarted, and %v of its host are down, of which it allows %d", time.Since(f.began), o.name, own, most)
	}
}

// settle ends all that is wrong, and waits until everybody is through.
func (f *fleetSim) settle() {
	for _, h := range f.hosts {
		h.cut.Store(false)
		h.slow.Store(false)
		if h.runningDaemon() == nil {
			h.boot()
		}
	}
	f.each(func(h *fleetSimHost, c *worldContainer) { h.set(c, true, false) })
	var left []string
	for range 360 {
		pass(10 * time.Second)
		left = nil
		f.each(func(h *fleetSimHost, c *worldContainer) {
			v := h.view(c)
			if v == nil || !v.State.Conditions.Ready.Status || v.State.Health.Failed != core.NoCause || c.hung {
				left = append(left, fmt.Sprintf("%s %+v", c.template.name, v))
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
	pass(f.store.ttl)
	for _, h := range f.hosts {
		if left := h.sim.store.leftOf(h.name); len(left) > 0 {
			f.t.Errorf("%s holds places of %v, and nobody is down", h.name, left)
		}
	}
}
