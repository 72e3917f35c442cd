package supervisor

import (
	"time"

	"healthd/runtime"
	"healthd/supervisor/core"
)

// noteEventRead notes that a daemon has read an event. Of a container that it does not supervise it makes nothing.
func (h *world) noteEventRead(d *worldDaemon, ev runtime.Event) {
	if ev.Action != runtime.ActionKill {
		return
	}
	c := h.engine.byID[ev.ID]
	if c != nil && h.supervised(c.template.name) && c.opSignal.eventAt.Equal(ev.Time) && c.opSignal.readAt != nil && c.opSignal.readAt[d.number].IsZero() {
		c.opSignal.readAt[d.number] = time.Now()
	}
}

// loadedSignal says whether a daemon has loaded the operator's signal from disk.
func (d *worldDaemon) loadedSignal(c *worldContainer) bool {
	m, ok := d.loaded[c.info.ID]
	outlasted := m.Kept != nil && m.Ending.Survived && time.Since(c.opSignal.at) > c.template.stopTakes()+9*time.Second
	return ok && m.Run.ID == c.info.Run() && (m.Ending.By == core.EndedByOperator || !m.Ending.First.IsZero() || outlasted)
}

// knowsSignal says whether a daemon has known the operator's signal for a moment. A
// daemon stores what it decides before it acts.
func (d *worldDaemon) knowsSignal(c *worldContainer) bool {
	at := c.opSignal.readAt[d.number]
	return !at.IsZero() && time.Since(at) > 25*time.Millisecond || d.loadedSignal(c)
}

// noteDaemonStart notes what a new daemon cannot know.
func (h *world) noteDaemonStart(d *worldDaemon) {
	for _, c := range h.engine.containers {
		m, ok := d.loaded[c.info.ID]
		same := ok && m.Run.ID == c.info.Run()
		if c.calls > 0 && (!same || m.Action.Stopping == core.NoCause || c.unstoredRun == c.run) {
			c.uncertainRun = c.run
			c.makeUncertain("the daemon that stopped it was killed before it could store that")
		}
		if c.run > 0 && c.restartAskedRun == c.run && (!same || m.Action.Stopping == core.NoCause && m.Action.Restart == core.NoCause) {
			c.uncertainRun = c.run
			c.makeUncertain("the daemon that was to restart it was killed before it could store that")
		}
		if !same {
			c.makeUncertain("healthd has not seen its last run")
		}
	}
}

// makeUncertain drops the expectation that an ended container is started, also if it is where healthd gives it up no more.
func (c *worldContainer) makeUncertain(why string) {
	if !c.info.State.Alive() && (c.expect == mustRun || c.why == mayGiveUp) {
		c.expect, c.why = either, why
	}
}

// checkSubscription checks where a daemon begins to listen. The engine must send it
// every signal that it has not stored.
func (h *world) checkSubscription(d *worldDaemon, since time.Time) {
	if d.subscribed {
		return
	}
	d.subscribed = true
	if h.disk.seen.IsZero() {
		h.noteMissedHistory(d, since)
		return
	}
	for _, ev := range h.engine.history {
		if ev.Action != runtime.ActionKill || h.engine.order[ev.Time.UnixNano()] >= h.engine.order[since.UnixNano()] {
			continue
		}
		for _, c := range h.engine.containers {
			if c.info.ID == ev.ID && c.opSignal.eventAt.Equal(ev.Time) && c.mustHaveStored(d) {
				h.fail("%s: the daemon stored an operator's signal as seen, but did not remember it", c.template.name)
			}
		}
	}
	h.noteMissedHistory(d, since)
}

// mustHaveStored says whether the last daemon had to store the operator's signal, but the
// new one has not loaded it.
func (c *worldContainer) mustHaveStored(d *worldDaemon) bool {
	switch {
	case c.template.autoRemove, !c.lossAt.IsZero(), d.loadedOf(c.info.ID).Run.ID != c.info.Run():
		return false
	case c.opSignal.at.Before(d.host.firstConnectedAt), d.loadedOf(c.info.ID).Ending.By == core.EndedUnseen: // it is left alone, too
		return false
	case c.expect == either, c.uncertainRun == c.run, c.restartAskedRun == c.run:
		return false
	}
	return c.opSignal.ambiguous == "" && c.signalState() == freshSignal && !d.loadedSignal(c)
}

