package supervisor

import (
	"math/rand/v2"
	"testing"
	"time"

	"healthd/supervisor/core"
)

var chaosSeeds = newSeeds("", "TestChaos", 8, 50)

// TestChaos plays a host on which everything goes wrong that may: operators, crashes,
// the engine, the daemon. A failure names its seed:
//
//	go test ./supervisor -run Chaos -args -seed=17
//	go test ./supervisor -run Chaos -args -seeds=1000 [-seed=5000]
func TestChaos(t *testing.T) { chaosSeeds.play(t, runChaos) }

// chaosKnobs has all that can go wrong go wrong, some of it with some seeds only.
func chaosKnobs(seed int) knobs {
	r := rand.New(rand.NewPCG(uint64(seed), 0))
	k := knobs{seed: uint64(seed), r: r, one: chaosSeeds.one(), templates: newWorldTemplates(r), callsFail: r.IntN(2) == 0}
	if r.IntN(3) == 0 {
		k.lossPerMille = 5 + r.IntN(100)
	}
	if r.IntN(4) == 0 {
		k.historyCap = 40
	}
	if r.IntN(3) == 0 {
		k.guard = core.Guard{MaxRestarts: 2, Window: time.Minute}
	}
	k.clocks = r.IntN(2) == 0
	if r := rand.New(rand.NewPCG(uint64(seed), 1)); r.IntN(3) == 0 { // of its own, so that the other seeds stay as they are
		k.longStops = true
		takeLongToStop(k.templates, r)
	}
	if rand.New(rand.NewPCG(uint64(seed), 2)).IntN(3) == 0 {
		for _, t := range k.templates {
			t.varied = true
		}
	}
	k.neverReached = rand.New(rand.NewPCG(uint64(seed), 3)).IntN(3) == 0
	return k
}

// runChaos plays one seed: some minutes of chaos, then quiet.
func runChaos(t *testing.T, seed int) {
	newWorld(t, chaosKnobs(seed)).play(chaos, 100, 4*time.Second+1, nil)
}

// chaos is some minutes of it.
func chaos(h *world) { h.playSteps(150) }
