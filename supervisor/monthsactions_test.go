package supervisor

import (
	"fmt"
	"time"

	"healthd/runtime"
	"healthd/supervisor/core"
)

// monthsActions are what happens on the host, and how often in comparison.
var monthsActions = []weighted[func(*months)]{
	{8, "deploy", func(h *months) { h.deploy(h.r.IntN(h.services), unchanged) }},
	{1, "deploy with a wrong label", (*months).deployWrongly},
	{1, "new name for a project", (*months).renameProject},
	{12, "crash", toAny(func(h *months, c *worldContainer) {
		n := h.r.IntN(8)
		h.locked(func() { c.crashes = n })
		h.end(c, 1)
	})},
	{3, "out of memory", toAny((*months).endForMemory)},
	{10, "hang", toAny((*months).hang)},
	{1, "hang of a service", func(h *months) {
		for _, c := range h.membersOf(h.r.IntN(h.services)) {
			h.hang(c)
		}
	}},
	{12, "not ready", toAny(func(h *months, c *worldContainer) {
		set := func(notReady bool) { h.locked(func() { c.notReady = notReady }) }
		set(true)
		h.later(time.Hour, func() { set(false) })
	})},
	{5, "operator stops", toAny(func(h *months, c *worldContainer) {
		h.stop(c)
		h.later(5*time.Hour, func() { h.begin(c) })
	})},
	{2, "operator kills", toAny(func(h *months, c *worldContainer) {
		h.dockerKill(c)
		h.later(time.Hour, func() { h.begin(c) })
	})},
	{3, "pause", toAny(func(h *months, c *worldContainer) {
		h.dockerPause(c)
		h.later(time.Hour, func() { h.dockerUnpause(c) })
	})},
	{2, "rename", toAny(func(h *months, c *worldContainer) {
		h.named++
		name := c.info.Name
		h.rename(c, fmt.Sprintf("old-%d", h.named))
		h.later(time.Hour, func() { h.rename(c, name) })
	})},
	{15, "job", func(h *months) { h.runJob(h.job()) }},
	{3, "job in another's network", toAny(func(h *months, owner *worldContainer) {
		t := h.job()
		t.networkOwner = owner.info.ID
		h.runJob(t)
	})},
	{5, "job that is removed later", (*months).runOneOff},
	{8, "not for healthd", func(h *months) {
		t := h.job()
		t.name = "build-" + t.name
		h.runJob(t)
	}},
	{4, "removed at once", func(h *months) {
		c := h.create(h.job())
		h.begin(c)
		h.remove(c)
	}},
	{2, "never looked at", (*months).createUnseen},
	{2, "engine too busy to look", func(h *months) {
		n := 1 + h.r.IntN(20)
		h.locked(func() { h.engine.failLooks = n })
	}},
	{2, "hold", toAny(func(h *months, c *worldContainer) {
		_ = h.daemon.sup.Hold(h.t.Context(), c.info.Name, time.Now().Add(time.Hour))
	})},
	{3, "restart asked for", toAny(func(h *months, c *worldContainer) { _ = h.daemon.sup.Restart(h.t.Context(), c.info.Name) })},
	{4, "gate", toAny(func(h *months, c *worldContainer) {
		_ = h.daemon.sup.SetGate(h.t.Context(), c.info.Name, "warm", h.r.IntN(3) > 0)
	})},
	{2, "reload", (*months).changeSpecs},
	{1, "restart of healthd", unlessSteady(func(h *months, away time.Duration) {
		h.stopDaemon()
		time.Sleep(away)
		h.startDaemon()
	})},
	{1, "restart of the engine", unlessSteady(func(h *months, away time.Duration) {
		h.locked(h.engine.goDown)
		time.Sleep(away)
		h.locked(func() { h.engine.comeUp(false) })
	})},
	{1, "lost connection", unlessSteady(func(h *months, _ time.Duration) { h.locked(h.engine.closeStreams) })},
}

// act has one thing happen: first each of them, then any.
func (h *months) act() {
	if h.acted++; h.acted <= len(monthsActions) {
		monthsActions[h.acted-1].do(h)
		return
	}
	draw(h.r, monthsActions).do(h)
}

// toAny does something to any container.
func toAny(do func(*months, *worldContainer)) func(*months) {
	return func(h *months) {
		if c := h.any(); c != nil {
			do(h, c)
		}
	}
}

// unlessSteady does what takes something away for a while, and could hide a leak.
func unlessSteady(do func(h *months, away time.Duration)) func(*months) {
	return func(h *months) {
		if !h.steady {
			do(h, time.Duration(1+h.r.IntN(60))*time.Second)
		}
	}
}

// hang has the process of a container answer no probe, until its end.
func (h *months) hang(c *worldContainer) { h.locked(func() { c.hung = true }) }

// endForMemory is an end by the kernel's killer.
func (h *months) endForMemory(c *worldContainer) {
	h.locked(func() {
		if c.info.State.Alive() {
			c.info.OOMKilled = true
			h.engine.emit(c, runtime.ActionOOM, 0)
			h.engine.endRun(c, 137, byProcess)
		}
	})
}

// runJob is docker run --rm.
func (h *months) runJob(t *worldTemplate) {
	t.autoRemove = true
	c, code := h.create(t), h.r.IntN(2)
	h.begin(c)
	h.later(time.Hour, func() { h.end(c, code) })
}

// runOneOff is docker compose run, without --rm.
func (h *months) runOneOff() {
	t, job := h.member(h.r.IntN(h.services), 0), h.job()
	t.name, t.labels["com.docker.compose.oneoff"] = fmt.Sprintf("%s-run-%s", t.name, job.name), "True"
	c := h.create(t)
	h.begin(c)
	h.later(time.Hour, func() {
		h.dockerKill(c)
		h.later(6*time.Hour, func() { h.remove(c) })
	})
}

// createUnseen has a container come and go while nobody can look at it.
func (h *months) createUnseen() {
	h.locked(func() { h.engine.failLooks = 5 })
	c := h.create(h.job())
	h.begin(c)
	time.Sleep(time.Duration(1+h.r.IntN(4)) * time.Second)
	h.remove(c)
}

// deployWrongly gives one container of a service a label that healthd refuses. The next deploy mends
// that.
func (h *months) deployWrongly() {
	s := h.r.IntN(h.services)
	h.deploy(s, func(n int, t *worldTemplate) {
		if n == 0 {
			t.labels["healthd.liveness.period"] = "soon"
		}
	})
	h.later(12*time.Hour, func() { h.deploy(s, unchanged) })
}

// renameProject gives a Compose project a name that was never used: its containers are new ones with
// new names, in new services.
func (h *months) renameProject() {
	p := h.r.IntN(len(h.projects))
	h.named++
	h.projects[p] = fmt.Sprintf("shop%d-%d", p, h.named)
	for s := range h.services {
		if h.projectOf(s) != p {
			continue
		}
		for _, c := range h.membersOf(s) {
			h.stop(c)
			h.remove(c)
		}
		h.deploy(s, unchanged)
	}
}

// changeSpecs reloads the configuration: some services lose their specs, others get theirs back, and one
// is asked in another period.
func (h *months) changeSpecs() {
	h.dropped = h.r.IntN(2*h.services) - h.services
	h.slow = h.r.IntN(h.services)
	h.reload()
}

// running returns how many containers of services run.
func (h *months) running() (n int) {
	for _, c := range h.all() {
		h.locked(func() {
			if c.template.labels[core.ComposeService] != "" && c.info.State.Alive() {
				n++
			}
		})
	}
	return n
}
