package supervisor_test

import (
	"fmt"
	"time"

	"healthd/runtime"
	"healthd/supervisor/core"
)

// monthsActions are what happens on the host, and how often in comparison.
var monthsActions = []struct {
	name   string
	weight int
	do     func(*monthsHost)
}{
	{"deploy", 8, func(h *monthsHost) { h.deploy(h.r.IntN(h.services), unchanged) }},
	{"deploy with a wrong label", 1, (*monthsHost).deployWrongly},
	{"new name for a project", 1, (*monthsHost).renameProject},
	{"crash", 12, func(h *monthsHost) {
		h.withAny(func(c *monthsContainer) {
			n := h.r.IntN(8)
			h.engine.locked(func() { c.crashes = n })
			h.engine.end(c, 1)
		})
	}},
	{"out of memory", 3, func(h *monthsHost) { h.withAny(h.engine.endForMemory) }},
	{"hang", 10, func(h *monthsHost) { h.withAny(h.hang) }},
	{"hang of a service", 1, func(h *monthsHost) {
		for _, c := range h.membersOf(h.r.IntN(h.services)) {
			h.hang(c)
		}
	}},
	{"not ready", 12, func(h *monthsHost) {
		h.withAny(func(c *monthsContainer) {
			n := 1 + h.r.IntN(4)
			h.engine.locked(func() { c.unready = n })
		})
	}},
	{"operator stops", 5, func(h *monthsHost) {
		h.withAny(func(c *monthsContainer) {
			h.engine.stop(c)
			h.later(5*time.Hour, func() { h.engine.begin(c) })
		})
	}},
	{"operator kills", 2, func(h *monthsHost) {
		h.withAny(func(c *monthsContainer) {
			h.engine.kill(c, 9)
			h.later(time.Hour, func() { h.engine.begin(c) })
		})
	}},
	{"pause", 3, func(h *monthsHost) {
		h.withAny(func(c *monthsContainer) {
			h.engine.pause(c, runtime.Running, runtime.Paused, runtime.ActionPause)
			h.later(time.Hour, func() { h.engine.pause(c, runtime.Paused, runtime.Running, runtime.ActionUnpause) })
		})
	}},
	{"rename", 2, func(h *monthsHost) {
		h.withAny(func(c *monthsContainer) {
			h.named++
			name := c.info.Name
			h.engine.rename(c, fmt.Sprintf("old-%d", h.named))
			h.later(time.Hour, func() { h.engine.rename(c, name) })
		})
	}},
	{"job", 15, func(h *monthsHost) { h.runJob(h.job()) }},
	{"job in another's network", 3, func(h *monthsHost) {
		h.withAny(func(owner *monthsContainer) {
			c := h.job()
			c.NetworkOwner = owner.info.ID
			h.runJob(c)
		})
	}},
	{"job that is removed later", 5, (*monthsHost).runOneOff},
	{"not for healthd", 8, func(h *monthsHost) {
		c := h.job()
		c.Name = "build-" + c.Name
		h.runJob(c)
	}},
	{"removed at once", 4, func(h *monthsHost) {
		c := h.engine.create(h.job())
		h.engine.begin(c)
		h.engine.remove(c)
	}},
	{"never looked at", 2, (*monthsHost).createUnseen},
	{"engine too busy to look", 2, func(h *monthsHost) {
		n := 1 + h.r.IntN(20)
		h.engine.locked(func() { h.engine.failLooks = n })
	}},
	{"hold", 2, func(h *monthsHost) {
		h.withAny(func(c *monthsContainer) {
			_ = h.daemon.supervisor.Hold(h.t.Context(), c.info.Name, time.Now().Add(time.Hour))
		})
	}},
	{"restart asked for", 3, func(h *monthsHost) {
		h.withAny(func(c *monthsContainer) { _ = h.daemon.supervisor.Restart(h.t.Context(), c.info.Name) })
	}},
	{"gate", 4, func(h *monthsHost) {
		h.withAny(func(c *monthsContainer) {
			_ = h.daemon.supervisor.SetGate(h.t.Context(), c.info.Name, "warm", h.r.IntN(3) > 0)
		})
	}},
	{"reload", 2, (*monthsHost).changeSpecs},
	{"restart of healthd", 1, func(h *monthsHost) {
		if !h.steady {
			h.daemon.stop()
			time.Sleep(time.Duration(1+h.r.IntN(60)) * time.Second)
			h.startDaemon()
		}
	}},
	{"restart of the engine", 1, func(h *monthsHost) {
		if !h.steady {
			h.engine.restart(time.Duration(1+h.r.IntN(60)) * time.Second)
		}
	}},
	{"lost connection", 1, func(h *monthsHost) {
		if !h.steady {
			h.engine.cut()
		}
	}},
}

