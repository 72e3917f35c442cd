package supervisor

import (
	"slices"
	"time"

	"healthd/runtime"
)

// shutDown is SIGTERM to an engine without live-restore. It takes time.
func (e *worldEngine) shutDown() {
	e.host.locked(func() {
		e.shuttingDown = true
		for _, c := range e.containers {
			c.engineEndedSoon = c.engineEndedSoon || time.Since(e.host.knownSince(c)) < worldDetection
		}
	})
	e.stopAll()
	time.Sleep(e.host.randomDuration("engine gone", "", 500*time.Millisecond, time.Second))
	e.host.locked(e.goDown)
}

// stopAll stops all running containers. It takes time.
func (e *worldEngine) stopAll() {
	e.host.mu.Lock()
	var all []*worldContainer
	var deaths []<-chan struct{}
	for _, c := range e.containers {
		if c.info.State.Alive() {
			e.signal(c, 15, byEngine)
			all, deaths = append(all, c), append(deaths, c.runEnded)
		}
	}
	e.host.mu.Unlock()
	patience := time.After(10 * time.Second)
	for _, dead := range deaths {
		select {
		case <-dead:
		case <-patience:
			patience = time.After(time.Nanosecond)
		}
	}
	time.Sleep(e.host.randomDuration("engine grace", "", time.Millisecond, 10*time.Millisecond))
	e.host.locked(func() {
		for _, c := range all {
			if c.info.State.Alive() {
				e.signal(c, killSignal, byEngine)
			}
		}
	})
	time.Sleep(e.host.randomDuration("engine end", "", 500*time.Millisecond, time.Second))
	e.host.locked(func() {
		for _, c := range all {
			e.emit(c, runtime.ActionStop, 0)
		}
	})
}

// killLeftovers is the start of a killed engine without live-restore whose containers
// have outlived it. The engine stops them all before it accepts connections. It takes
// time.
func (e *worldEngine) killLeftovers() {
	e.host.locked(func() {
		e.host.logf("the engine starts, and stops the containers that it finds")
		e.beginLife()
		e.killingLeftovers = true
	})
	e.stopAll()
	time.Sleep(e.host.randomDuration("leftovers killed", "", 500*time.Millisecond, time.Second))
	e.host.locked(func() {
		e.killingLeftovers = false
		e.listen(false)
	})
}

// goDown ends the engine; its containers run on for now.
func (e *worldEngine) goDown() {
	e.host.logf("the engine is down")
	e.host.noteDisconnect()
	e.up, e.shuttingDown, e.endEventsLost = false, false, false
	for _, c := range e.containers {
		if c.why == exitedWithZero && c.endUnseen {
			c.expect, c.why = either, "it exited with 0, or with its engine: no daemon was connected"
		}
	}
	close(e.ended)
	e.history = nil
	e.closeStreams()
}

// closeStreams ends all event streams.
func (e *worldEngine) closeStreams() {
	for _, s := range e.streams {
		s.end(errUnreachable)
	}
	e.streams = nil
}

// comeUp starts the engine again. Without live-restore its containers have ended and no
// event tells of it, as after a boot of the host.
func (e *worldEngine) comeUp(live bool) {
	if e.up || e.killingLeftovers {
		return
	}
	e.beginLife()
	e.listen(live)
}

// beginLife begins a new life of the engine.
func (e *worldEngine) beginLife() {
	e.life++
	e.lifeBegan = e.events
	e.ended = make(chan struct{})
}

// listen has the engine accept connections and restart containers by its own policy.
func (e *worldEngine) listen(live bool) {
	e.host.logf("the engine is up again, live-restore %v", live)
	for _, c := range e.containers {
		switch {
		case c.info.State.Alive() && !live:
			e.endRun(c, 255, byEngine)
		case c.info.State == runtime.Restarting:
			c.info.State = runtime.Exited
		}
	}
	if !live || !slices.ContainsFunc(e.containers, func(c *worldContainer) bool { return c.info.State.Alive() }) {
		e.began = e.stamp() // see runtime.EventHistory
	}
	e.up, e.liveRestore = true, live
	for _, c := range e.containers {
		if c.info.State.Alive() || c.info.State == runtime.Created {
			continue
		}
		if c.template.autoRemove {
			e.remove(c)
		} else if c.template.enginePolicy == "always" {
			c.stoppedByAPI = false // Docker's "always" ignores a stop before its start
			e.restartByPolicy(c, e.host.randomDuration("back", c.info.ID, 100*time.Millisecond, 4*time.Second))
		}
	}
}
