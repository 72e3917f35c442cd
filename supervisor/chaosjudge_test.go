package supervisor

import (
	"time"

	"healthd/runtime"
	"healthd/supervisor/core"
)

// called takes in a call of a daemon as it begins. What it shows must allow it.
func (w *chaos) called(d *chaosDaemon, c *chaosContainer, what string) {
	v := w.view(c)
	switch {
	case v == nil && w.supervised(c.kind.name):
		w.fail("%s: %s of a container that is not on the board", c.kind.name, what)
		return
	case v == nil: // a reload has dropped it
		return
	case c.kind.rm:
		w.fail("%s: %s of a container that its engine removes when it ends", c.kind.name, what)
	case v.State.Lasting.Held && v.State.Action.Restart == core.ByExit && what == "start" && time.Since(c.heldAt) > 3*time.Second:
		w.fail("%s: started while it is held", c.kind.name)
	}
	if what == "start" {
		c.asks = v.State.Action.Restart.ByProbe()
		asked := c.wished.before == d.n && w.engine.remembers(c.wished.at) && !c.unasked && time.Since(c.wished.at) > 200*time.Millisecond
		c.knew = c.wished.run == c.run && (asked || d.told(c))
		return
	}
	if c.wish() != noWish && !d.told(c) {
		c.wished.unclear = "healthd calls for a stop before it hears of that"
	}
	c.calls++
	c.cause, c.grace = v.State.Action.Stopping, v.State.Action.Grace
	if c.cause.ByProbe() {
		c.condemned = c.run
	}
	if v.State.Conditions.Ready.Status {
		w.fail("%s: stopped although it is published as ready", c.kind.name)
	}
	drain := v.Spec.Publish.Drain
	if time.Since(v.State.Conditions.Ready.Since) < drain {
		w.fail("%s: stopped %v after its readiness was withdrawn, drain is %v", c.kind.name, time.Since(v.State.Conditions.Ready.Since), drain)
	}
}

// judgeStart holds a start by healthd that the engine has carried out against the
// truth.
func (w *chaos) judgeStart(c *chaosContainer, by actor) {
	rebooted := c.endBoot != w.engine.boot || c.wished.run == c.run-1 && c.wished.boot != w.engine.boot
	switch {
	case c.run == 1 && c.asked.IsZero():
		w.fail("%s: first start by healthd", c.kind.name)
	case c.kind.enginePolicy != "no" && c.endedBy == theProcess && c.condemned != c.run-1 && c.calls == 0 && !rebooted && !c.unheard && c.expect != mustRun && c.askedRun != c.run-1:
		w.fail("%s: daemon %d started it after an exit, which is its engine's to do", c.kind.name, by)
	case c.expect != mustStay:
	case c.endedBy == theProcess && c.asks && c.why == endedWell: // the verdict came before its news
	case c.why == endedWell && rebooted && !c.outlived: // or the end of its engine
	case c.endedBy != theOperator:
		w.fail("%s: daemon %d started it although %s", c.kind.name, by, c.why)
	case !c.knew: // nobody had told that daemon when it called
	case rebooted && (!c.outlived || c.doubted): // it passed for a part of the engine's end
	case c.wished.unclear != "":
	default:
		w.fail("%s: daemon %d started it although %s", c.kind.name, by, c.why)
	}
}

// judgeGroup takes in that healthd sends a stop signal to c: of its group no more may
// be down by healthd's hand than its spec says.
func (w *chaos) judgeGroup(c *chaosContainer) {
	spec := w.specs[c.kind.name]
	if c.kind.group == "" || !c.cause.ByProbe() || spec == nil {
		return
	}
	var down []string
	for _, other := range w.engine.all {
		if other.kind.group == c.kind.group && !other.gone && other.downByProbe() {
			down = append(down, other.kind.name)
		}
	}
	if len(down) > spec.Group.MaxUnavailable.Of(3) {
		w.fail("%s: stopped because of a probe, so that of its group are down: %v", c.kind.name, down)
	}
}

// downByProbe says that healthd has stopped the run because of a probe, and is to
// start another one.
func (c *chaosContainer) downByProbe() bool {
	return c.signals > 0 && c.cause.ByProbe() && c.murky != c.run &&
		(c.c.State.Alive() && c.wished.run != c.run || !c.c.State.Alive() && c.expect == mustRun)
}

