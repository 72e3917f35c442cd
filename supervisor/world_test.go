package supervisor

import (
	"cmp"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"healthd/runtime"
	"healthd/supervisor/core"
)

// world is a host in virtual time: an engine, its containers, the people who use them, and healthd, one daemon after
// the other. It knows more than healthd does, and judges what healthd does by that. What happens is drawn from a seed.
// The tests that play in it differ by their knobs, and by what they check beside.
type world struct {
	knobs
	t         *testing.T
	mu        sync.Mutex
	startedAt time.Time
	engine    *worldEngine
	specs     map[string]*core.Spec // nil: healthd leaves the container alone
	disk      worldDisk
	daemon    *worldDaemon // nil: none runs
	daemons   int

	nextDaemonAt time.Time // when the next one starts
	rebooted     bool
	boots        int           // of the host
	wallStep     time.Duration // how far its clock was set ahead at the newest boot
	callsHang    bool
	hangingCalls int // calls that no one will answer
	quiet        bool
	engineBusy   bool    // an action on the engine is under way
	tenant       *tenant // nil: nobody means any harm

	disturbedAt      time.Time // when something last kept healthd from its work
	connectedSince   time.Time // since when the daemon is connected; zero: it is not
	unwatchedSince   time.Time // end of the newest connection
	firstConnectedAt time.Time // first connection ever

	wg       sync.WaitGroup
	lines    []worldLine
	failures int
}

// knobs are what differs between the tests that play in a world.
type knobs struct {
	seed         uint64
	r            *rand.Rand       // decides what people do
	templates    []*worldTemplate // the containers that are there in the beginning, and that things happen to
	guard        core.Guard
	shutdown     time.Duration                                 // [daemon] shutdown; 0: none
	lossPerMille int                                           // events of 1,000 that are lost
	historyCap   int                                           // events that the engine keeps; 0: as many as Docker
	clocks       bool                                          // people set clocks
	callsFail    bool                                          // now and then a call fails or hangs, or its reply is lost
	longStops    bool                                          // people give a stop more time than the spec does
	neverReached bool                                          // there is another engine, which no daemon ever reaches
	forgets      bool                                          // the world keeps nothing of what is gone, and does not judge healthd
	assemble     func(*worldDaemon, *Config, *runtime.Watcher) // changes what a daemon is made of; nil: nothing
	recorded     func(*worldDaemon, core.Event)                // gets the events of healthd; nil: nobody does
	turns        *turns                                        // checks whose turn it is; nil: nothing does
	one          bool                                          // it is the only seed that is played: all that happens is shown
}

func newWorld(t *testing.T, k knobs) *world {
	k.historyCap = cmp.Or(k.historyCap, worldHistory)
	h := &world{knobs: k, t: t, startedAt: time.Now(), specs: map[string]*core.Spec{}, disk: worldDisk{memories: map[string]core.Memory{}}}
	h.engine = &worldEngine{host: h, up: true, ended: make(chan struct{}), order: map[int64]int{}, byID: map[string]*worldContainer{}}
	if h.turns != nil {
		h.turns.h = h
	}
	if h.clocks {
		h.engine.setClock(h.r)
	}
	for _, t := range h.templates {
		h.specs[t.name] = t.spec(h.r)
		if c := h.engine.create(t); h.r.IntN(8) > 0 {
			h.engine.beginRun(c, byOperator)
		}
	}
	return h
}

// seeds are those that a test plays.
type seeds struct {
	first, count *int // by flags; 0: from 1 on, and as many as follow
	short, all   int
}

// newSeeds has a test's seeds chosen by the flags -NAMEseed and -NAMEseeds.
func newSeeds(name, test string, short, all int) seeds {
	return seeds{
		flag.Int(name+"seed", 0, "the first seed that "+test+" plays; without -"+name+"seeds the only one, with all that happens"),
		flag.Int(name+"seeds", 0, "how many seeds "+test+" plays; 0: some seconds of them"), short, all,
	}
}

// one says whether only one seed is played, of which everything is to be shown.
func (s seeds) one() bool { return *s.first > 0 && *s.count <= 1 }

// play plays each seed in a bubble, beside the others, and returns how many there are.
func (s seeds) play(t *testing.T, play func(t *testing.T, seed int)) int {
	n := s.all
	switch {
	case *s.first > 0 || *s.count > 0:
		n = max(1, *s.count)
	case testing.Short():
		n = s.short
	}
	first := max(1, *s.first)
	for seed := first; seed < first+n; seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { play(t, seed) })
		})
	}
	return n
}

// weighted is something that may happen, and how often in comparison.
type weighted[F any] struct {
	weight int
	name   string
	do     F
}

