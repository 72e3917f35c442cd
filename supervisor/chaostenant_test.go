package supervisor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"healthd/prober"
	"healthd/supervisor/core"
	"healthd/supervisor/journal"
)

// TestChaosTenant is TestChaos on a host where one container means harm. It does all that its labels, its
// name, its answers and its end let it do, to the bounds that labels have by default (docs/security.md).
// The others are judged as ever: they come back in time, by their names and IDs, with all of their history.
// The flags are those of TestChaos.
func TestChaosTenant(t *testing.T) { tenantSeeds.play(t, runChaosWithTenant) }

// tenantSeeds are some of each kind.
var tenantSeeds = seeds{chaosSeeds.first, chaosSeeds.count, int(numTenants), 3 * int(numTenants)}

func runChaosWithTenant(t *testing.T, seed int) {
	k := chaosKnobs(seed)
	k.historyCap = 0 // the tenant has its part in what falls out of a short one
	k.shutdown = 30 * time.Second
	h := newWorld(t, k)
	h.addTenant(tenantKind(seed % int(numTenants)))
	h.play(chaos, 100, 4*time.Second+1, func() {
		time.Sleep(2 * time.Minute) // in which folded events get into the history
		h.tenant.checkHistory()
	})
}

// tenantKind is what a tenant is after.
type tenantKind int

const (
	tenantFloods  tenantKind = iota // the history
	tenantHolds                     // the daemon's end, its budget and its commands
	tenantCrashes                   // the engine, with starts
	numTenants
)

// tenantLabel chooses the spec, whatever the container's name is.
const tenantLabel = "tenant"

// tenant is a container that means harm.
type tenant struct {
	host     *world
	kind     tenantKind
	template *worldTemplate
	victim   string // full ID that the newest one has as its name
	history  *journal.Journal
	recorded map[string]int // events of the others
}

// What labels may say at most by default: [labels] max_timeout, max_wait and min_backoff.
const (
	tenantTimeout = time.Minute
	tenantWait    = 10 * time.Minute
	tenantBackoff = time.Second
)

func (h *world) addTenant(kind tenantKind) {
	h.tenant = &tenant{
		host: h, kind: kind, history: journal.New(), recorded: map[string]int{},
		template: &worldTemplate{
			name: "tenant", hostile: true, policy: core.Always, enginePolicy: "no", ignoresTerm: true, stopTimeout: tenantWait, exitCode: 1,
			labels: map[string]string{tenantLabel: "tenant", core.ComposeProject: "p/g0", core.ComposeService: "g0/../g0", core.ComposeNumber: "1\x1b"},
		},
	}
	if kind == tenantCrashes {
		h.tenant.template.maxLife = 200 * time.Millisecond
	}
	h.specs["tenant"] = h.tenant.spec()
}

func (t *tenant) spec() *core.Spec {
	s := &core.Spec{
		Name: "tenant", RestartPolicy: core.Always, Publish: core.Publish{Service: "tenant"}, TerminationGracePeriod: core.MinGrace,
		Backoff: core.Backoff{Initial: tenantBackoff, Max: tenantBackoff, ResetAfter: tenantBackoff},
	}
	probe := func(which core.ProbeType, failures int) *core.ProbeSpec {
		p := tcpProbe(int(which), core.MinPeriod, failures)
		p.Timeout = tenantTimeout
		return p
	}
	const never = 1_000_000
	switch t.kind {
	case tenantFloods:
		s.Probes = [core.NumProbes]*core.ProbeSpec{core.Liveness: probe(core.Liveness, never), core.Readiness: probe(core.Readiness, never)}
	case tenantHolds:
		s.Probes[core.Liveness] = probe(core.Liveness, 1)
		s.TerminationGracePeriod, s.Publish.Drain = tenantWait, tenantWait
		s.Lifecycle.PreStop = &prober.LifecycleHandler{Sleep: &prober.Sleep{Duration: tenantWait}}
	case tenantCrashes:
		s.GiveUp = core.GiveUp{Restarts: core.MaxGiveUp, Within: 365 * 24 * time.Hour}
	}
	return s
}

// act does something to the tenant's container, as its owner may.
func (t *tenant) act() {
	t.host.mu.Lock()
	defer t.host.mu.Unlock()
	e := t.host.engine
	c := e.newestOf(t.template)
	switch n := t.host.roll("tenant", "", 8); {
	case !e.up:
	case c != nil && n == 0 && c.info.State.Alive(): // its owner kills it, with a signal that its labels hide
		c.stoppedByAPI = true
		e.signal(c, killSignal, byOperator)
	case c != nil && n > 2 && c.info.State.Alive():
	case c != nil && n > 0 && !c.info.State.Alive():
		e.beginRun(c, byOperator)
	default: // docker rm -f, docker run under another name
		if c != nil && c.info.State.Alive() {
			e.endRun(c, 137, byOperator)
		}
		if c != nil {
			e.remove(c)
		}
		e.beginRun(e.create(t.template), byOperator)
	}
}

// takeName returns the tenant's next name, which is the ID of another container.
func (t *tenant) takeName(id string) string {
	victim := t.host.templates[t.host.roll("victim", id, len(t.host.templates))]
	if c := t.host.engine.newestOf(victim); c != nil {
		t.victim = c.info.ID
	}
	return t.victim
}

// answer fails with a text that is long, and would do harm on a terminal.
func (t *tenant) answer(ctx context.Context, d *worldDaemon, timeout time.Duration) prober.Result {
	if t.kind == tenantHolds {
		_ = d.wait(ctx, timeout)
	}
	output := strings.Repeat("\x1b]0;all is well\a\u202e", 1000) + fmt.Sprint(time.Since(t.host.startedAt))
	return prober.Result{Outcome: prober.Failure, Cause: prober.Status, Output: output[:prober.MaxOutput]}
}

// record keeps an event, and says whether it is the tenant's. It is called with the lock held.
func (t *tenant) record(e core.Event) (own bool) {
	t.history.Record(e)
	if own = strings.HasPrefix(e.Container, "docker:"); !own {
		t.recorded[e.Container]++
	}
	return own
}

// checkHistory fails when an event of the others is not in the history, or when the tenant's are many or long.
func (t *tenant) checkHistory() {
	const maxText, oneByOne = 1 << 10, 25
	minutes := int(time.Since(t.host.startedAt).Minutes()) + 1
	t.host.mu.Lock()
	defer t.host.mu.Unlock()
	kept, single := map[string]int{}, map[string]int{}
	for _, e := range t.history.Events("", time.Time{}) {
		kept[e.Container] += max(1, e.Count)
		if key := e.Container + " " + e.Reason; e.Container != "" {
			if single[key]++; single[key] == oneByOne*(1+minutes/10)+minutes {
				t.host.fail("the history has too many %s", key)
			}
		}
		if len(e.Message) > maxText {
			t.host.fail("an event of %q has %d bytes", e.Container, len(e.Message))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(t.recorded)) {
		if kept[name] != t.recorded[name] {
			t.host.fail("the history has %d events of %q, there were %d", kept[name], name, t.recorded[name])
		}
	}
}

// called returns what people call a container. Where others may take its ID as their name, they say that.
func (h *world) called(c *worldContainer) string {
	if h.tenant != nil && h.roll("called", c.info.ID, 2) == 0 {
		return c.info.ID
	}
	return c.info.Name
}
