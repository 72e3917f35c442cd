package supervisor

import (
	"maps"
	"time"

	"healthd/runtime"
)

// worldActions are what happens to some container, to the engine or to the daemon. They are done without the lock.
var worldActions = []weighted[func(*world, *worldContainer)]{
	{6, "docker stop", (*world).dockerStop},
	{4, "docker kill", (*world).dockerKill},
	{2, "docker kill -s TERM", (*world).dockerTerm},
	{3, "docker kill -s HUP", (*world).dockerHup},
	{4, "docker stop, which the kernel denies", (*world).dockerStopDenied},
	{10, "docker start", (*world).dockerStart},
	{3, "docker restart", (*world).dockerRestart},
	{3, "docker pause", (*world).dockerPause},
	{4, "docker unpause", (*world).dockerUnpause},
	{2, "docker rm -f and run", (*world).recreate},
	{6, "healthd restart", (*world).requestRestart},
	{2, "healthd hold", (*world).requestHold},
	{4, "healthd resume", (*world).requestResume},
	{4, "healthd gate", (*world).requestGate},
	{3, "reload", (*world).reload},
	{10, "toggles hanging", func(h *world, c *worldContainer) { h.locked(func() { c.hung = !c.hung }) }},
	{6, "toggles readiness", func(h *world, c *worldContainer) { h.locked(func() { c.notReady = !c.notReady }) }},
	{8, "crashes", (*world).crash},
	{3, "engine disconnects", (*world).disconnectEngine},
	{2, "SIGTERM to the engine", (*world).terminateEngine},
	{2, "SIGKILL to the engine", (*world).killEngine},
	{2, "engine calls hang", (*world).hangCalls},
	{3, "SIGTERM to healthd", (*world).terminateDaemon},
	{4, "SIGKILL to healthd", (*world).killDaemon},
	{1, "power failure", (*world).reboot},
	{6, "sets the engine's clock", func(h *world, _ *worldContainer) {
		if h.clocks {
			h.locked(func() { h.engine.setClock(h.r) })
		}
	}},
}

// doRandomAction does one random action to one container.
func (h *world) doRandomAction() {
	t := h.templates[h.r.IntN(len(h.templates))]
	action := draw(h.r, worldActions)
	h.mu.Lock()
	c := h.engine.newestOf(t)
	if c == nil && h.engine.up { // somebody creates it again
		c = h.engine.create(t)
	}
	if c != nil {
		h.logf("> %s: %s", action.name, t.name)
	}
	h.mu.Unlock()
	if c != nil {
		action.do(h, c)
	}
}

func (h *world) locked(do func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	do()
}

func (h *world) dockerStop(c *worldContainer) {
	timeout := c.template.stopTimeout
	if h.longStops && h.roll("docker stop -t", c.info.ID, 3) == 0 {
		timeout += h.randomDuration("timeout", c.info.ID, 0, 2*time.Minute)
	}
	h.wg.Go(func() { _ = h.engine.stop(c.info.ID, timeout, byOperator) })
}

func (h *world) dockerStopDenied(c *worldContainer) {
	h.locked(func() {
		switch {
		case h.engine.up && c.info.State == runtime.Restarting: // there is no process, so nothing to deny
			h.engine.giveUpStart(c)
		case h.engine.up:
			c.stoppedByAPI = true
		}
	})
}

func (h *world) dockerSignal(c *worldContainer, signal int) {
	h.locked(func() {
		switch {
		case h.engine.up && c.info.State == runtime.Restarting:
			h.engine.giveUpStart(c)
		case h.engine.up && c.info.State.Alive():
			c.stoppedByAPI = true
			h.engine.signal(c, signal, byOperator)
		}
	})
}

func (h *world) dockerKill(c *worldContainer) { h.dockerSignal(c, killSignal) }
func (h *world) dockerTerm(c *worldContainer) { h.dockerSignal(c, 15) }
func (h *world) dockerHup(c *worldContainer)  { h.dockerSignal(c, 1) }

func (h *world) dockerStart(c *worldContainer) {
	h.wg.Go(func() { _ = h.engine.start(c.info.ID, byOperator) })
}

func (h *world) dockerRestart(c *worldContainer) {
	h.wg.Go(func() {
		if h.engine.stop(c.info.ID, c.template.stopTimeout, byOperator) == nil {
			_ = h.engine.start(c.info.ID, byOperator)
		}
	})
}

func (h *world) dockerPause(c *worldContainer) {
	h.locked(func() {
		if h.engine.up && c.info.State == runtime.Running {
			c.info.State, c.pausedAt = runtime.Paused, time.Now()
			h.engine.emit(c, runtime.ActionPause, 0)
		}
	})
}

