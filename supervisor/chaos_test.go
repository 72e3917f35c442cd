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
	seedsFlag = flag.Int("seeds", 0, "how many seeds of chaos; 0: as many as fit into some seconds")
	seedFlag  = flag.Int("seed", 0, "one seed of chaos, with a log of what happens")
)

// TestChaos lets everything that may go wrong on a host go wrong, in virtual time and
// by the numbers of a seed, and holds what healthd does against the truth, which the
// world knows and healthd does not. A failure tells its seed:
//
//	go test ./supervisor -run Chaos -args -seed=17
//	go test ./supervisor -run Chaos -args -seeds=1000
func TestChaos(t *testing.T) {
	first, n := 1, *seedsFlag
	switch {
	case *seedFlag > 0:
		first, n = *seedFlag, 1
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

// chaosSeeds take some ten seconds with the race detector.
const chaosSeeds = 50

// chaos is the world: an engine, what runs on it, the people who use it and healthd.
type chaos struct {
	mu        sync.Mutex
	seed      uint64
	r         *rand.Rand // of what people do
	birth     time.Time
	kinds     []*chaosKind
	engine    *chaosEngine
	specs     map[string]*core.Spec // nil: not supervised
	guard     core.Guard
	disk      chaosDisk
	daemon    *chaosDaemon // nil while there is none
	daemons   int
	bootAt    time.Time // of the next one
	rebooted  bool
	loss      int // events of 1,000 that are lost
	memoryCap int
	flaky     bool // calls fail
	sick      bool // calls hang
	hanging   int  // questions that nobody will answer
	calm      bool
	busy      bool // something happens to the engine already

	troubleAt time.Time // when healthd could last not do its work
	hearing   time.Time // since when it hears the engine; zero: it does not

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

func newChaos(t *testing.T, seed int) *chaos {
	r := rand.New(rand.NewPCG(uint64(seed), 0))
	w := &chaos{
		t: t, seed: uint64(seed), r: r, birth: time.Now(), kinds: chaosKinds(r), specs: make(map[string]*core.Spec),
		disk: chaosDisk{memories: make(map[string]core.Memory)}, memoryCap: chaosMemory, flaky: r.IntN(2) == 0,
	}
	if r.IntN(3) == 0 {
		w.loss = 5 + r.IntN(100)
	}
	if r.IntN(4) == 0 {
		w.memoryCap = 40
	}
	if r.IntN(3) == 0 {
		w.guard = core.Guard{MaxRestarts: 2, Window: time.Minute}
	}
	w.engine = &chaosEngine{w: w, up: true, ended: make(chan struct{}), since: time.Now()}
	for _, k := range w.kinds {
		w.specs[k.name] = k.spec(r)
		c := w.engine.create(k)
		if r.IntN(8) > 0 {
			w.engine.begin(c, theOperator)
		}
	}
	return w
}

// runChaos is one seed: some minutes of chaos, then peace, then a look at what
// became of it all.
func runChaos(t *testing.T, seed int) {
	w := newChaos(t, seed)
	w.bootDaemon(false)
	for range chaosSteps {
		time.Sleep(w.pause())
		w.act()
		w.steer()
		synctest.Wait()
		w.check()
		if w.failed() {
			break
		}
	}
	if !w.failed() {
		w.peace()
	}
	w.quit()
	if w.failed() || *seedFlag > 0 {
		t.Log(w.story())
	}
}

const chaosSteps = 150

// pause is the time until the next deed: often little, now and then long.
func (w *chaos) pause() time.Duration {
	d := time.Duration(1 + w.r.IntN(int(2*time.Second)))
	switch w.r.IntN(12) {
	case 0:
		d += time.Duration(w.r.IntN(int(40 * time.Second)))
	case 1, 2, 3:
		d = d/20 + 1
	}
	return d
}

// peace ends all chaos, lets some minutes go by and looks at everything.
func (w *chaos) peace() {
	w.mu.Lock()
	w.logf("peace")
	w.calm, w.sick, w.loss, w.flaky = true, false, 0, false
	w.mu.Unlock()
	for range 100 {
		time.Sleep(4*time.Second + 1)
		w.appease()
		w.steer()
		synctest.Wait()
		w.check()
		if w.failed() {
			return
		}
	}
	synctest.Wait()
	w.last()
}

// appease makes everything well that a person can make well.
func (w *chaos) appease() {
	w.mu.Lock()
	w.troubleAt = later(w.troubleAt, time.Time{})
	for _, c := range w.engine.all {
		c.hung, c.unready = false, false
		if c.c.State == "paused" {
			c.c.State = "running"
			w.engine.emit(c, "unpause", 0)
		}
	}
	d := w.daemon
	w.mu.Unlock()
	if d == nil {
		return
	}
	for _, k := range w.kinds {
		_ = d.sup.Resume(w.t.Context(), k.name)
		_ = d.sup.SetGate(w.t.Context(), k.name, "lb", true)
	}
}

// steer brings the next daemon up when it is time, and kills one that takes too long
// to end, as systemd does.
func (w *chaos) steer() {
	w.mu.Lock()
	d := w.daemon
	slow := d != nil && !d.quitAt.IsZero() && time.Since(d.quitAt) > 90*time.Second
	due := d == nil && !time.Now().Before(w.bootAt)
	if d != nil {
		select {
		case <-d.ended:
			if d.quitAt.IsZero() {
				w.fail("%s has ended by itself", d.name())
			}
			w.logf("%s has ended", d.name())
			w.daemon, due = nil, w.roll("boot", "", 2) == 0
			w.silent()
		default:
			if slow && w.calm {
				w.fail("%s does not end: asked to %v ago", d.name(), time.Since(d.quitAt))
			}
		}
	}
	rebooted := w.rebooted
	w.mu.Unlock()
	if slow {
		d.kill9()
	}
	if due {
		w.mu.Lock()
		w.rebooted = false
		w.mu.Unlock()
		w.bootDaemon(rebooted)
	}
}

// quit ends the last daemon and waits for everything: what does not end keeps the
// bubble from ending, which synctest reports.
func (w *chaos) quit() {
	w.mu.Lock()
	d := w.daemon
	w.logf("the end")
	w.calm = true
	w.engine.rise(true)
	w.engine.cut, w.sick = false, false
	w.mu.Unlock()
	if d != nil {
		d.stop()
		select {
		case <-d.ended:
		case <-time.After(5 * time.Minute):
			w.fail("%s does not end", d.name())
		}
	}
	w.wg.Wait()
}
