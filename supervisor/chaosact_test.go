package supervisor

import (
	"maps"
	"time"

	"healthd/runtime"
)

// deed is something that somebody does, or that befalls the host, to the container or
// the daemon given. It is called without the lock.
type deed struct {
	weight int
	name   string
	do     func(w *chaos, c *chaosContainer)
}

var deeds = []deed{
	{6, "docker stop", (*chaos).dockerStop},
	{4, "docker kill", (*chaos).dockerKill},
	{2, "docker kill -s TERM", (*chaos).dockerTerm},
	{1, "docker kill -s HUP", (*chaos).dockerHup},
	{10, "docker start", (*chaos).dockerStart},
	{3, "docker restart", (*chaos).dockerRestart},
	{3, "docker pause", (*chaos).dockerPause},
	{4, "docker unpause", (*chaos).dockerUnpause},
	{2, "docker rm -f and run", (*chaos).recreate},
	{6, "healthd restart", (*chaos).askRestart},
	{2, "healthd hold", (*chaos).askHold},
	{4, "healthd resume", (*chaos).askResume},
	{4, "healthd gate", (*chaos).askGate},
	{3, "reload", (*chaos).reload},
	{10, "hangs", func(w *chaos, c *chaosContainer) { w.locked(func() { c.hung = !c.hung }) }},
	{6, "is not ready, or is again", func(w *chaos, c *chaosContainer) { w.locked(func() { c.unready = !c.unready }) }},
	{8, "crashes", (*chaos).crash},
	{3, "cuts the connection to the engine", (*chaos).cutEngine},
	{2, "SIGTERM to the engine", (*chaos).endEngine},
	{2, "SIGKILL to the engine", (*chaos).killEngine},
	{2, "makes the engine sick", (*chaos).sicken},
	{3, "SIGTERM to healthd", (*chaos).endDaemon},
	{4, "SIGKILL to healthd", (*chaos).killDaemon},
	{1, "power failure", (*chaos).reboot},
}

var deedsWeight = func() (n int) {
	for _, d := range deeds {
		n += d.weight
	}
	return n
}()

// act does one thing to one container.
func (w *chaos) act() {
	k, n := w.kinds[w.r.IntN(len(w.kinds))], w.r.IntN(deedsWeight)
	i := 0
	for ; n >= deeds[i].weight; i++ {
		n -= deeds[i].weight
	}
	w.mu.Lock()
	c := w.engine.named(k)
	if c == nil && w.engine.up { // somebody runs what is gone
		c = w.engine.create(k)
	}
	if c != nil {
		w.logf("> %s: %s", deeds[i].name, k.name)
	}
	w.mu.Unlock()
	if c != nil {
		deeds[i].do(w, c)
	}
}

func (w *chaos) locked(do func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	do()
}

func (w *chaos) dockerStop(c *chaosContainer) {
	w.wg.Go(func() { _ = w.engine.stop(c.c.ID, c.kind.stopTimeout, theOperator) })
}

func (w *chaos) dockerSignal(c *chaosContainer, signal int) {
	w.locked(func() {
		if w.engine.up && c.c.State.Alive() {
			c.manual = true
			w.engine.signal(c, signal, theOperator)
		}
	})
}

func (w *chaos) dockerKill(c *chaosContainer) { w.dockerSignal(c, killSignal) }
func (w *chaos) dockerTerm(c *chaosContainer) { w.dockerSignal(c, 15) }
func (w *chaos) dockerHup(c *chaosContainer)  { w.dockerSignal(c, 1) }

func (w *chaos) dockerStart(c *chaosContainer) {
	w.wg.Go(func() { _ = w.engine.start(c.c.ID, theOperator) })
}

func (w *chaos) dockerRestart(c *chaosContainer) {
	w.wg.Go(func() {
		if w.engine.stop(c.c.ID, c.kind.stopTimeout, theOperator) == nil {
			_ = w.engine.start(c.c.ID, theOperator)
		}
	})
}

