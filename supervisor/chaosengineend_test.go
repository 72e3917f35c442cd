package supervisor

import (
	"time"

	"healthd/runtime"
)

// shutDown is SIGTERM to an engine without live-restore. It takes time.
func (e *chaosEngine) shutDown() {
	e.w.mu.Lock()
	e.closing = true
	var all []*chaosContainer
	var deaths []<-chan struct{}
	for _, c := range e.all {
		c.doubted = c.doubted || time.Since(e.w.heardOf(c)) < engineOutlives+time.Second
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
	e.w.mu.Lock()
	for _, c := range all {
		if c.c.State.Alive() {
			e.signal(c, killSignal, theEngine)
		}
	}
	e.w.mu.Unlock()
	time.Sleep(e.w.between("engine end", "", 500*time.Millisecond, time.Second))
	e.w.mu.Lock()
	for _, c := range all {
		e.emit(c, runtime.ActionStop, 0)
	}
	e.w.mu.Unlock()
	time.Sleep(e.w.between("engine gone", "", 500*time.Millisecond, time.Second))
	e.w.mu.Lock()
	defer e.w.mu.Unlock()
	e.fall()
}

// fall ends the engine; what runs goes on for now.
func (e *chaosEngine) fall() {
	e.w.logf("the engine is gone")
	e.w.silent()
	e.up, e.closing, e.mute = false, false, false
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

// rise starts the engine again. Without live-restore what ran has ended.
func (e *chaosEngine) rise(live bool) {
	if e.up {
		return
	}
	e.w.logf("the engine is there again, live-restore %v", live)
	e.boot++
	e.since = e.stamp()
	e.up, e.ended = true, make(chan struct{})
	for _, c := range e.all {
		switch {
		case c.gone:
			continue
		case c.c.State.Alive() && !live:
			e.up = false // of this end no event tells
			e.end(c, 255, theEngine)
			e.up = true
		case c.c.State == runtime.Restarting:
			c.c.State = runtime.Exited
		}
		if c.kind.rm && !c.c.State.Alive() && c.c.State != runtime.Created {
			e.remove(c)
		} else if c.kind.enginePolicy == "always" && !c.c.State.Alive() && c.c.State != runtime.Created {
			c.manual = false // docker's "always" minds no stop from before
			e.bringBack(c, e.w.between("back", c.c.ID, 100*time.Millisecond, 4*time.Second))
		}
	}
}
