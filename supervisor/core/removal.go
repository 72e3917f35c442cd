package core

import (
	"fmt"

	"healthd/runtime"
)

// EndOfRemoved returns the event of a run whose end no inspection showed, because its container was
// removed at once, as by docker rm -f or a deploy. told is false where the history has the end, or
// the container did not run.
func EndOfRemoved(c *runtime.Container, s *State) (reason, message string, told bool) {
	if !s.Engine.State.Alive() {
		return "", "", false
	}
	code := ""
	if s.Run.Died {
		code = fmt.Sprintf(" (exit code %d)", s.Run.DiedCode)
	}
	if s.Ending.Who(s.Action.Stopping) == EndedByOperator {
		return EventOperatorStopped, fmt.Sprintf("Container %s was stopped by an operator%s and removed", c.Name, code), true
	}
	return EventExited, fmt.Sprintf("Container %s has ended%s and was removed", c.Name, code), true
}
