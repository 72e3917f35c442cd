package supervisor

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"healthd/supervisor/core"
)

var guardSeeds = newSeeds("guard-", "TestChaosGuard", 10, 60)

// TestChaosGuard plays a host whose containers are in groups, some of them over a fleet, below a restart budget. The
// groups, what they allow and the budget change with each reload. turns checks each restart and all who wait. A
// failure names its seed:
//
//	go test ./supervisor -run ChaosGuard -args -guard-seed=17
func TestChaosGuard(t *testing.T) { guardSeeds.play(t, runChaosGuard) }

func runChaosGuard(t *testing.T, seed int) {
	h := newWorld(t, guardKnobs(seed))
	h.play(func(h *world) { h.playSteps(300) }, 30, 4*time.Second+1, nil)
}

// guardKnobs has nothing happen of which healthd may learn too little to know whose turn it is.
func guardKnobs(seed int) knobs {
	r := rand.New(rand.NewPCG(uint64(seed), 0))
	k := knobs{seed: uint64(seed), r: r, one: guardSeeds.one(), turns: newTurns(r)}
	k.guard = core.Guard{MaxRestarts: r.IntN(4), Window: 2 * time.Minute}
	for i := range 2 + r.IntN(8) {
		k.templates = append(k.templates, &worldTemplate{
			name: fmt.Sprint("n", i), policy: core.Always, enginePolicy: "no", labels: map[string]string{},
			stopTime: time.Duration(r.IntN(2000)) * time.Millisecond, stopTimeout: 5 * time.Second, ignoresTerm: r.IntN(8) == 0,
			own: func(r *rand.Rand) *core.Spec { return k.turns.spec(i, r) },
		})
	}
	return k
}