// act has one thing happen: first each of them, then any.
func (h *monthsHost) act() {
	h.acted++
	if h.acted <= len(monthsActions) {
		monthsActions[h.acted-1].do(h)
		return
	}
	all := 0
	for _, a := range monthsActions {
		all += a.weight
	}
	n := h.r.IntN(all)
	for _, a := range monthsActions {
		if n -= a.weight; n < 0 {
			a.do(h)
			return
		}
	}
}

func (h *monthsHost) withAny(do func(*monthsContainer)) {
	if c := h.any(); c != nil {
		do(c)
	}
}

// hang has the process of a container answer no probe, until its end.
func (h *monthsHost) hang(c *monthsContainer) {
	h.engine.locked(func() { c.failures = 1000 })
}

// runJob is docker run --rm.
func (h *monthsHost) runJob(c runtime.Container) {
	c.AutoRemove = true
	made := h.engine.create(c)
	h.engine.begin(made)
	code := h.r.IntN(2)
	h.later(time.Hour, func() { h.engine.end(made, code) })
}

// runOneOff is docker compose run, without --rm.
func (h *monthsHost) runOneOff() {
	s := h.r.IntN(h.services)
	c, job := h.member(s, 0), h.job()
	c.Name, c.Labels["com.docker.compose.oneoff"] = fmt.Sprintf("%s-run-%s", c.Name, job.Name), "True"
	made := h.engine.create(c)
	h.engine.begin(made)
	h.later(time.Hour, func() {
		h.engine.kill(made, 9)
		h.later(6*time.Hour, func() { h.engine.remove(made) })
	})
}

// createUnseen has a container come and go while nobody can look at it.
func (h *monthsHost) createUnseen() {
	h.engine.locked(func() { h.engine.failLooks = 5 })
	c := h.engine.create(h.job())
	h.engine.begin(c)
	time.Sleep(time.Duration(1+h.r.IntN(4)) * time.Second)
	h.engine.remove(c)
}

// deployWrongly gives one container of a service a label that healthd refuses. The next deploy mends
// that.
func (h *monthsHost) deployWrongly() {
	s := h.r.IntN(h.services)
	h.deploy(s, func(n int, c *runtime.Container) {
		if n == 0 {
			c.Labels["healthd.liveness.period"] = "soon"
		}
	})
	h.later(12*time.Hour, func() { h.deploy(s, unchanged) })
}

// renameProject gives a Compose project a name that was never used: its containers are new ones with
// new names, in new services.
func (h *monthsHost) renameProject() {
	p := h.r.IntN(len(h.projects))
	h.named++
	h.projects[p] = fmt.Sprintf("shop%d-%d", p, h.named)
	for s := range h.services {
		if h.projectOf(s) != p {
			continue
		}
		for _, c := range h.membersOf(s) {
			h.engine.stop(c)
			h.engine.remove(c)
		}
		h.deploy(s, unchanged)
	}
}

// changeSpecs reloads the configuration: some services lose their specs, others get theirs back, and one
// is asked in another period.
func (h *monthsHost) changeSpecs() {
	h.dropped = h.r.IntN(2*h.services) - h.services
	h.slow = h.r.IntN(h.services)
	h.daemon.reload(h.t, h.config())
}

// running returns how many containers of services run.
func (h *monthsHost) running() (n int) {
	all := h.engine.all()
	h.engine.locked(func() {
		for _, c := range all {
			if c.info.Labels[core.ComposeService] != "" && c.info.State.Alive() {
				n++
			}
		}
	})
	return n
}
