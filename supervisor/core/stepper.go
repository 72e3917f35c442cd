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
