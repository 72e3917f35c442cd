package supervisor

import (
	"fmt"
	"math/rand/v2"
	"time"

	"healthd/prober"
	"healthd/supervisor/core"
)

// chaosKind is what a container is made of, and how its process behaves.
type chaosKind struct {
	name         string
	labels       map[string]string
	group        string
	policy       core.RestartPolicy
	enginePolicy string
	rm           bool

	probes      [core.NumProbes]bool
	slow        time.Duration // until it answers
	gates       bool
	drain       time.Duration
	post, pre   bool
	ignoresTerm bool
	takes       time.Duration // to end after SIGTERM
	termCode    int
	stopTimeout time.Duration
	lives       time.Duration // at most, until it ends by itself; 0: for ever
	code        int           // with which it then ends
}

// chaosKinds makes up what runs on a host: some of every sort.
func chaosKinds(r *rand.Rand) []*chaosKind {
	var all []*chaosKind
	add := func(name string, change func(*chaosKind)) {
		k := chaosKindOf(r, name)
		change(k)
		all = append(all, k)
	}
	for g := range 1 + r.IntN(2) {
		for i := range 3 {
			add(fmt.Sprintf("g%d-%d", g, i), func(k *chaosKind) {
				k.group = fmt.Sprintf("p/g%d", g)
				k.labels = map[string]string{core.ComposeProject: "p", core.ComposeService: fmt.Sprintf("g%d", g), core.ComposeNumber: fmt.Sprint(i)}
				k.policy, k.probes[core.Liveness], k.probes[core.Readiness] = core.Always, true, true
			})
		}
	}
	add("rm", func(k *chaosKind) { k.rm, k.post = true, false })
	add("engine", func(k *chaosKind) { k.enginePolicy, k.policy = "always", core.Always })
	add("loop", func(k *chaosKind) { k.lives, k.policy = 5*time.Second, core.Always })
	for i := range 2 + r.IntN(6) {
		add(fmt.Sprintf("any%d", i), func(k *chaosKind) {
			k.policy = []core.RestartPolicy{core.Always, core.OnFailure, core.Never}[i%3]
			if r.IntN(3) == 0 {
				k.lives = time.Duration(10+r.IntN(200)) * time.Second
			}
		})
	}
	return all
}

func chaosKindOf(r *rand.Rand, name string) *chaosKind {
	k := &chaosKind{
		name: name, policy: core.Always, enginePolicy: "no", labels: map[string]string{},
		gates: r.IntN(6) == 0, post: r.IntN(5) == 0, pre: r.IntN(5) == 0, ignoresTerm: r.IntN(5) == 0,
		takes: time.Duration(r.IntN(3000)) * time.Millisecond, termCode: []int{0, 143}[r.IntN(2)],
		stopTimeout: time.Duration(2+r.IntN(9)) * time.Second, code: []int{0, 1, 137}[r.IntN(3)],
	}
	if r.IntN(3) == 0 {
		k.drain = 3 * time.Second
	}
	if r.IntN(4) == 0 {
		k.slow = time.Duration(r.IntN(20)) * time.Second
	}
	k.probes = [core.NumProbes]bool{core.Startup: k.slow > 0, core.Liveness: r.IntN(3) > 0, core.Readiness: r.IntN(3) > 0}
	return k
}

// spec is how a container of that kind is supervised, with numbers that change from
// reload to reload.
func (k *chaosKind) spec(r *rand.Rand) *core.Spec {
	s := &core.Spec{
		Name: k.name, RestartPolicy: k.policy, Publish: core.Publish{Service: k.name, Drain: k.drain},
		Backoff: core.Backoff{Initial: chaosBackoff, Max: chaosBackoffMax, ResetAfter: chaosReset},
	}
	for i, wanted := range k.probes {
		if wanted {
			s.Probes[i] = tcpProbe(i, time.Duration(5+r.IntN(20))*time.Second, 1+r.IntN(2))
		}
	}
	if p := s.Probes[core.Startup]; p != nil {
		p.FailureThreshold += int(k.slow/p.Period) + 1
	}
	if k.gates {
		s.ReadinessGates = []string{"lb"}
	}
	sleep := &prober.LifecycleHandler{Sleep: &prober.Sleep{Duration: time.Second}}
	if k.post {
		s.Lifecycle.PostStart = sleep
	}
	if k.pre {
		s.Lifecycle.PreStop = sleep
	}
	return s
}
