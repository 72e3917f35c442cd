package supervisor

import (
	"slices"
	"strings"
	"testing"
	"time"

	"healthd/prober"
	"healthd/supervisor/core"
)

// While no container of a host answers, it is rather the host than all of them: none is restarted for a minute.
func TestHostSuspect(t *testing.T) {
	silent := prober.Result{Outcome: prober.Failure, Cause: prober.Timeout, Output: "no reply within 1s"}
	broken := prober.Result{Outcome: prober.Failure, Cause: prober.Status, Output: "status 500"}
	unasked := prober.Result{Cause: prober.NotAsked, Output: "too many open files"}
	for name, tt := range map[string]struct {
		containers string
		of         map[string]prober.Result // other than silent
		off        bool                     // host_suspect = false
		back       string                   // which answer again before the minute is over
		group      string
		inside     string // the container, of those, that is asked inside its network
		soon       string // which have been stopped 40 s after the first failure
		later      string // and after two minutes
		told       bool
	}{
		"none answers":               {containers: "a b c", soon: "", later: "a b c", told: true},
		"they answer again":          {containers: "a b c", back: "a b c", soon: "", later: "", told: true},
		"one answers again":          {containers: "a b c", back: "a", soon: "", later: "b c", told: true},
		"one answers":                {containers: "a b c d", of: map[string]prober.Result{"d": success}, soon: "a b c", later: "a b c"},
		"one answers that it is ill": {containers: "a b c", of: map[string]prober.Result{"c": broken}, soon: "a b c", later: "a b c"},
		"one cannot be asked":        {containers: "a b c d", of: map[string]prober.Result{"d": unasked}, soon: "", later: "a b c", told: true},
		"one answers inside":         {containers: "a b c d", of: map[string]prober.Result{"d": success}, inside: "d", soon: "", later: "a b c", told: true},
		"two containers":             {containers: "a b", soon: "a b", later: "a b"},
		"one group":                  {containers: "a b c", group: "web", soon: "a b c", later: "a b c"},
		"set to false":               {containers: "a b c", off: true, soon: "a b c", later: "a b c", told: true},
	} {
		t.Run(name, func(t *testing.T) {
			spec := webSpec()
			spec.Group.Name, spec.Group.MaxUnavailable.Number = tt.group, 1
			spec.Probes[core.Readiness], spec.Probes[core.Startup] = nil, tcpProbe(3, time.Second, 3) // which is asked no more
			playWith(t, spec, func(c *Config) { c.Guard.HostSuspect = !tt.off }, func(h *harness) {
				h.engine.onStopOf = func(id string) { h.probes.setResult(id+":1", success) }
				if tt.inside != "" {
					inside, probe := *spec, *spec.Probes[core.Liveness]
					tcp := *probe.Handler.TCPSocket
					tcp.Via, probe.Handler.TCPSocket, inside.Probes[core.Liveness] = prober.ViaContainer, &tcp, &probe
					h.specs["n-"+tt.inside] = &inside
				}
				h.sendSynced()
				ids := strings.Fields(tt.containers)
				for _, id := range ids {
					h.engine.run(id)
				}
				pass(time.Second)
				for _, id := range ids {
					result, ok := tt.of[id]
					if !ok {
						result = silent
					}
					h.probes.setResult(id+":1", result)
				}
				stopped := func() string {
					var ids []string
					for _, call := range h.engine.calls() {
						if id, ok := strings.CutPrefix(call, "stop "); ok {
							ids = append(ids, id[:1])
						}
					}
					slices.Sort(ids)
					return strings.Join(slices.Compact(ids), " ")
				}
				pass(49 * time.Second) // the first failure comes 10 s after the start
				if got := stopped(); got != tt.soon {
					t.Errorf("stopped soon: %q, want %q", got, tt.soon)
				}
				if waits := h.waitReason("a"); strings.HasPrefix(waits, core.WaitHostSuspect) != (tt.soon == "") {
					t.Errorf("a waits for %q", waits)
				}
				if h.Board().HostSuspect() != (tt.soon == "") {
					t.Errorf("the board shows it: %v", h.Board().HostSuspect())
				}
				for _, id := range strings.Fields(tt.back) {
					h.probes.setResult(id+":1", success)
				}
				pass(19 * time.Second) // the minute is over at the end of the next second
				if got := stopped(); got != tt.soon {
					t.Errorf("stopped within the minute: %q, want %q", got, tt.soon)
				}
				pass(61 * time.Second)
				if got := stopped(); got != tt.later {
					t.Errorf("stopped later: %q, want %q", got, tt.later)
				}
				told := 0
				for _, ev := range h.journal.all() {
					if ev.Reason == core.WaitHostSuspect && ev.Container == "" {
						told++
					}
				}
				if (told > 0) != tt.told || told > 1 || h.Board().HostSuspect() {
					t.Errorf("told %d times; the board shows it: %v", told, h.Board().HostSuspect())
				}
			})
		})
	}
}

// One that answers now and then does not keep those that hang from being restarted.
func TestHostSuspectIsRare(t *testing.T) {
	silent := prober.Result{Outcome: prober.Failure, Cause: prober.Timeout, Output: "no reply within 1s"}
	spec := webSpec()
	spec.Probes[core.Readiness] = nil
	playWith(t, spec, func(c *Config) { c.Guard.HostSuspect = true }, func(h *harness) {
		h.sendSynced()
		for _, id := range []string{"a", "b", "c"} {
			h.engine.run(id)
			h.probes.setResult(id+":1", silent)
		}
		for range 10 { // c is silent for 20 s, and then it answers
			pass(20 * time.Second)
			h.probes.setResult("c:1", success)
			pass(10 * time.Second)
			h.probes.setResult("c:1", silent)
		}
		for _, id := range []string{"a", "b"} {
			if !slices.ContainsFunc(h.engine.calls(), func(call string) bool { return strings.HasPrefix(call, "stop "+id) }) {
				t.Errorf("%s, which hangs, was not restarted: %v", id, h.engine.calls())
			}
		}
		told := 0
		for _, ev := range h.journal.all() {
			if ev.Reason == core.WaitHostSuspect && ev.Container == "" {
				told++
			}
		}
		if told != 1 {
			t.Errorf("told %d times within five minutes", told)
		}
	})
}
