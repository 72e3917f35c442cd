package supervisor

import (
	"fmt"
	"math/rand/v2"
	"time"

	"healthd/prober"
	"healthd/supervisor/core"
)

// worldTemplate is how a container is created and how its process behaves.
type worldTemplate struct {
	name         string
	labels       map[string]string
	group        string
	policy       core.RestartPolicy
	enginePolicy string
	autoRemove   bool

	probes             [core.NumProbes]bool
	startupTime        time.Duration // until its probes succeed
	hasGate            bool
	drain              time.Duration
	postStart, preStop bool
	ignoresTerm        bool
	stopTime           time.Duration // after SIGTERM
	termCode           int
	stopTimeout        time.Duration
	grace              time.Duration               // the spec's; 0: none
	closesOnTerm       bool                        // its probes fail from SIGTERM on
	maxLife            time.Duration               // longest time until it ends by itself; 0: never
	exitCode           int                         // of that end
	crowd              bool                        // one of 10,000; see TestChaosOfMany
	hostile            bool                        // see TestChaosTenant
	image              string                      // empty: "image"
	networkOwner       string                      // ID of the container whose network it shares
	failures           int                         // of the one of it that was removed last
	own                func(*rand.Rand) *core.Spec // nil: spec makes one
	varied             bool                        // a change of the configuration changes more of its spec than numbers
}

// newWorldTemplates returns the containers of a host, some of each kind.
func newWorldTemplates(r *rand.Rand) []*worldTemplate {
	var all []*worldTemplate
	add := func(name string, change func(*worldTemplate)) {
		t := newWorldTemplate(r, name)
		change(t)
		all = append(all, t)
	}
	for g := range 1 + r.IntN(2) {
		for i := range 3 {
			add(fmt.Sprintf("g%d-%d", g, i), func(t *worldTemplate) {
				t.group = fmt.Sprintf("p/g%d", g)
				t.labels = map[string]string{core.ComposeProject: "p", core.ComposeService: fmt.Sprintf("g%d", g), core.ComposeNumber: fmt.Sprint(i)}
				t.policy, t.probes[core.Liveness], t.probes[core.Readiness] = core.Always, true, true
			})
		}
	}
	add("rm", func(t *worldTemplate) { t.autoRemove, t.postStart = true, false })
	add("engine", func(t *worldTemplate) { t.enginePolicy, t.policy, t.maxLife = "always", core.Always, 20*time.Second })
	add("loop", func(t *worldTemplate) { t.maxLife, t.policy = 5*time.Second, core.Always })
	for i := range 2 + r.IntN(6) {
		add(fmt.Sprintf("any%d", i), func(t *worldTemplate) {
			t.policy = []core.RestartPolicy{core.Always, core.OnFailure, core.Never}[i%3]
			if r.IntN(3) == 0 {
				t.maxLife = time.Duration(10+r.IntN(200)) * time.Second
			}
		})
	}
	return all
}

func newWorldTemplate(r *rand.Rand, name string) *worldTemplate {
	t := &worldTemplate{
		name: name, policy: core.Always, enginePolicy: "no", labels: map[string]string{},
		hasGate: r.IntN(6) == 0, postStart: r.IntN(5) == 0, preStop: r.IntN(5) == 0, ignoresTerm: r.IntN(5) == 0,
		stopTime: time.Duration(r.IntN(3000)) * time.Millisecond, termCode: []int{0, 143}[r.IntN(2)],
		stopTimeout: time.Duration(2+r.IntN(9)) * time.Second, exitCode: []int{0, 1, 137}[r.IntN(3)],
	}
	if r.IntN(3) == 0 {
		t.drain = 3 * time.Second
	}
	if r.IntN(4) == 0 {
		t.startupTime = time.Duration(r.IntN(20)) * time.Second
	}
	t.probes = [core.NumProbes]bool{core.Startup: t.startupTime > 0, core.Liveness: r.IntN(3) > 0, core.Readiness: r.IntN(3) > 0}
	return t
}

// takeLongToStop gives containers stop timeouts of their own that are longer than the spec's grace periods, and some
// of them need that time.
func takeLongToStop(all []*worldTemplate, r *rand.Rand) {
	for _, t := range all {
		t.stopTimeout, t.grace = time.Duration(2+r.IntN(100))*time.Second, time.Duration(2+r.IntN(20))*time.Second
		if r.IntN(2) == 0 {
			t.stopTime, t.closesOnTerm = time.Duration(r.IntN(60_000))*time.Millisecond, r.IntN(2) == 0
		}
	}
}

// stopTakes is how long healthd knows that a stop of the container may take.
func (t *worldTemplate) stopTakes() time.Duration { return max(t.stopTimeout, t.grace) }

// spec is how healthd supervises the container. Some numbers change with each reload.
func (t *worldTemplate) spec(r *rand.Rand) *core.Spec {
	if t.own != nil {
		return t.own(r)
	}
	s := &core.Spec{
		Name: t.name, RestartPolicy: t.policy, Publish: core.Publish{Service: t.name, Drain: t.drain},
		Backoff: core.Backoff{Initial: worldBackoff, Max: worldBackoffMax, ResetAfter: worldReset}, TerminationGracePeriod: t.grace,
	}
	for i, wanted := range t.probes {
		if wanted {
			s.Probes[i] = tcpProbe(i, time.Duration(5+r.IntN(20))*time.Second, 1+r.IntN(2))
		}
	}
	if p := s.Probes[core.Startup]; p != nil {
		p.FailureThreshold += int(t.startupTime/p.Period) + 1
	}
	if t.hasGate {
		s.ReadinessGates = []string{"lb"}
	}
	sleep := &prober.LifecycleHandler{Sleep: &prober.Sleep{Duration: time.Second}}
	if t.postStart {
		s.Lifecycle.PostStart = sleep
	}
	if t.preStop {
		s.Lifecycle.PreStop = sleep
	}
	if t.varied {
		t.vary(r, s)
	}
	return s
}

// vary changes what a container may wait for.
func (t *worldTemplate) vary(r *rand.Rand, s *core.Spec) {
	switch {
	case r.IntN(2) == 0:
	case t.startupTime == 0:
		s.Probes[core.Startup] = tcpProbe(int(core.Startup), time.Duration(5+r.IntN(20))*time.Second, 3)
	default: // else liveness would fail before it is up
		s.Probes[core.Startup], s.Probes[core.Liveness] = nil, nil
	}
	if r.IntN(2) == 0 {
		s.Lifecycle.PostStart = nil
	}
	if r.IntN(4) == 0 {
		s.RestartPolicy = core.Never
	}
	if r.IntN(3) == 0 {
		s.GiveUp = core.GiveUp{Restarts: 1 + r.IntN(3), Within: 2 * time.Minute}
	}
}
