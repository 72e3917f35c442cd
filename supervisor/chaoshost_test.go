package supervisor

import (
	"time"
)

// engage makes sure that one thing at a time befalls the engine.
func (w *chaos) engage() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.busy || !w.engine.up {
		return false
	}
	w.busy = true
	return true
}

func (w *chaos) cutEngine(*chaosContainer) {
	if !w.engage() {
		return
	}
	away := w.away()
	w.locked(func() {
		w.engine.cut = true
		w.engine.hangUp()
		w.silent()
		w.after(away, func() { w.engine.cut, w.busy = false, false })
	})
}

// away is how long something is away: a moment or longer.
func (w *chaos) away() time.Duration {
	return time.Duration(1 + w.r.IntN([]int{int(time.Second), int(30 * time.Second)}[w.r.IntN(2)]))
}

func (w *chaos) endEngine(*chaosContainer) {
	if !w.engage() {
		return
	}
	away := w.away()
	w.wg.Go(func() {
		w.engine.shutDown()
		time.Sleep(away)
		w.locked(func() { w.engine.rise(false); w.busy = false })
	})
}

func (w *chaos) killEngine(*chaosContainer) {
	if !w.engage() {
		return
	}
	away, how := w.away(), w.r.IntN(3)
	w.locked(w.engine.fall)
	w.wg.Go(func() {
		time.Sleep(away)
		if how == 0 {
			w.engine.sweep()
		}
		w.locked(func() { w.engine.rise(how == 1); w.busy = false })
	})
}

func (w *chaos) sicken(*chaosContainer) {
	well := w.away()
	w.locked(func() {
		w.sick, w.troubleAt = true, time.Now()
		w.after(well, func() { w.sick, w.troubleAt = false, time.Now() })
	})
}

func (w *chaos) endDaemon(*chaosContainer) {
	d := w.living()
	w.locked(func() { w.bootAt = time.Now() })
	if d != nil && d.quitAt.IsZero() {
		w.locked(func() { d.quitAt = time.Now(); w.silent() })
		d.stop()
	}
}

func (w *chaos) killDaemon(*chaosContainer) {
	away := w.away()
	if d := w.living(); d != nil {
		w.locked(func() { w.bootAt = time.Now().Add(away) })
		d.kill9()
	}
}

// reboot ends everything at once.
func (w *chaos) reboot(c *chaosContainer) {
	if !w.engage() {
		return
	}
	w.killDaemon(c)
	away := w.away()
	w.locked(func() {
		w.engine.fall()
		w.rebooted = w.daemon == nil
		w.bootAt = time.Now().Add(away)
		w.after(away, func() { w.engine.rise(false); w.busy = false })
	})
}
