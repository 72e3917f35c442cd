package supervisor

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"healthd/supervisor/core"
)

var (
	seedsFlag = flag.Int("seeds", 0, "how many seeds TestChaos plays; 0: some seconds of them")
	seedFlag  = flag.Int("seed", 0, "the first seed that TestChaos plays; without -seeds the only one, with a full transcript")
)

// TestChaos plays a host on which everything goes wrong that may: operators, crashes,
// the engine, the daemon. A seed decides what happens when, in virtual time. The test
// knows more than healthd does, and checks what healthd does against that. A failure
// names its seed:
//
//	go test ./supervisor -run Chaos -args -seed=17
//	go test ./supervisor -run Chaos -args -seeds=1000 [-seed=5000]
func TestChaos(t *testing.T) {
	first, n := 1, *seedsFlag
	switch {
	case *seedFlag > 0:
		first, n = *seedFlag, max(1, n)
	case n == 0 && testing.Short():
		n = 20
	case n == 0:
		n = chaosSeeds
	}
	for seed := first; seed < first+n; seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { runChaos(t, seed) })
		})
	}
}

// transcriptWanted says that the one seed played is to be shown in full.
func transcriptWanted() bool { return *seedFlag > 0 && *seedsFlag <= 1 }

// chaosSeeds take about ten seconds with the race detector.
const chaosSeeds = 50

// chaosHost is an engine, its containers, the people who use them, and healthd.
type chaosHost struct {
	mu           sync.Mutex
	seed         uint64
	r            *rand.Rand // decides what people do
	startedAt    time.Time
	templates    []*chaosTemplate
	engine       *chaosEngine
	specs        map[string]*core.Spec // nil: healthd leaves the container alone
	guard        core.Guard
	disk         chaosDisk
	daemon       *chaosDaemon // nil: none runs
	daemons      int
	nextDaemonAt time.Time // when the next one starts
	rebooted     bool
	lossPerMille int // events of 1,000 that are lost
	historyCap   int
	clocks       bool          // people set clocks
	boots        int           // of the host
	wallStep     time.Duration // how far its clock was set ahead at the newest boot
	callsFail    bool
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
	lines    []chaosLine
	failures int
	t        *testing.T
}

type chaosLine struct {
	at     time.Duration
	format string
	args   []any
}

func newChaos(t *testing.T, seed int) *chaosHost {
	r := rand.New(rand.NewPCG(uint64(seed), 0))
	h := &chaosHost{
		t: t, seed: uint64(seed), r: r, startedAt: time.Now(), templates: newChaosTemplates(r), specs: make(map[string]*core.Spec),
		disk: chaosDisk{memories: make(map[string]core.Memory)}, historyCap: chaosHistory, callsFail: r.IntN(2) == 0,
	}
	if r.IntN(3) == 0 {
		h.lossPerMille = 5 + r.IntN(100)
	}
	if r.IntN(4) == 0 {
		h.historyCap = 40
	}
	if r.IntN(3) == 0 {
		h.guard = core.Guard{MaxRestarts: 2, Window: time.Minute}
	}
	h.engine = &chaosEngine{host: h, up: true, ended: make(chan struct{}), order: make(map[int64]int), byID: make(map[string]*chaosContainer)}
	if h.clocks = r.IntN(2) == 0; h.clocks {
		h.engine.setClock(r)
	}
	for _, t := range h.templates {
		h.specs[t.name] = t.spec(r)
		c := h.engine.create(t)
		if r.IntN(8) > 0 {
			h.engine.beginRun(c, byOperator)
		}
	}
	return h
}

// runChaos plays one seed: some minutes of chaos, then quiet, then the final check.
func runChaos(t *testing.T, seed int) {
	h := newChaos(t, seed)
	h.bootDaemon(false)
	h.playSteps(chaosSteps)
	if !h.failed() {
		h.endChaos(100, 4*time.Second+1)
	}
	h.shutDown()
	if h.failed() || transcriptWanted() {
		t.Log(h.transcript())
	}
}

const chaosSteps = 150

// playSteps has so many things happen, and checks everything after each.
func (h *chaosHost) playSteps(n int) {
	for step := 0; step < n && !h.failed(); step++ {
		time.Sleep(h.nextDelay())
		h.doRandomAction()
		if h.tenant != nil {
			h.tenant.act()
		}
		h.manageDaemon()
		synctest.Wait()
		h.checkAll()
	}
}

// nextDelay is the time until the next action: often short, sometimes long.
func (h *chaosHost) nextDelay() time.Duration {
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
func (h *chaosHost) endChaos(rounds int, pause time.Duration) {
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
func (h *chaosHost) repairAll() {
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
func (h *chaosHost) manageDaemon() {
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
func (h *chaosHost) shutDown() {
	h.mu.Lock()
	d := h.daemon
	h.logf("the last daemon stops")
	h.quiet = true
	h.engine.comeUp(true)
	h.engine.unreachable, h.callsHang = false, false
	h.mu.Unlock()
	if d != nil {
		d.stop()
		select {
		case <-d.ended:
		case <-time.After(h.patienceAtTheEnd()):
			h.fail("%s does not end", d.name())
		}
	}
	h.wg.Wait()
}