// check looks at everything once.
func (w *chaos) check() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.settle()
	w.follow()
	for _, c := range w.engine.all {
		if c.gone {
			continue
		}
		w.checkReady(c)
		w.checkDown(c)
	}
}

// follow notes what is in the way of healthd just now.
func (w *chaos) follow() {
	d := w.daemon
	if d == nil || !d.synced || !d.quitAt.IsZero() || !w.engine.up || w.engine.closing || w.engine.cut || w.sick || w.hanging > 0 {
		w.troubleAt = time.Now()
	}
	for _, c := range w.engine.all {
		v := w.view(c)
		if d != nil && d.calling[c.c.ID] != "" || v == nil || v.State.Lasting.Held {
			c.troubleAt = time.Now()
		}
	}
}

// checkReady wants nothing published as ready that does not run. News take a moment,
// and longer where there was trouble.
func (w *chaos) checkReady(c *chaosContainer) {
	v := w.view(c)
	if v == nil || !v.State.Conditions.Ready.Status || c.c.State == runtime.Running || v.State.Lost {
		return
	}
	since := c.c.FinishedAt
	if c.c.State == runtime.Paused {
		since = c.pausedAt
	}
	patience := 3 * time.Second
	if w.troubled(c, since) {
		since, patience = later(since, later(w.troubleAt, c.troubleAt)), chaosTroubled
	}
	if time.Since(since) > patience {
		w.fail("%s: published as ready, but it is %s for %v", c.kind.name, c.c.State, time.Since(since))
	}
}

// chaosTroubled is how long healthd may need after trouble: to connect again, to look
// again at what it could not inspect, and to list everything.
const chaosTroubled = 13*time.Second + 30*time.Second + chaosRelist

func (w *chaos) troubled(c *chaosContainer, since time.Time) bool {
	return !w.troubleAt.Before(since) || !c.troubleAt.Before(since) || !c.lossAt.IsZero() && c.lossAt.After(since.Add(-time.Minute))
}

// checkDown wants everything up that should be.
func (w *chaos) checkDown(c *chaosContainer) {
	if c.c.State.Alive() || c.expect != mustRun || c.run == 0 {
		return
	}
	since, patience := c.endedAt, c.backoff()+5*time.Second
	if c.kind.enginePolicy != "no" {
		patience += bringsBack
	}
	if w.troubled(c, since) {
		since = later(since, later(w.troubleAt, later(c.troubleAt, c.lossAt)))
		patience += chaosTroubled
	}
	if time.Since(since) > patience {
		w.fail("%s: it is down for %v, %v since the last trouble, although it %s (%s)", c.kind.name, time.Since(c.endedAt), time.Since(since), c.expect, c.why)
	}
}

// backoff is the longest that the next start may have to wait.
func (c *chaosContainer) backoff() time.Duration {
	var d time.Duration
	for range c.failures - 1 {
		d = min(max(2*d, chaosBackoff), chaosBackoffMax)
	}
	return d
}

const (
	chaosBackoff    = 2 * time.Second
	chaosBackoffMax = 20 * time.Second
	chaosReset      = 2 * time.Minute
)

// last looks at everything when there was peace for long enough.
func (w *chaos) last() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.engine.all {
		if c.gone || c.run == 0 {
			continue
		}
		v := w.view(c)
		switch {
		case v == nil && w.supervised(c.kind.name):
			w.fail("%s: is not on the board at the end", c.kind.name)
		case v == nil:
		case !c.c.State.Alive() && c.expect == mustRun:
			w.fail("%s: is down at the end, although it %s (%s)", c.kind.name, c.expect, c.why)
		case v.State.Engine.State != c.c.State || v.State.Run.ID != c.c.Run():
			w.fail("%s: is shown as %s at the end, but it is %s", c.kind.name, v.State.Engine.State, c.c.State)
		case c.c.State.Alive() && !v.State.Conditions.Ready.Status:
			_, reason, message := v.Readiness()
			w.fail("%s: is not ready at the end: %s %s", c.kind.name, reason, message)
		case !v.State.Settled() || v.State.Health.Failed != core.NoCause:
			w.fail("%s: something is still to be done at the end: %+v", c.kind.name, v.State)
		}
	}
}
