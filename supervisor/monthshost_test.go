package supervisor

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"healthd/runtime"
	"healthd/supervisor/core"
)

// months is a world for months: its daemons are made of the parts of the program.
type months struct {
	*world
	monthsParts
	dir      string
	services int
	projects []string // names of the Compose projects; some are given new ones
	dropped  int      // the first of the services that have no spec now
	slow     int      // the service whose spec differs from the others
	named    int      // counts names that are used once
	steady   bool     // neither healthd nor the engine is restarted any more
	acted    int      // how often something happened
	plans    []monthsPlan
	probes   atomic.Int64 // answered
}

// replicas is how many containers a service has.
const replicas = 8

func newMonths(t *testing.T, services int) *months {
	h := &months{dir: t.TempDir(), services: services, dropped: -1, slow: -1}
	h.world = newWorld(t, knobs{seed: 1, r: rand.New(rand.NewPCG(1, 2)), forgets: true, assemble: h.assemble})
	for i := range max(1, services/10) {
		h.projects = append(h.projects, fmt.Sprint("shop", i))
	}
	h.startDaemon()
	return h
}

// populate starts the containers of all services.
func (h *months) populate() {
	for s := range h.services {
		for n := range replicas {
			h.begin(h.create(h.member(s, n)))
		}
	}
}

// removeAll ends everything on the host but healthd.
func (h *months) removeAll() {
	for _, c := range h.all() {
		h.stop(c)
		h.remove(c)
	}
}

func serviceName(s int) string { return fmt.Sprintf("s%02d", s) }

func (h *months) projectOf(s int) int { return s % len(h.projects) }

// member describes a container of a service.
func (h *months) member(s, n int) *worldTemplate {
	project := h.projects[h.projectOf(s)]
	return monthsTemplate(fmt.Sprintf("%s-%s-%d", project, serviceName(s), n+1), fmt.Sprintf("%s:v%d", serviceName(s), h.named), map[string]string{
		core.ComposeProject: project, core.ComposeService: serviceName(s), core.ComposeNumber: fmt.Sprint(n + 1),
	})
}

// job describes a container of a name that was never used.
func (h *months) job() *worldTemplate {
	h.named++
	return monthsTemplate(fmt.Sprintf("job-%d", h.named), "job", map[string]string{"run": fmt.Sprint(h.named)})
}

func monthsTemplate(name, image string, labels map[string]string) *worldTemplate {
	return &worldTemplate{name: name, image: image, labels: labels, enginePolicy: "no", stopTimeout: -1, stopTime: 300 * time.Millisecond, termCode: 143}
}

// configText is the configuration as it is now. Its periods are long, so that months do not take hours.
func (h *months) configText() []byte {
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

// monthsPlan is what somebody will do.
type monthsPlan struct {
	at time.Time
	do func()
}

// later has something done in the next step after a time.
func (h *months) later(longest time.Duration, do func()) {
	h.plans = append(h.plans, monthsPlan{time.Now().Add(time.Duration(1 + h.r.Int64N(int64(longest)))), do})
}

// doPlanned does what is due.
func (h *months) doPlanned() {
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

// all returns the containers, oldest first.
func (h *months) all() (all []*worldContainer) {
	h.locked(func() { all = h.engine.containers })
	return all
}

// any returns some container of a service; nil when there is none just now.
func (h *months) any() *worldContainer {
	all := h.membersOf(h.r.IntN(h.services))
	if len(all) == 0 {
		return nil
	}
	return all[h.r.IntN(len(all))]
}

func (h *months) membersOf(s int) (members []*worldContainer) {
	for _, c := range h.all() {
		if labels := c.template.labels; labels[core.ComposeService] == serviceName(s) && !core.OneOff(labels) {
			members = append(members, c)
		}
	}
	return members
}

func (h *months) create(t *worldTemplate) (c *worldContainer) {
	h.locked(func() { c = h.engine.create(t) })
	return c
}

func (h *months) begin(c *worldContainer) { _ = h.engine.start(c.info.ID, byOperator) }

func (h *months) stop(c *worldContainer) { _ = h.engine.stop(c.info.ID, 10*time.Second, byOperator) }

func (h *months) remove(c *worldContainer) { h.locked(func() { h.engine.remove(c) }) }

// end has the process of a container exit.
func (h *months) end(c *worldContainer, code int) {
	h.locked(func() {
		if c.info.State.Alive() {
			h.engine.endRun(c, code, byProcess)
		}
	})
}

func (h *months) rename(c *worldContainer, name string) {
	h.locked(func() {
		if !c.gone {
			c.info.Name = name
			h.engine.emit(c, runtime.ActionRename, 0)
		}
	})
}

// deploy creates the containers of a service anew, one after the other, as Compose does.
func (h *months) deploy(s int, change func(n int, t *worldTemplate)) {
	h.named++
	old := h.membersOf(s)
	for n := range replicas {
		t := h.member(s, n)
		name := t.name
		change(n, t)
		t.name = fmt.Sprintf("%06x_%s", h.named, name)
		fresh := h.create(t)
		if n < len(old) {
			h.stop(old[n])
			h.remove(old[n])
		}
		h.rename(fresh, name)
		h.begin(fresh)
		time.Sleep(time.Second)
	}
	for _, c := range old[min(len(old), replicas):] {
		h.stop(c)
		h.remove(c)
	}
}

func unchanged(int, *worldTemplate) {}
