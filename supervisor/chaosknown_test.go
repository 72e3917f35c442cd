package supervisor

import (
	"time"

	"healthd/runtime"
	"healthd/supervisor/core"
)

// read takes in that an event has reached a daemon.
func (w *chaos) read(d *chaosDaemon, ev runtime.Event) {
	if ev.Action != runtime.ActionKill {
		return
	}
	for _, c := range w.engine.all {
		if c.c.ID == ev.ID && c.wished.at.Equal(ev.Time) && c.wished.told != nil {
			if c.wished.told[d.n].IsZero() {
				c.wished.told[d.n] = time.Now()
			}
		}
	}
}

// remembers says whether a daemon was born with the operator's wish.
func (d *chaosDaemon) remembers(c *chaosContainer) bool {
	m, ok := d.bornWith[c.c.ID]
	return ok && m.Run.ID == c.c.Run() && (m.Ending.By == core.EndedByOperator || !m.Ending.First.IsZero())
}

// told says whether a daemon knew of the operator's wish a moment ago: what it decides
// is noted before it is done.
func (d *chaosDaemon) told(c *chaosContainer) bool {
	at := c.wished.told[d.n]
	return !at.IsZero() && time.Since(at) > 25*time.Millisecond || d.remembers(c)
}

// born takes in what a new daemon cannot know.
func (w *chaos) born(d *chaosDaemon) {
	for _, c := range w.engine.all {
		m, ok := d.bornWith[c.c.ID]
		same := ok && m.Run.ID == c.c.Run()
		if c.calls > 0 && (!same || m.Action.Stopping == core.NoCause) {
			c.murky = c.run
			c.unsure("the daemon that stopped it died before it could note that")
		}
		if c.run > 0 && c.askedRun == c.run && (!same || m.Action.Stopping == core.NoCause && m.Action.Restart == core.NoCause) {
			c.murky = c.run
			c.unsure("the daemon that was asked to restart it died before it could note that")
		}
		if !same {
			c.unsure("healthd has not seen its last run")
		}
	}
}

// unsure makes it impossible to know what has to become of a container.
func (c *chaosContainer) unsure(why string) {
	if !c.c.State.Alive() && c.expect == mustRun {
		c.expect, c.why = either, why
	}
}

// subscribed takes in where a daemon begins to listen. What it has not noted it must
// be told.
func (w *chaos) subscribed(d *chaosDaemon, since time.Time) {
	if d.subscribed {
		return
	}
	d.subscribed = true
	if w.disk.seen.IsZero() {
		w.reckon(d, since)
		return
	}
	for _, ev := range w.engine.memory {
		if ev.Action != runtime.ActionKill || !ev.Time.Before(since) {
			continue
		}
		for _, c := range w.engine.all {
			if c.c.ID == ev.ID && !c.gone && !c.kind.rm && c.wished.at.Equal(ev.Time) && c.wished.unclear == "" && c.wish() == freshWish && c.expect != either && c.murky != c.run && c.askedRun != c.run && !d.remembers(c) && c.lossAt.IsZero() && d.bornWith[c.c.ID].Run.ID == c.c.Run() {
				w.fail("%s: an operator's signal was noted as seen, but is not remembered", c.kind.name)
			}
		}
	}
	w.reckon(d, since)
}

// reckon takes in what the first connection of a daemon cannot tell.
func (w *chaos) reckon(d *chaosDaemon, since time.Time) {
	e := w.engine
	for _, ev := range e.memory {
		if ev.Time.Equal(since) {
			return
		}
	}
	full := len(e.memory) >= w.memoryCap*200/chaosMemory
	if e.since.After(since) && !full && !w.disk.seen.IsZero() {
		return // that the engine was started anew is clear
	}
	for _, c := range e.all {
		if m := d.bornWith[c.c.ID]; m.Action.Restart == core.NoCause {
			c.unsure("nobody can tell a new daemon how it ended")
		}
	}
}

// muddled takes in that an engine cannot tell whether it was started anew.
func (w *chaos) muddled(d *chaosDaemon, why string) {
	w.logf("%s", why)
	for _, c := range w.engine.all {
		if c.endedBy == theEngine || c.endBoot != w.engine.boot || d != nil && !d.everSynced && d.bornWith[c.c.ID].Action.Restart == core.NoCause {
			c.unsure(why)
		}
	}
}

// silent takes in that from now on nobody hears the engine.
func (w *chaos) silent() {
	w.settle()
	w.hearing, w.troubleAt = time.Time{}, time.Now()
	if w.engine.closing { // what healthd has noted is of the middle of its end
		w.engine.mute = true
		w.muddled(nil, "nobody hears the rest of the engine's end")
	}
}

// chaosSettles is how long healthd may need to hear from an engine that it is not ending.
const chaosSettles = 2 * time.Second

// settle takes in whose wishes the engine has outlived, as far as healthd could see.
func (w *chaos) settle() {
	for _, c := range w.engine.all {
		since := w.heardOf(c)
		if !w.hearing.IsZero() && c.endBoot == w.engine.boot && !c.endedAt.IsZero() && time.Since(since) > chaosSettles {
			c.outlived = true
		}
	}
}

// heardOf is when healthd had heard of its end, at the latest.
func (w *chaos) heardOf(c *chaosContainer) time.Time {
	since := later(later(c.endedAt, w.hearing), later(w.troubleAt, c.troubleAt))
	if c.lossAt.After(c.c.StartedAt) {
		since = since.Add(2 * chaosRelist)
	}
	return since
}
