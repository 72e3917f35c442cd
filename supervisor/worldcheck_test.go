package supervisor

import (
	"time"

	"healthd/runtime"
	"healthd/supervisor/core"
)

// checkCall checks a call of a daemon as it begins against the daemon's own board.
func (h *world) checkCall(d *worldDaemon, c *worldContainer, what string) {
	v := h.view(c)
	if c.template.hostile {
		return
	}
	switch {
	case v == nil && h.supervised(c.template.name):
		h.fail("%s: %s of a container that the board does not show", c.template.name, what)
		return
	case v == nil: // a reload has dropped it
		return
	case c.template.autoRemove:
		h.fail("%s: %s of a container that the engine removes when it exits", c.template.name, what)
	case v.State.Lasting.Held() && v.State.Action.Restart == core.ByExit && what == "start" && time.Since(c.heldAt) > 3*time.Second &&
		!d.stoppedEarly: // one that ends before its first list starts what it found, and inherits no hold
		h.fail("%s: started while it is held", c.template.name)
	}
	if what == "start" {
		c.starts++
		c.startedForProbe = v.State.Action.Restart.ByProbe()
		asked := c.opSignal.connected == d.number && h.engine.hasEvent(c.opSignal.eventAt) && !c.lookupFailed && time.Since(c.opSignal.at) > 200*time.Millisecond
		c.daemonKnew = c.opSignal.run == c.run && (asked || d.knowsSignal(c))
		return
	}
	if h.leftToOperator(d, c, 5*time.Second) {
		h.fail("%s: healthd stops it while an operator does, who gave it %v", c.template.name, c.opStop.timeout)
	}
	if c.signalState() != noSignal && !d.knowsSignal(c) {
		c.opSignal.ambiguous = "healthd called for a stop before it got the event"
	}
	if c.calls == 0 {
		c.calledLife = h.engine.life
	}
	c.calls, c.calledAt = c.calls+1, time.Now()
	c.cause, c.grace = v.State.Action.Stopping, v.State.Action.Grace
	if c.cause.ByProbe() {
		c.probeStoppedRun = c.run
	}
	if v.State.Conditions.Ready.Status {
		h.fail("%s: healthd stops it while the board shows it as ready", c.template.name)
	}
	drain := v.Spec.Publish.Drain
	if time.Since(v.State.Conditions.Ready.Since) < drain {
		h.fail("%s: stopped %v after its readiness was withdrawn, drain is %v", c.template.name, time.Since(v.State.Conditions.Ready.Since), drain)
	}
}

// checkStart checks a start by healthd that the engine has carried out.
func (h *world) checkStart(c *worldContainer, by actor) {
	rebooted := c.endLife != h.engine.life || c.opSignal.run == c.run-1 && c.opSignal.life != h.engine.life
	switch {
	case c.template.hostile:
	case c.run == 1 && c.restartAskedAt.IsZero():
		h.fail("%s: first start by healthd", c.template.name)
	case c.template.enginePolicy != "no" && c.refusedAt.IsZero() && c.endedBy == byProcess && c.probeStoppedRun != c.run-1 && c.calls == 0 && !c.engineLeaves && !rebooted && !c.endUnseen && c.expect != mustRun && c.restartAskedRun != c.run-1:
		h.fail("%s: daemon %d started it after an exit, although it has a restart policy of the engine", c.template.name, by)
	case c.expect != mustStay:
	case c.endedBy == byProcess && c.startedForProbe && c.why == exitedWithZero: // the probe's verdict came before the event of the end
	case c.why == exitedWithZero && rebooted && (!c.engineOutlived || c.unstoredRun == c.run-1): // or it ended with its engine
	case c.why == isNever && c.unstoredRun == c.run-1 && h.specs[c.template.name].RestartPolicy != core.Never: // the next daemon decided anew
	case c.endedBy != byOperator:
		h.fail("%s: daemon %d started it although %s", c.template.name, by, c.why)
	case rebooted && (!c.engineOutlived || c.engineEndedSoon || c.unstoredRun == c.run-1): // the operator's stop looked like a part of the engine's shutdown
	case c.why == startGivenUp && (rebooted || c.unstoredRun == c.run-1): // no signal tells of that, and lists of the engine's life before may not have shown it
	case c.why == startGivenUp:
		h.fail("%s: daemon %d started it although %s", c.template.name, by, c.why)
	case !c.daemonKnew: // that daemon had not yet got the event when it called
	case c.opSignal.ambiguous != "":
	case c.outlasted && (!c.lossAt.IsZero() || c.calls > c.stopsDone): // the engine's stops tell too little
	default:
		h.fail("%s: daemon %d started it although %s", c.template.name, by, c.why)
	}
}