func (h *world) dockerUnpause(c *worldContainer) {
	h.locked(func() {
		if h.engine.up && c.info.State == runtime.Paused {
			c.info.State = runtime.Running
			h.engine.emit(c, runtime.ActionUnpause, 0)
		}
	})
}

// recreate does what Compose does after the image has changed.
func (h *world) recreate(c *worldContainer) {
	h.wg.Go(func() {
		h.locked(func() {
			if h.engine.up && c.info.State.Alive() {
				h.engine.signal(c, killSignal, byOperator)
			}
		})
		time.Sleep(20 * time.Millisecond)
		var fresh *worldContainer
		h.locked(func() {
			if h.engine.up && !c.info.State.Alive() && c == h.engine.newestOf(c.template) {
				h.engine.remove(c)
				fresh = h.engine.create(c.template)
			}
		})
		time.Sleep(20 * time.Millisecond)
		if fresh != nil {
			_ = h.engine.start(fresh.info.ID, byOperator)
		}
	})
}

// runningDaemon returns the daemon, nil when none runs.
func (h *world) runningDaemon() *worldDaemon {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.daemon
}

func (h *world) requestRestart(c *worldContainer) {
	d := h.runningDaemon()
	if d == nil {
		return
	}
	h.mu.Lock()
	run, recent := c.run, c.opSignal.run == c.run && time.Since(c.opSignal.at) < time.Second
	v := h.view(c)
	seen := v != nil && v.State.Run.ID == c.info.Run()
	h.mu.Unlock()
	if err := d.sup.Restart(h.t.Context(), h.called(c)); err != nil {
		return
	}
	h.locked(func() {
		if c.run != run || c.gone {
			return
		}
		c.restartAskedAt, c.restartAskedRun, c.restartAskedUnseen = time.Now(), run, !seen
		switch {
		case c.info.State.Alive():
		case recent || h.connectedSince.IsZero():
			c.expect, c.why = either, "a stop and a restart were requested at the same time"
		default:
			c.expect, c.why, c.disturbedAt = mustRun, "a restart was requested", time.Now()
		}
	})
}

func (h *world) requestHold(c *worldContainer) {
	if d := h.runningDaemon(); d != nil {
		if h.roll("fleet holds", c.info.ID, 3) == 0 && d.sup.HoldByFleet(h.t.Context(), h.called(c), "a") == nil {
			h.locked(func() { c.heldAt = time.Now() })
			return
		}
		until := time.Now().Add(time.Duration(1+h.r.IntN(60)) * time.Second)
		if d.sup.Hold(h.t.Context(), h.called(c), until) == nil {
			h.locked(func() { c.heldAt, c.heldUntil = time.Now(), until })
		}
	}
}

func (h *world) requestResume(c *worldContainer) {
	if d := h.runningDaemon(); d != nil {
		h.locked(func() { c.heldUntil = later(c.heldUntil, time.Now()) })
		if h.roll("fleet resumes", c.info.ID, 2) == 0 {
			_ = d.sup.HoldByFleet(h.t.Context(), h.called(c), "")
			return
		}
		_ = d.sup.Resume(h.t.Context(), h.called(c))
	}
}

func (h *world) requestGate(c *worldContainer) {
	if d := h.runningDaemon(); d != nil {
		_ = d.sup.SetGate(h.t.Context(), h.called(c), "lb", h.r.IntN(3) > 0)
	}
}

// reload changes some specs, or has no daemon run while they change. Sometimes it ends the supervision of the
// container.
func (h *world) reload(c *worldContainer) {
	if c.template.varied && h.r.IntN(2) == 0 {
		h.killDaemon(c)
	}
	h.mu.Lock()
	if h.turns != nil {
		h.turns.redraw()
	}
	specs := maps.Clone(h.specs)
	for _, t := range h.templates {
		if h.r.IntN(3) == 0 {
			specs[t.name] = t.spec(h.r)
		}
	}
	if h.r.IntN(4) == 0 {
		specs[c.template.name] = nil
	}
	for _, c := range h.engine.containers {
		h.noteSpecChange(c, specs[c.template.name])
	}
	h.specs = specs
	d := h.daemon
	h.mu.Unlock()
	if d == nil {
		return
	}
	_ = d.sup.Reload(h.t.Context(), resolverFor(specs), h.guard)
	select {
	case d.refresh <- struct{}{}:
	default:
	}
}

func (h *world) crash(c *worldContainer) {
	h.locked(func() {
		if c.info.State == runtime.Running {
			h.engine.endRun(c, c.template.exitCode, byProcess)
		}
	})
}
