package supervisor

import (
	"strings"
	"testing"
	"time"

	"healthd/prober"
	"healthd/supervisor/core"
)

// A restart that has waited for longer than a period asks its liveness probe once more, and keeps its turn meanwhile.
// When the probe cannot run, the turn is that of the next one.
func TestWaitingRestartAsksOnceMore(t *testing.T) {
	const s = time.Second
	for _, tt := range []struct {
		name   string
		answer prober.Result // of b, since shortly before it may be restarted
		down   time.Duration // how long a is
		limits func(*Config)
		stops  string // when b may be restarted
		later  string // after another period
	}{
		{"well again", success, 20 * s, nil, "a c", "a c"},
		{"still ill", refused, 20 * s, nil, "a b", "a b"},
		{"not known", prober.Result{Cause: prober.NotAsked, Output: "too many open files"}, 20 * s, nil, "a c", "a c"},
		{"asked lately enough", success, 5 * s, nil, "a b", "a b c"},
		{"well again, of the budget", success, 20 * s, func(c *Config) { c.Guard = core.Guard{MaxRestarts: 1, Window: 20 * s} }, "a c", "a c"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			spec := slowReadySpec(core.Group{Name: "web"})
			spec.Probes[core.Liveness].Period, spec.Probes[core.Readiness].InitialDelay = 15*s, tt.down
			if tt.limits != nil {
				spec.Group = core.Group{}
			}
			playWith(t, spec, tt.limits, func(h *harness) {
				h.sendSynced()
				h.engine.onStopOf = func(id string) { h.probes.setResult(id+":2", success) }
				ids := []string{"a", "b", "c"}
				for _, id := range ids { // they are probed a second apart
					h.engine.run(id)
					pass(s)
				}
				pass(20*s + s/2)
				for _, id := range ids {
					h.probes.setResult(id+":2", refused)
				}
				pass(6*s + tt.down - s) // a failed 30 s after its start
				h.probes.setResult("b:2", tt.answer)
				for _, want := range []string{tt.stops, tt.later} {
					pass(2 * s)
					var stops []string
					for _, call := range h.engine.calls() {
						if id, ok := strings.CutPrefix(call, "stop "); ok {
							stops = append(stops, id[:1])
						}
					}
					if got := strings.Join(stops, " "); got != want {
						h.t.Errorf("stopped %s, want %s; b: %s; events %v", got, want, h.waitReason("b"), h.journal.reasons("n-b"))
					}
					pass(13 * s)
				}
				if v := h.view("b"); strings.HasPrefix(tt.name, "well") && (v.State.RestartCount() > 0 || v.Waiting() != nil || !v.State.Conditions.Ready.Status) {
					h.t.Errorf("b: %+v", v.State)
				}
			})
		})
	}
}
