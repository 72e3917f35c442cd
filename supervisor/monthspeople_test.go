package supervisor_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"healthd/runtime"
	"healthd/supervisor/core"
)

// monthsHost is a host for months: its engine, the people who use it, and healthd.
type monthsHost struct {
	t        *testing.T
	r        *rand.Rand
	engine   *monthsEngine
	daemon   *monthsDaemon
	dir      string
	daemons  int
	services int
	projects []string // names of the Compose projects; some are given new ones
	dropped  int      // the first of the services that have no spec now
	slow     int      // the service whose spec differs from the others
	named    int      // counts names that are used once
	steady   bool     // neither healthd nor the engine is restarted any more
	acted    int      // how often something happened
	plans    []planned
}

// replicas is how many containers a service has.
const replicas = 8

func newMonthsHost(t *testing.T, services int) *monthsHost {
	h := &monthsHost{
		t: t, r: rand.New(rand.NewPCG(1, 2)), engine: newMonthsEngine(), dir: t.TempDir(), services: services, dropped: -1, slow: -1,
	}
	for i := range services / 10 {
		h.projects = append(h.projects, fmt.Sprint("shop", i))
	}
	h.startDaemon()
	return h
}

// populate starts the containers of all services.
func (h *monthsHost) populate() {
	for s := range h.services {
		for n := range replicas {
			h.engine.begin(h.engine.create(h.member(s, n)))
		}
	}
}

// removeAll ends everything on the host but healthd.
func (h *monthsHost) removeAll() {
	for _, c := range h.engine.all() {
		h.engine.stop(c)
		h.engine.remove(c)
	}
}

func (h *monthsHost) startDaemon() {
	h.daemons++
	h.daemon = startMonthsDaemon(h.t, h.engine, h.dir, h.daemons, h.config())
}

func serviceName(s int) string { return fmt.Sprintf("s%02d", s) }

func (h *monthsHost) projectOf(s int) int { return s % len(h.projects) }

// member describes a container of a service.
func (h *monthsHost) member(s, n int) runtime.Container {
	project := h.projects[h.projectOf(s)]
	return runtime.Container{
		Name: fmt.Sprintf("%s-%s-%d", project, serviceName(s), n+1), Image: fmt.Sprintf("%s:v%d", serviceName(s), h.named),
		Labels: map[string]string{core.ComposeProject: project, core.ComposeService: serviceName(s), core.ComposeNumber: fmt.Sprint(n + 1)},
	}
}

// job describes a container of a name that was never used.
func (h *monthsHost) job() runtime.Container {
	h.named++
	return runtime.Container{Name: fmt.Sprintf("job-%d", h.named), Image: "job", Labels: map[string]string{"run": fmt.Sprint(h.named)}}
}

// config is the configuration as it is now. Its periods are long, so that months do not take hours.
func (h *monthsHost) config() []byte {
	var b bytes.Buffer
	b.WriteString("[[runtime]]\nrelist = \"5m\"\n[guard]\nmax_restarts = 10\nwindow = \"1m\"\n" +
		"[[spec]]\nname = \"jobs\"\nmatch_name = \"job-*\"\nrestart_policy = \"Never\"\n[spec.readiness]\nengine_health = {}\nperiod = \"10m\"\n")
	for s := range h.services {
		if h.dropped >= 0 && (s-h.dropped+h.services)%h.services < 3 {
			continue
		}
		period := "20m"
		if s == h.slow {
			period = fmt.Sprintf("%dm", 21+h.daemons%9)
		}
		fmt.Fprintf(&b, "[[spec]]\nname = %q\nmatch = { \"com.docker.compose.service\" = %[1]q }\nreadiness_gates = [%s]\n"+
			"[spec.startup]\nexec = { command = [\"started\"] }\nperiod = \"30s\"\n"+
			"[spec.liveness]\nexec = { command = [\"alive\"] }\nperiod = %q\nfailure_threshold = 2\n"+
			"[spec.readiness]\nengine_health = {}\nperiod = \"15m\"\nfailure_threshold = 1\n",
			serviceName(s), map[bool]string{true: "\"warm\""}[s%7 == 0], period)
	}
	return b.Bytes()
}

// planned is what somebody will do.
type planned struct {
	at time.Time
	do func()
}

// later has something done in the next step after a time.
func (h *monthsHost) later(longest time.Duration, do func()) {
	h.plans = append(h.plans, planned{time.Now().Add(time.Duration(1 + h.r.Int64N(int64(longest)))), do})
}

// doPlanned does what is due.
func (h *monthsHost) doPlanned() {
	now := time.Now()
	all := h.plans
	h.plans = nil
	for _, p := range all {
		if p.at.After(now) {
			h.plans = append(h.plans, p)
		} else {
			p.do()
		}
	}
}

// any returns some container of a service; nil when there is none just now.
func (h *monthsHost) any() *monthsContainer {
	all := h.membersOf(h.r.IntN(h.services))
	if len(all) == 0 {
		return nil
	}
	return all[h.r.IntN(len(all))]
}

func (h *monthsHost) membersOf(s int) []*monthsContainer {
	var members []*monthsContainer
	for _, c := range h.engine.all() {
		if c.info.Labels[core.ComposeService] == serviceName(s) && !core.OneOff(c.info.Labels) {
			members = append(members, c)
		}
	}
	return members
}

// deploy creates the containers of a service anew, one after the other, as Compose does.
func (h *monthsHost) deploy(s int, change func(n int, c *runtime.Container)) {
	h.named++
	old := h.membersOf(s)
	for n := range replicas {
		c := h.member(s, n)
		name := c.Name
		change(n, &c)
		c.Name = fmt.Sprintf("%06x_%s", h.named, name)
		fresh := h.engine.create(c)
		if n < len(old) {
			h.engine.stop(old[n])
			h.engine.remove(old[n])
		}
		h.engine.rename(fresh, name)
		h.engine.begin(fresh)
		time.Sleep(time.Second)
	}
	for _, c := range old[min(len(old), replicas):] {
		h.engine.stop(c)
		h.engine.remove(c)
	}
}

func unchanged(int, *runtime.Container) {}