// draw draws one of them.
func draw[F any](r *rand.Rand, all []weighted[F]) weighted[F] {
	sum := 0
	for _, w := range all {
		sum += w.weight
	}
	n := r.IntN(sum)
	i := 0
	for ; n >= all[i].weight; i++ {
		n -= all[i].weight
	}
	return all[i]
}

type worldLine struct {
	at     time.Duration
	format string
	args   []any
}

// play has something befall the host, beginning with a daemon's start. Then all faults end, and some rounds of quiet
// follow. Everything is checked all the while, and at the end what last checks.
func (h *world) play(befall func(*world), rounds int, pause time.Duration, last func()) {
	h.bootDaemon(false)
	befall(h)
	if !h.failed() {
		h.endChaos(rounds, pause)
	}
	if !h.failed() && last != nil {
		last()
	}
	h.shutDown()
	if h.failed() || h.one {
		h.t.Log(h.transcript())
	}
}

// playSteps has so many things happen, and checks everything after each.
func (h *world) playSteps(n int) {
	for step := 0; step < n && !h.failed(); step++ {
		time.Sleep(h.nextDelay())
		h.doRandomAction()
		if h.tenant != nil {
			h.tenant.act()
		}
		if h.turns != nil {
			h.turns.act()
		}
		h.manageDaemon()
		synctest.Wait()
		h.checkAll()
	}
}

// nextDelay is the time until the next action: often short, sometimes long.
func (h *world) nextDelay() time.Duration {
	d := time.Duration(1 + h.r.IntN(int(2*time.Second)))
	switch h.r.IntN(12) {
	case 0:
		d += time.Duration(h.r.IntN(int(40 * time.Second)))
	case 1, 2, 3:
		d = d/20 + 1
	}
	return d
}

// endChaos ends all faults, and checks everything for some minutes.
func (h *world) endChaos(rounds int, pause time.Duration) {
	h.mu.Lock()
	h.logf("chaos ends")
	h.quiet, h.callsHang, h.lossPerMille, h.callsFail = true, false, 0, false
	h.mu.Unlock()
	for range rounds {
		time.Sleep(pause)
		h.repairAll()
		h.manageDaemon()
		synctest.Wait()
		h.checkAll()
		if h.failed() {
			return
		}
	}
	synctest.Wait()
	h.checkEnd()
}

// repairAll undoes all that people have done.
func (h *world) repairAll() {
	h.mu.Lock()
	h.disturbedAt = later(h.disturbedAt, time.Time{})
	for _, c := range h.engine.containers {
		c.hung, c.notReady = false, false
		if c.info.State == "paused" {
			c.info.State = "running"
			h.engine.emit(c, "unpause", 0)
		}
	}
	d := h.daemon
	h.mu.Unlock()
	if h.turns != nil {
		h.playPlaces(h.turns.places.repair)
	}
	if d == nil {
		return
	}
	for _, t := range h.templates {
		_ = d.sup.Resume(h.t.Context(), t.name)
		_ = d.sup.SetGate(h.t.Context(), t.name, "lb", true)
	}
}

// manageDaemon starts the next daemon when it is due. It kills a daemon that takes too
// long to stop, as systemd does.
func (h *world) manageDaemon() {
	h.mu.Lock()
	d := h.daemon
	slow := d != nil && !d.stopRequestedAt.IsZero() && time.Since(d.stopRequestedAt) > 90*time.Second
	due := d == nil && !time.Now().Before(h.nextDaemonAt)
	if d != nil {
		select {
		case <-d.ended:
			if d.stopRequestedAt.IsZero() {
				h.fail("%s ended without SIGTERM", d.name())
			}
			h.logf("%s has ended", d.name())
			h.daemon, due = nil, h.roll("boot", "", 2) == 0
			h.noteDisconnect()
		default:
			if slow && h.quiet {
				h.fail("%s still runs %v after SIGTERM", d.name(), time.Since(d.stopRequestedAt))
			}
		}
	}
	rebooted := h.rebooted
	h.mu.Unlock()
	if slow {
		d.kill()
	}
	if due {
		h.mu.Lock()
		h.rebooted = false
		h.mu.Unlock()
		h.bootDaemon(rebooted)
	}
}

// shutDown stops the last daemon and waits for all goroutines. One that does not end
// keeps the synctest bubble open, which fails the test.
func (h *world) shutDown() {
	h.mu.Lock()
	d := h.daemon
	h.logf("the last daemon stops")
	h.quiet = true
	h.engine.comeUp(true)
	h.engine.unreachable, h.callsHang = false, false
	h.mu.Unlock()
	if d != nil {
		d.stop()
		patience := 5 * time.Minute
		if h.shutdown > 0 {
			patience = h.shutdown + 5*time.Second
		}
		select {
		case <-d.ended:
		case <-time.After(patience):
			h.fail("%s does not end", d.name())
		}
	}
	h.wg.Wait()
}
