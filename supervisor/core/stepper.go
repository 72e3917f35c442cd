package core

import (
	"fmt"
	"sync"
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
	crowded   bool // see Input.Crowded
	fx        []Effect
}

// steppers are used again, because they are large.
var steppers = sync.Pool{New: func() any { return new(stepper) }}

// newStepper returns a stepper from the state s.
func newStepper(s *State) *stepper {
	t := steppers.Get().(*stepper)
	t.State, t.kept = *s, *s.Kept
	t.Kept = &t.kept
	return t
}

// end gives the stepper up, and returns the state that follows s, and the effects. Most steps leave what is kept
// as it is: it is then shared.
func (t *stepper) end(s *State) (State, []Effect) {
	next, fx := t.State, t.fx
	next.Kept = s.Kept
	if t.kept != *s.Kept {
		kept := t.kept
		next.Kept = &kept
	}
	t.spec, t.c, t.fx = nil, nil, nil // the rest is overwritten
	steppers.Put(t)
	return next, fx
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
