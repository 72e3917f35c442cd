package supervisor

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"healthd/prober"
	"healthd/supervisor/core"
)

// TestChaosOfMany plays a short chaos on a host with 10,000 containers more (with -short 500). What befalls
// all of them at once comes in any case: a database that they need is down, the engine is
// lost, the engine, the daemon and the host die.
func TestChaosOfMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		crowd := 10_000
		if testing.Short() {
			crowd = 500
		}
		k := chaosKnobs(1)
		k.guard, k.lossPerMille, k.historyCap, k.callsFail = core.Guard{MaxRestarts: 10, Window: time.Minute}, 0, 0, false
		h := newWorld(t, k)
		h.addCrowd(crowd)
		h.play(befallCrowd, 20, 12*time.Second+1, nil)
	})
}

// befallCrowd has something happen to all, and something else to a few after each.
func befallCrowd(h *world) {
	h.playSteps(1)
	for _, all := range []struct {
		befall func(*worldContainer)
		pause  time.Duration
	}{
		{h.hangCrowd, crowdPause}, {h.freeCrowd, crowdPause}, {h.disconnectEngine, crowdPause}, {h.reload, 0}, {h.killDaemon, crowdPause},
		{h.reboot, crowdPause}, {h.terminateDaemon, 0},
	} {
		all.befall(h.engine.newestOf(h.templates[0]))
		time.Sleep(all.pause)
		h.playSteps(1)
	}
}

// crowdPause is about a period of the crowd's probes, and longer than an engine is away.
const crowdPause = 40 * time.Second

// addCrowd adds containers that only what befalls all of them can disturb. Half of them
// are one group.
func (h *world) addCrowd(n int) {
	for i := range n {
		t := &worldTemplate{name: fmt.Sprint("crowd", i), policy: core.Never, enginePolicy: "no", stopTimeout: 5 * time.Second, crowd: true}
		if i%8 < 2 { // the race detector needs 100 kB for each start that is under way
			t.policy = core.Always
		}
		if i%2 == 0 {
			t.group = "p/crowd"
			t.labels = map[string]string{core.ComposeProject: "p", core.ComposeService: "crowd", core.ComposeNumber: fmt.Sprint(i)}
		}
		h.specs[t.name] = &core.Spec{
			Name: t.name, RestartPolicy: t.policy, Backoff: core.Backoff{Initial: worldBackoff, Max: worldBackoffMax, ResetAfter: worldReset},
			Probes: [core.NumProbes]*core.ProbeSpec{core.Liveness: {
				Handler: prober.Handler{TCPSocket: &prober.TCPSocket{Port: int(core.Liveness)}}, Period: crowdPause, Timeout: time.Second, SuccessThreshold: 1, FailureThreshold: 1,
			}},
		}
		h.engine.beginRun(h.engine.create(t), byOperator)
	}
}

func (h *world) hangCrowd(*worldContainer) { h.setCrowdHung(true) }
func (h *world) freeCrowd(*worldContainer) { h.setCrowdHung(false) }

func (h *world) setCrowdHung(hung bool) {
	h.locked(func() {
		h.logf("> all of the crowd hang: %v", hung)
		for _, c := range h.engine.containers {
			if c.template.crowd {
				c.hung = hung
			}
		}
	})
}