func (w *chaos) dockerPause(c *chaosContainer) {
	w.locked(func() {
		if w.engine.up && c.c.State == runtime.Running {
			c.c.State, c.pausedAt = runtime.Paused, time.Now()
			w.engine.emit(c, runtime.ActionPause, 0)
		}
	})
}

func (w *chaos) dockerUnpause(c *chaosContainer) {
	w.locked(func() {
		if w.engine.up && c.c.State == runtime.Paused {
			c.c.State = runtime.Running
			w.engine.emit(c, runtime.ActionUnpause, 0)
		}
	})
}

// recreate does what compose does when an image has changed.
func (w *chaos) recreate(c *chaosContainer) {
	w.wg.Go(func() {
		w.locked(func() {
			if w.engine.up && c.c.State.Alive() {
				w.engine.signal(c, killSignal, theOperator)
			}
		})
		time.Sleep(20 * time.Millisecond)
		var fresh *chaosContainer
		w.locked(func() {
			if w.engine.up && !c.c.State.Alive() && c == w.engine.named(c.kind) {
				w.engine.remove(c)
				fresh = w.engine.create(c.kind)
			}
		})
		time.Sleep(20 * time.Millisecond)
		if fresh != nil {
			_ = w.engine.start(fresh.c.ID, theOperator)
		}
	})
}

// living is the daemon that can be asked, nil when there is none.
func (w *chaos) living() *chaosDaemon {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.daemon
}

func (w *chaos) askRestart(c *chaosContainer) {
	d := w.living()
	if d == nil {
		return
	}
	w.mu.Lock()
	run, recent := c.run, c.wished.run == c.run && time.Since(c.wished.at) < time.Second
	w.mu.Unlock()
	if err := d.sup.Restart(w.t.Context(), c.c.Name); err != nil {
		return
	}
	w.locked(func() {
		if c.run != run || c.gone {
			return
		}
		c.asked, c.askedRun = time.Now(), run
		switch {
		case c.c.State.Alive():
		case recent || w.hearing.IsZero():
			c.expect, c.why = either, "it was stopped and a restart asked for at the same time"
		default:
			c.expect, c.why, c.troubleAt = mustRun, "a restart was asked for", time.Now()
		}
	})
}

func (w *chaos) askHold(c *chaosContainer) {
	if d := w.living(); d != nil {
		if d.sup.Hold(w.t.Context(), c.c.Name, time.Now().Add(time.Duration(1+w.r.IntN(60))*time.Second)) == nil {
			w.locked(func() { c.heldAt = time.Now() })
		}
	}
}

func (w *chaos) askResume(c *chaosContainer) {
	if d := w.living(); d != nil {
		_ = d.sup.Resume(w.t.Context(), c.c.Name)
	}
}

func (w *chaos) askGate(c *chaosContainer) {
	if d := w.living(); d != nil {
		_ = d.sup.SetGate(w.t.Context(), c.c.Name, "lb", w.r.IntN(3) > 0)
	}
}

// reload changes some specs, and now and then whether something is supervised.
func (w *chaos) reload(c *chaosContainer) {
	w.mu.Lock()
	specs := maps.Clone(w.specs)
	for _, k := range w.kinds {
		if w.r.IntN(3) == 0 {
			specs[k.name] = k.spec(w.r)
		}
	}
	if w.r.IntN(4) == 0 {
		specs[c.kind.name] = nil
	}
	for _, k := range w.kinds {
		if (specs[k.name] == nil) != (w.specs[k.name] == nil) {
			for _, c := range w.engine.all {
				if c.kind == k {
					c.unsure("it is not supervised")
					c.murky = c.run
				}
			}
		}
	}
	w.specs = specs
	d := w.daemon
	w.mu.Unlock()
	if d == nil {
		return
	}
	_ = d.sup.Reload(w.t.Context(), resolverFor(specs), w.guard)
	select {
	case d.refresh <- struct{}{}:
	default:
	}
}

func (w *chaos) crash(c *chaosContainer) {
	w.locked(func() {
		if c.c.State == runtime.Running {
			w.engine.end(c, c.kind.code, theProcess)
		}
	})
}
