package supervisor

import (
	"slices"
	"time"

	"healthd/runtime"
	"healthd/supervisor/core"
)

// unjudged is what happens to a container while its labels are wrong. The core decides nothing about
// it then. Once they are right, it judges an end that healthd has watched as any other.
type unjudged struct {
	heard []runtime.Update // Killed, Died and Stopped of the newest runs, oldest first
	deaf  bool             // there were more than maxHeard
	ended bool             // healthd was connected when the run ended
}

// maxHeard is more than any stop needs. Whoever may signal a container may do so without end.
const maxHeard = 64

func (j *unjudged) hear(u update) {
	if len(j.heard) == maxHeard {
		j.deaf = true
		return
	}
	j.heard = append(j.heard, runtime.Update(u))
}

// observed takes in an inspection that came after the one before.
func (j *unjudged) observed(before, c *runtime.Container, watched bool) {
	switch {
	case c.Run() != before.Run() && c.State.Alive():
		// what was told of earlier runs says nothing of this one
		j.heard = slices.DeleteFunc(j.heard, func(u runtime.Update) bool { return u.Of.Run != c.Run() && !u.Of.Newer })
		j.deaf, j.ended = false, false
	case c.State.Alive():
		j.ended = false
	case before.State.Alive():
		j.ended = watched
	}
}

// stepInvalid shows a container with invalid labels. The core decides nothing about it.
func (l *loop) stepInvalid(e *entry, in *core.Input) {
	l.queue.set(e, time.Time{})
	l.show(e, core.InvalidState(e.container, in.Kind == core.RuntimeLost || e.state.Lost && in.Kind != core.RuntimeBack))
	l.noteSettled(e, true)
}

// judgeAnew has a container judged by what its name and labels now say: they were wrong, or are so
// now.
func (l *loop) judgeAnew(e *entry) {
	c, past := e.container, e.unjudged
	l.stopSupervising(e)
	u := update{Runtime: c.Runtime, Container: c}
	if past.ended && !past.deaf {
		u.Causes, u.StateFromEvent = past.heard, true
		delete(l.unsupervised, c.ID) // healthd has missed nothing
	}
	l.observed(u, time.Time{})
	if e := l.entries[c.ID]; e != nil && e.spec == nil {
		e.unjudged = past // they are still wrong
	}
}