// leftToOperator says that healthd must know for so long that an operator stops the present run, and that the stop
// takes no longer than healthd can know. Where an event of the run is lost, or the engine's clock is set, it may learn of the
// signal at the end only.
func (h *world) leftToOperator(d *worldDaemon, c *worldContainer, since time.Duration) bool {
	known := c.opSignal.readAt[d.number]
	return c.opSignal.run == c.run && c.opStop.underWay() && c.opStop.timeout <= c.template.stopTakes() && c.restartAskedRun != c.run &&
		c.opSignal.ambiguous == "" && c.lossAt.Before(c.beganAt) && h.engine.clockSetAt.IsZero() && !known.IsZero() && time.Since(later(known, c.opStop.until.Add(-c.opStop.timeout))) > since
}

// checkGroup checks, when healthd sends a stop signal to c, that no more of its group
// are down for failed probes than max_unavailable allows.
func (h *world) checkGroup(c *worldContainer) {
	spec := h.specs[c.template.name]
	if c.template.group == "" || !c.cause.ByProbe() || spec == nil || h.engine.shuttingDown { // which stops them all
		return
	}
	var down []string
	for _, other := range h.engine.containers {
		if other.template.group == c.template.group && other.downByProbe() {
			down = append(down, other.template.name)
		}
	}
	if len(down) > spec.Group.MaxUnavailable.Of(3) {
		h.fail("%s: healthd stops it for a failed probe, and too many of its group are down: %v", c.template.name, down)
	}
}

// downByProbe says whether healthd has stopped the run for a failed probe and still has
// to start another one.
func (c *worldContainer) downByProbe() bool {
	return c.signals > 0 && c.cause.ByProbe() && c.uncertainRun != c.run &&
		(c.info.State.Alive() && c.opSignal.run != c.run || !c.info.State.Alive() && c.expect == mustRun)
}

