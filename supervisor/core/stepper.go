package core

import (
	"fmt"
	"time"

	"healthd/runtime"
)

// stepper is one step under way.
type stepper struct {
	State
	spec      *Spec
	c         *runtime.Container
	now       time.Time
	engineNow time.Time
	crowded   bool // see Input.Crowded
	fx        []Effect
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
