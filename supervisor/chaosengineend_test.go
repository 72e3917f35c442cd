package supervisor

import (
	"time"

	"healthd/runtime"
)

// shutDown is SIGTERM to an engine without live-restore. It takes time.
func (e *chaosEngine) shutDown() {
	e.w.locked(func() {
		e.closing = true
		for _, c := range e.all {
			c.doubted = c.doubted || time.Since(e.w.heardOf(c)) < chaosSettles
		}
	})
	e.endAll()
	time.Sleep(e.w.between("engine gone", "", 500*time.Millisecond, time.Second))
	e.w.locked(e.fall)
}

// endAll stops all that runs. It takes time.
func (e *chaosEngine) endAll() {
	e.w.mu.Lock()
	var all []*chaosContainer
	var deaths []<-chan struct{}
	for _, c := range e.all {
		if c.c.State.Alive() && !c.gone {
			e.signal(c, 15, theEngine)
			all, deaths = append(all, c), append(deaths, c.dead)
		}
	}
	e.w.mu.Unlock()
	patience := time.After(10 * time.Second)
	for _, dead := range deaths {
		select {
		case <-dead:
		case <-patience:
			patience = time.After(time.Nanosecond)
		}
	}
	time.Sleep(e.w.between("engine grace", "", time.Millisecond, 10*time.Millisecond))
	e.w.locked(func() {
		for _, c := range all {
			if c.c.State.Alive() {
				e.signal(c, killSignal, theEngine)
			}
		}
	})
	time.Sleep(e.w.between("engine end", "", 500*time.Millisecond, time.Second))
	e.w.locked(func() {
		for _, c := range all {
			e.emit(c, runtime.ActionStop, 0)
		}
	})
}

// sweep is the start of a killed engine without live-restore whose containers have
// outlived it: it ends them all before it answers anybody. It takes time.
func (e *chaosEngine) sweep() {
	e.w.locked(func() {
		e.w.logf("the engine begins, and ends what it finds")
		e.born()
		e.sweeping = true
	})
	e.endAll()
	time.Sleep(e.w.between("engine swept", "", 500*time.Millisecond, time.Second))
	e.w.locked(func() {
		e.sweeping = false
		e.answer(false)
	})
}

// fall ends the engine; what runs goes on for now.
func (e *chaosEngine) fall() {
	e.w.logf("the engine is gone")
	e.w.silent()
	e.up, e.closing, e.mute = false, false, false
	for _, c := range e.all {
		if c.why == endedWell && c.unheard {
			c.expect, c.why = either, "it ended well, or of its engine's end: nobody has heard"
		}
	}
	close(e.ended)
	e.memory, e.forgot = nil, false
	e.hangUp()
}

// hangUp ends all streams.
func (e *chaosEngine) hangUp() {
	for _, s := range e.streams {
		s.end(errAway)
	}
	e.streams = nil
}

// rise starts the engine again. Without live-restore what ran has ended, of which no
// event tells: the host was started anew, or all of its runtime.
func (e *chaosEngine) rise(live bool) {
	if e.up || e.sweeping {
		return
	}
	e.born()
	e.answer(live)
}

// born begins a new life of the engine.
func (e *chaosEngine) born() {
	e.boot++
	e.since = e.stamp()
	e.ended = make(chan struct{})
}

// answer lets the engine listen, and bring back what its policies want.
func (e *chaosEngine) answer(live bool) {
	e.w.logf("the engine is there again, live-restore %v", live)
	for _, c := range e.all {
		switch {
		case c.gone:
			continue
		case c.c.State.Alive() && !live:
			e.end(c, 255, theEngine)
		case c.c.State == runtime.Restarting:
			c.c.State = runtime.Exited
		}
	}
	e.up, e.live = true, live
	for _, c := range e.all {
		if c.gone || c.c.State.Alive() || c.c.State == runtime.Created {
			continue
		}
		if c.kind.rm {
			e.remove(c)
		} else if c.kind.enginePolicy == "always" {
			c.manual = false // docker's "always" minds no stop from before
			e.bringBack(c, e.w.between("back", c.c.ID, 100*time.Millisecond, 4*time.Second))
		}
	}
}