// checkAll checks everything once.
func (h *world) checkAll() {
	h.checkLoop()
	if d := h.runningDaemon(); d != nil && h.turns != nil {
		h.turns.checkAll(d)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.noteDisturbances()
	h.noteOutlived()
	for _, c := range h.engine.containers {
		if c.template.hostile {
			continue
		}
		h.checkReady(c)
		h.checkDown(c)
	}
}

// checkLoop checks what the daemon's loop keeps up to date step by step.
func (h *world) checkLoop() {
	d := h.runningDaemon()
	if d == nil {
		return
	}
	found := make(chan []string, 1)
	_ = d.sup.send(h.t.Context(), inspectLoop(func(l *loop) { found <- l.inconsistencies() }))
	select {
	case all := <-found:
		for _, text := range all {
			h.locked(func() { h.fail("%s: %s", d.name(), text) })
		}
	case <-d.sup.ended:
	}
}

// noteDisturbances notes what keeps healthd from its work just now.
func (h *world) noteDisturbances() {
	d := h.daemon
	if d == nil || !d.synced || !d.stopRequestedAt.IsZero() || !h.engine.up || h.engine.shuttingDown || h.engine.unreachable || h.callsHang || h.hangingCalls > 0 {
		h.disturbedAt = time.Now()
	}
	for _, c := range h.engine.containers {
		v := h.view(c)
		if d != nil && d.calling[c.info.ID] != "" || v == nil || v.State.Lasting.Held() {
			c.disturbedAt = time.Now()
		}
	}
}

// checkReady fails when the board shows a container as ready that does not run. healthd
// needs a moment for that, and longer after a disturbance.
func (h *world) checkReady(c *worldContainer) {
	v := h.view(c)
	if v == nil || !v.State.Conditions.Ready.Status || v.State.Lost {
		return
	}
	if c.info.State.Alive() && h.leftToOperator(h.daemon, c, 5*time.Second) {
		h.fail("%s: the board shows it as ready, but an operator stops it", c.template.name)
	}
	if c.info.State == runtime.Running {
		return
	}
	since := c.endedAt
	if c.info.State == runtime.Paused {
		since = c.pausedAt
	}
	patience := 3 * time.Second
	if h.disturbed(c, since) {
		since, patience = later(since, later(h.disturbedAt, c.disturbedAt)), worldRecovery
	}
	if time.Since(since) > patience {
		h.fail("%s: the board shows it as ready, but it has been %s for %v", c.template.name, c.info.State, time.Since(since))
	}
}

// worldRecovery is how long healthd may need after a disturbance: to connect again, to
// repeat an inspection that failed, and to list all containers.
const worldRecovery = 13*time.Second + 30*time.Second + worldRelist

func (h *world) disturbed(c *worldContainer, since time.Time) bool {
	return !h.disturbedAt.Before(since) || !c.disturbedAt.Before(since) || !c.lossAt.IsZero() && c.lossAt.After(since.Add(-time.Minute))
}

// checkDown fails when a container stays down that should run.
func (h *world) checkDown(c *worldContainer) {
	if c.info.State.Alive() || c.expect != mustRun || c.run == 0 {
		return
	}
	since, patience := c.endedAt, c.maxBackoff()+5*time.Second
	if h.tenant != nil { // whose crashes may have used up the host's crash starts
		patience += core.DefaultBackoffInitial
	}
	if c.template.enginePolicy != "no" {
		patience += engineRestartWait
	}
	if !c.refusedAt.IsZero() { // which a list shows
		since, patience = c.refusedAt, patience+worldRelist
	}
	if h.disturbed(c, since) {
		since = later(since, later(h.disturbedAt, later(c.disturbedAt, c.lossAt)))
		patience += worldRecovery
	}
	if time.Since(later(since, c.heldUntil)) > patience {
		h.fail("%s: it has been down for %v, %v since the last disturbance, although it %s (%s)", c.template.name, time.Since(c.endedAt), time.Since(since), c.expect, c.why)
	}
}

// maxBackoff is the longest that the next start may have to wait.
func (c *worldContainer) maxBackoff() time.Duration {
	var d time.Duration
	for range c.failures - 1 {
		d = min(max(2*d, worldBackoff), worldBackoffMax)
	}
	return d
}

const (
	worldBackoff    = 2 * time.Second
	worldBackoffMax = 20 * time.Second
	worldReset      = 2 * time.Minute
)

// checkEnd checks everything after a long quiet time.
func (h *world) checkEnd() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.engine.containers {
		if c.run == 0 || c.template.hostile {
			continue
		}
		v := h.view(c)
		switch {
		case v == nil && h.supervised(c.template.name):
			h.fail("%s: the board does not show it at the end", c.template.name)
		case v == nil:
		case !c.info.State.Alive() && c.expect == mustRun:
			h.fail("%s: is down at the end, although it %s (%s)", c.template.name, c.expect, c.why)
		case v.State.Engine.State != c.info.State || v.State.Run.ID != c.info.Run():
			h.fail("%s: is shown as %s at the end, but it is %s", c.template.name, v.State.Engine.State, c.info.State)
		case c.info.State.Alive() && !v.State.Conditions.Ready.Status:
			_, reason, message := v.Readiness()
			h.fail("%s: is not ready at the end: %s %s", c.template.name, reason, message)
		case !v.State.Settled() || v.State.Health.Failed != core.NoCause:
			h.fail("%s: it has a restart under way at the end: %+v", c.template.name, v.State)
		}
	}
}
