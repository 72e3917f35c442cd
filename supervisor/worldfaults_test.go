package supervisor

import (
	"time"
)

// claimEngine returns false when another action on the engine is under way.
func (h *world) claimEngine() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.engineBusy || !h.engine.up {
		return false
	}
	h.engineBusy = true
	return true
}

func (h *world) disconnectEngine(*worldContainer) {
	if !h.claimEngine() {
		return
	}
	away := h.randomOutage()
	h.locked(func() {
		h.engine.unreachable = true
		h.engine.closeStreams()
		h.noteDisconnect()
		h.afterFunc(away, func() { h.engine.unreachable, h.engineBusy = false, false })
	})
}

// randomOutage is how long an outage lasts: a moment or longer.
func (h *world) randomOutage() time.Duration {
	return time.Duration(1 + h.r.IntN([]int{int(time.Second), int(30 * time.Second)}[h.r.IntN(2)]))
}

func (h *world) terminateEngine(*worldContainer) {
	if !h.claimEngine() {
		return
	}
	away := h.randomOutage()
	h.wg.Go(func() {
		h.engine.shutDown()
		time.Sleep(away)
		h.locked(func() { h.engine.comeUp(false); h.engineBusy = false })
	})
}

func (h *world) killEngine(*worldContainer) {
	if !h.claimEngine() {
		return
	}
	away, how := h.randomOutage(), h.r.IntN(3)
	h.locked(h.engine.goDown)
	h.wg.Go(func() {
		time.Sleep(away)
		if how == 0 {
			h.engine.killLeftovers()
		}
		h.locked(func() { h.engine.comeUp(how == 1); h.engineBusy = false })
	})
}

func (h *world) hangCalls(*worldContainer) {
	well := h.randomOutage()
	h.locked(func() {
		h.callsHang, h.disturbedAt = true, time.Now()
		h.afterFunc(well, func() { h.callsHang, h.disturbedAt = false, time.Now() })
	})
}

func (h *world) terminateDaemon(*worldContainer) {
	d := h.runningDaemon()
	h.locked(func() { h.nextDaemonAt = time.Now() })
	if d != nil && d.stopRequestedAt.IsZero() {
		h.locked(func() { d.stopRequestedAt, d.stoppedEarly = time.Now(), !d.everSynced; h.noteDisconnect() })
		d.stop()
	}
}

func (h *world) killDaemon(*worldContainer) {
	away := h.randomOutage()
	if d := h.runningDaemon(); d != nil {
		h.locked(func() { h.nextDaemonAt = time.Now().Add(away) })
		d.kill()
	}
}

// reboot ends the daemon, the engine and all containers at once.
func (h *world) reboot(c *worldContainer) {
	if !h.claimEngine() {
		return
	}
	h.killDaemon(c)
	away := h.randomOutage()
	h.locked(func() {
		h.engine.goDown()
		h.rebooted = h.daemon == nil
		h.boots++
		if h.clocks {
			h.engine.setClock(h.r)
			h.wallStep = h.engine.clockOffset
		}
		h.nextDaemonAt = time.Now().Add(away)
		h.afterFunc(away, func() { h.engine.comeUp(false); h.engineBusy = false })
	})
}