// noteMissedHistory notes what the first connection of a daemon cannot tell.
func (h *world) noteMissedHistory(d *worldDaemon, since time.Time) {
	e := h.engine
	for _, ev := range e.history {
		if ev.Time.Equal(since) {
			return
		}
	}
	full := len(e.history) >= h.historyCap*200/worldHistory
	switch restarted := e.order[since.UnixNano()] < e.lifeBegan && !h.disk.seen.IsZero(); {
	case restarted && !full:
		return // it is clear that the engine was restarted
	case restarted && e.began.After(since) && e.clockSetAt.IsZero():
		return // EventHistory notes what is not
	}
	for _, c := range e.containers {
		if d.loadedOf(c.info.ID).Action.Restart == core.NoCause {
			c.makeUncertain("nobody can tell a new daemon how it ended")
		}
	}
}

// makeEngineEndUncertain notes that nobody can tell whether the engine was restarted.
func (h *world) makeEngineEndUncertain(d *worldDaemon, why string) {
	h.logf("%s", why)
	for _, c := range h.engine.containers {
		if c.endedBy == byEngine || c.endLife != h.engine.life || d != nil && !d.everSynced && d.loadedOf(c.info.ID).Action.Restart == core.NoCause {
			c.makeUncertain(why)
		}
	}
}

// makeNewEndsUncertain notes that nobody can tell why containers have ended since the
// engine's start.
func (h *world) makeNewEndsUncertain(why string) {
	h.logf("%s", why)
	for _, c := range h.engine.containers {
		if c.endLife == h.engine.life {
			c.makeUncertain(why)
		}
	}
}

// noteDisconnect notes that no daemon is connected to the engine from now on.
func (h *world) noteDisconnect() {
	h.noteOutlived()
	if !h.connectedSince.IsZero() {
		h.unwatchedSince = time.Now()
	}
	h.connectedSince, h.disturbedAt = time.Time{}, time.Now()
	if h.engine.shuttingDown { // the daemon has stored only a part of the shutdown
		h.engine.endEventsLost = true
		h.makeEngineEndUncertain(nil, "no daemon gets the rest of the engine's shutdown")
	}
}

// noteConnected notes what a connection cannot tell.
func (h *world) noteConnected(d *worldDaemon) {
	if h.firstConnectedAt.IsZero() {
		h.firstConnectedAt = time.Now()
	}
	for _, c := range h.engine.containers {
		if !d.cutOff && (c.endUnseen || !c.lossAt.Before(c.endedAt)) && c.endLife != h.engine.life && time.Since(c.endedAt) > engineShutdown {
			c.makeUncertain("it ended without a daemon, long before its engine was back: somebody may have stopped it")
		}
	}
	if set := h.engine.clockSetAt; set.IsZero() || set.Before(h.unwatchedSince) {
		return
	}
	for _, c := range h.engine.containers {
		c.makeUncertain("its engine's clock was set while nobody watched: it may seem to have ended long before its engine")
	}
}

// worldDetection is how long healthd may need to find out that the engine does not shut
// down.
const worldDetection = 2 * time.Second

// noteOutlived notes whose signals the engine has outlived, as far as healthd could see.
func (h *world) noteOutlived() {
	if h.callsHang || h.hangingCalls > 0 || h.engine.shuttingDown || h.daemon == nil || !h.daemon.stopRequestedAt.IsZero() { // it cannot see that just now
		return
	}
	for _, c := range h.engine.containers {
		since := h.knownSince(c)
		if !h.connectedSince.IsZero() && c.endLife == h.engine.life && !c.endedAt.IsZero() && time.Since(since) > worldDetection {
			c.engineOutlived = true
		}
	}
}

// knownSince is when healthd knew of the container's end, at the latest.
func (h *world) knownSince(c *worldContainer) time.Time {
	since := later(later(c.endedAt, h.connectedSince), later(h.disturbedAt, c.disturbedAt))
	if c.lossAt.After(c.beganAt) {
		since = since.Add(2 * worldRelist)
	}
	return since
}
