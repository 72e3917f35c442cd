package core

import (
	"fmt"
	"time"

	"healthd/runtime"
)

// stepper is one step under way.
type stepper struct {
	State
	kept      Kept // what State.Kept points to
	spec      *Spec
	c         *runtime.Container
	now       time.Time
	engineNow time.Time
	fx        []Effect

	crowded, startsFull bool // as in the Input
}

// Room is what steps work in, one after the other, so that none has to take memory of its own. The zero Room is
// ready for use.
type Room struct{ step stepper }

// begin begins a step from the state s.
func (r *Room) begin(s *State, spec *Spec, c *runtime.Container, now time.Time) *stepper {
	t := &r.step
	t.State, t.kept = *s, *s.Kept
	t.Kept, t.fx = &t.kept, t.fx[:0]
	t.spec, t.c, t.now, t.engineNow, t.crowded, t.startsFull = spec, c, now, now, false, false
	return t
}

// end returns the state that follows s, and the effects. Most steps leave what is kept as it is: it is then
// shared.
func (t *stepper) end(s *State) (State, []Effect) {
	next := t.State
	next.Kept = s.Kept
	if t.kept != *s.Kept {
		kept := t.kept
		next.Kept = &kept
	}
	return next, t.fx
}

func (t *stepper) record(reason, format string, args ...any) {
	t.fx = append(t.fx, Effect{Kind: RecordEvent, Reason: reason, Message: fmt.Sprintf(format, args...)})
}

// recordOf is record for what a probe said or caused.
func (t *stepper) recordOf(probe ProbeType, reason, format string, args ...any) {
	t.record(reason, format, args...)
	t.fx[len(t.fx)-1].About = probe.String()
}

// recordFor is record for what follows from a cause, which may be a probe.
func (t *stepper) recordFor(cause Cause, reason, format string, args ...any) {
	switch cause {
	case ByStartup:
		t.recordOf(Startup, reason, format, args...)
	case ByLiveness:
		t.recordOf(Liveness, reason, format, args...)
	default:
		t.record(reason, format, args...)
	}
}
