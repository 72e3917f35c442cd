package supervisor

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"healthd/runtime"
	"healthd/supervisor/core"
)

// Many failing containers of one project hold up one of another for one turn, however long they have waited. In a
// project the longest wait comes first.
func TestProjectsTakeTurnsForTheBudget(t *testing.T) {
	spec := slowReadySpec(core.Group{})
	spec.Probes[core.Readiness].InitialDelay = 0
	playWith(t, spec, func(c *Config) { c.Guard = core.Guard{MaxRestarts: 2, Window: time.Minute} }, func(h *harness) {
		h.sendSynced()
		h.engine.onStopOf = func(id string) { h.probes.setResult(id+":2", success) }
		run := func(id, project string) {
			h.create(runtime.Container{ID: id, Name: "n-" + id, Labels: map[string]string{core.ComposeProject: project, core.ComposeService: id}})
			h.engine.run(id)
			pass(10 * time.Millisecond)
		}
		for i := range 24 {
			run(fmt.Sprintf("tenant%02d", i), "tenant")
		}
		run("honest1", "shop")
		run("honest2", "shop")
		pass(2 * time.Second)
		for i := range 24 {
			h.probes.setResult(fmt.Sprintf("tenant%02d:2", i), refused)
		}
		pass(30 * time.Second)
		for _, id := range []string{"honest1", "honest2"} {
			h.probes.setResult(id+":2", refused)
		}
		pass(4 * time.Minute)
		var stops []string
		for _, call := range h.engine.calls() {
			if id, ok := strings.CutPrefix(call, "stop "); ok {
				stops = append(stops, strings.Fields(id)[0])
			}
		}
		for i := 0; i+1 < len(stops); i += 2 { // two at once, in any order
			slices.Sort(stops[i : i+2])
		}
		const want = "tenant00 tenant01 honest1 tenant02 honest2 tenant03 tenant04 tenant05"
		if got := strings.Join(stops, " "); !strings.HasPrefix(got, want) || len(stops) != 10 {
			h.t.Errorf("stopped %s, want %s …", got, want)
		}
	})
}
