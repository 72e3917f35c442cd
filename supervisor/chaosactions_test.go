package supervisor

import (
	"maps"
	"time"

	"healthd/runtime"
)

// chaosAction is something that happens to that container, to the engine or to the
// daemon. do is called without the lock.
type chaosAction struct {
	weight int
	name   string
	do     func(h *chaosHost, c *chaosContainer)
}

var chaosActions = []chaosAction{
	{6, "docker stop", (*chaosHost).dockerStop},
	{4, "docker kill", (*chaosHost).dockerKill},
	{2, "docker kill -s TERM", (*chaosHost).dockerTerm},
	{1, "docker kill -s HUP", (*chaosHost).dockerHup},
	{10, "docker start", (*chaosHost).dockerStart},
	{3, "docker restart", (*chaosHost).dockerRestart},
	{3, "docker pause", (*chaosHost).dockerPause},
	{4, "docker unpause", (*chaosHost).dockerUnpause},
	{2, "docker rm -f and run", (*chaosHost).recreate},
	{6, "healthd restart", (*chaosHost).requestRestart},
	{2, "healthd hold", (*chaosHost).requestHold},
	{4, "healthd resume", (*chaosHost).requestResume},
	{4, "healthd gate", (*chaosHost).requestGate},
	{3, "reload", (*chaosHost).reload},
	{10, "toggles hanging", func(h *chaosHost, c *chaosContainer) { h.locked(func() { c.hung = !c.hung }) }},
	{6, "toggles readiness", func(h *chaosHost, c *chaosContainer) { h.locked(func() { c.notReady = !c.notReady }) }},
	{8, "crashes", (*chaosHost).crash},
	{3, "engine disconnects", (*chaosHost).disconnectEngine},
	{2, "SIGTERM to the engine", (*chaosHost).terminateEngine},
	{2, "SIGKILL to the engine", (*chaosHost).killEngine},
	{2, "engine calls hang", (*chaosHost).hangCalls},
	{3, "SIGTERM to healthd", (*chaosHost).terminateDaemon},
	{4, "SIGKILL to healthd", (*chaosHost).killDaemon},
	{1, "power failure", (*chaosHost).reboot},
	{6, "sets the engine's clock", func(h *chaosHost, _ *chaosContainer) {
		if h.clocks {
			h.locked(func() { h.engine.setClock(h.r) })
		}
	}},
}

var chaosActionsWeight = func() (n int) {
	for _, d := range chaosActions {
		n += d.weight
	}
	return n
}()

// doRandomAction does one random action to one container.
func (h *chaosHost) doRandomAction() {
	t, n := h.templates[h.r.IntN(len(h.templates))], h.r.IntN(chaosActionsWeight)
	i := 0
	for ; n >= chaosActions[i].weight; i++ {
		n -= chaosActions[i].weight
	}
	h.mu.Lock()
	c := h.engine.newestOf(t)
	if c == nil && h.engine.up { // somebody creates it again
		c = h.engine.create(t)
	}
	if c != nil {
		h.logf("> %s: %s", chaosActions[i].name, t.name)
	}
	h.mu.Unlock()
	if c != nil {
		chaosActions[i].do(h, c)
	}
}

func (h *chaosHost) locked(do func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	do()
}

func (h *chaosHost) dockerStop(c *chaosContainer) {
	h.wg.Go(func() { _ = h.engine.stop(c.info.ID, c.template.stopTimeout, byOperator) })
}

func (h *chaosHost) dockerSignal(c *chaosContainer, signal int) {
	h.locked(func() {
		if h.engine.up && c.info.State.Alive() {
			c.stoppedByAPI = true
			h.engine.signal(c, signal, byOperator)
		}
	})
}

func (h *chaosHost) dockerKill(c *chaosContainer) { h.dockerSignal(c, killSignal) }
func (h *chaosHost) dockerTerm(c *chaosContainer) { h.dockerSignal(c, 15) }
func (h *chaosHost) dockerHup(c *chaosContainer)  { h.dockerSignal(c, 1) }

func (h *chaosHost) dockerStart(c *chaosContainer) {
	h.wg.Go(func() { _ = h.engine.start(c.info.ID, byOperator) })
}

func (h *chaosHost) dockerRestart(c *chaosContainer) {
	h.wg.Go(func() {
		if h.engine.stop(c.info.ID, c.template.stopTimeout, byOperator) == nil {
			_ = h.engine.start(c.info.ID, byOperator)
		}
	})
}

func (h *chaosHost) dockerPause(c *chaosContainer) {
	h.locked(func() {
		if h.engine.up && c.info.State == runtime.Running {
			c.info.State, c.pausedAt = runtime.Paused, time.Now()
			h.engine.emit(c, runtime.ActionPause, 0)
		}
	})
}

func (h *chaosHost) dockerUnpause(c *chaosContainer) {
	h.locked(func() {
		if h.engine.up && c.info.State == runtime.Paused {
			c.info.State = runtime.Running
			h.engine.emit(c, runtime.ActionUnpause, 0)
		}
	})
}

// recreate does what Compose does after the image has changed.
func (h *chaosHost) recreate(c *chaosContainer) {
	h.wg.Go(func() {
		h.locked(func() {
			if h.engine.up && c.info.State.Alive() {
				h.engine.signal(c, killSignal, byOperator)
			}
		})
		time.Sleep(20 * time.Millisecond)
		var fresh *chaosContainer
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
func (h *chaosHost) runningDaemon() *chaosDaemon {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.daemon
}

func (h *chaosHost) requestRestart(c *chaosContainer) {
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

func (h *chaosHost) requestHold(c *chaosContainer) {
	if d := h.runningDaemon(); d != nil {
		until := time.Now().Add(time.Duration(1+h.r.IntN(60)) * time.Second)
		if d.sup.Hold(h.t.Context(), h.called(c), until) == nil {
			h.locked(func() { c.heldAt, c.heldUntil = time.Now(), until })
		}
	}
}

func (h *chaosHost) requestResume(c *chaosContainer) {
	if d := h.runningDaemon(); d != nil {
		_ = d.sup.Resume(h.t.Context(), h.called(c))
	}
}

func (h *chaosHost) requestGate(c *chaosContainer) {
	if d := h.runningDaemon(); d != nil {
		_ = d.sup.SetGate(h.t.Context(), h.called(c), "lb", h.r.IntN(3) > 0)
	}
}

// reload changes some specs. Sometimes it ends the supervision of the container.
func (h *chaosHost) reload(c *chaosContainer) {
	h.mu.Lock()
	specs := maps.Clone(h.specs)
	for _, t := range h.templates {
		if h.r.IntN(3) == 0 {
			specs[t.name] = t.spec(h.r)
		}
	}
	if h.r.IntN(4) == 0 {
		specs[c.template.name] = nil
	}
	for _, t := range h.templates {
		if (specs[t.name] == nil) != (h.specs[t.name] == nil) {
			for _, c := range h.engine.containers {
				if c.template == t {
					c.makeUncertain("healthd does not supervise it")
					c.uncertainRun = c.run
				}
			}
		}
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

func (h *chaosHost) crash(c *chaosContainer) {
	h.locked(func() {
		if c.info.State == runtime.Running {
			h.engine.endRun(c, c.template.exitCode, byProcess)
		}
	})
}
