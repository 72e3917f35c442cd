package supervisor

import (
	"time"

	"healthd/runtime"
	"healthd/supervisor/core"
)

// read takes in that an event has reached a daemon.
func (h *chaosHost) noteEventRead(d *chaosDaemon, ev runtime.Event) {
	if ev.Action != runtime.ActionKill {
		return
	}
	for _, c := range h.engine.containers {
		if c.info.ID == ev.ID && c.opSignal.at.Equal(ev.Time) && c.opSignal.readAt != nil {
			if c.opSignal.readAt[d.number].IsZero() {
				c.opSignal.readAt[d.number] = time.Now()
			}
		}
	}
}

// remembers says whether a daemon was born with the operator's wish.
func (d *chaosDaemon) loadedSignal(c *chaosContainer) bool {
	m, ok := d.loaded[c.info.ID]
	return ok && m.Run.ID == c.info.Run() && (m.Ending.By == core.EndedByOperator || !m.Ending.First.IsZero())
}

// told says whether a daemon knew of the operator's wish a moment ago: what it decides
// is noted before it is done.
func (d *chaosDaemon) knowsSignal(c *chaosContainer) bool {
	at := c.opSignal.readAt[d.number]
	return !at.IsZero() && time.Since(at) > 25*time.Millisecond || d.loadedSignal(c)
}

// born takes in what a new daemon cannot know.
func (h *chaosHost) noteDaemonStart(d *chaosDaemon) {
	for _, c := range h.engine.containers {
		m, ok := d.loaded[c.info.ID]
		same := ok && m.Run.ID == c.info.Run()
		if c.calls > 0 && (!same || m.Action.Stopping == core.NoCause) {
			c.uncertainRun = c.run
			c.makeUncertain("the daemon that stopped it died before it could note that")
		}
		if c.run > 0 && c.restartAskedRun == c.run && (!same || m.Action.Stopping == core.NoCause && m.Action.Restart == core.NoCause) {
			c.uncertainRun = c.run
			c.makeUncertain("the daemon that was asked to restart it died before it could note that")
		}
		if !same {
			c.makeUncertain("healthd has not seen its last run")
		}
	}
}

// unsure makes it impossible to know what has to become of a container.
func (c *chaosContainer) makeUncertain(why string) {
	if !c.info.State.Alive() && c.expect == mustRun {
		c.expect, c.why = either, why
	}
}

// subscribed takes in where a daemon begins to listen. What it has not noted it must
// be told.
func (h *chaosHost) checkSubscription(d *chaosDaemon, since time.Time) {
	if d.subscribed {
		return
	}
	d.subscribed = true
	if h.disk.seen.IsZero() {
		h.noteMissedHistory(d, since)
		return
	}
	for _, ev := range h.engine.history {
		if ev.Action != runtime.ActionKill || !ev.Time.Before(since) {
			continue
		}
		for _, c := range h.engine.containers {
			if c.info.ID == ev.ID && !c.gone && !c.template.autoRemove && c.opSignal.at.Equal(ev.Time) && c.opSignal.ambiguous == "" && c.signalState() == freshSignal && c.expect != either && c.uncertainRun != c.run && c.restartAskedRun != c.run && !d.loadedSignal(c) && c.lossAt.IsZero() && d.loaded[c.info.ID].Run.ID == c.info.Run() {
				h.fail("%s: an operator's signal was noted as seen, but is not remembered", c.template.name)
			}
		}
	}
	h.noteMissedHistory(d, since)
}

// reckon takes in what the first connection of a daemon cannot tell.
func (h *chaosHost) noteMissedHistory(d *chaosDaemon, since time.Time) {
	e := h.engine
	for _, ev := range e.history {
		if ev.Time.Equal(since) {
			return
		}
	}
	full := len(e.history) >= h.historyCap*200/chaosHistory
	if e.startedAt.After(since) && !full && !h.disk.seen.IsZero() {
		return // that the engine was started anew is clear
	}
	for _, c := range e.containers {
		if m := d.loaded[c.info.ID]; m.Action.Restart == core.NoCause {
			c.makeUncertain("nobody can tell a new daemon how it ended")
		}
	}
}

// muddled takes in that an engine cannot tell whether it was started anew.
func (h *chaosHost) makeEngineEndUncertain(d *chaosDaemon, why string) {
	h.logf("%s", why)
	for _, c := range h.engine.containers {
		if c.endedBy == byEngine || c.endLife != h.engine.life || d != nil && !d.everSynced && d.loaded[c.info.ID].Action.Restart == core.NoCause {
			c.makeUncertain(why)
		}
	}
}

// silent takes in that from now on nobody hears the engine.
func (h *chaosHost) noteDisconnect() {
	h.noteOutlived()
	h.connectedSince, h.disturbedAt = time.Time{}, time.Now()
	if h.engine.shuttingDown { // what healthd has noted is of the middle of its end
		h.engine.endEventsLost = true
		h.makeEngineEndUncertain(nil, "nobody hears the rest of the engine's end")
	}
}

// chaosSettles is how long healthd may need to hear from an engine that it is not ending.
const chaosDetection = 2 * time.Second

// settle takes in whose wishes the engine has outlived, as far as healthd could see.
func (h *chaosHost) noteOutlived() {
	for _, c := range h.engine.containers {
		since := h.knownSince(c)
		if !h.connectedSince.IsZero() && c.endLife == h.engine.life && !c.endedAt.IsZero() && time.Since(since) > chaosDetection {
			c.engineOutlived = true
		}
	}
}

// heardOf is when healthd had heard of its end, at the latest.
func (h *chaosHost) knownSince(c *chaosContainer) time.Time {
	since := later(later(c.endedAt, h.connectedSince), later(h.disturbedAt, c.disturbedAt))
	if c.lossAt.After(c.info.StartedAt) {
		since = since.Add(2 * chaosRelist)
	}
	return since
}
