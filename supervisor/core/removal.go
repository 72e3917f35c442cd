package core

import (
	"fmt"

	"healthd/runtime"
)

// EndOfRemoved returns the event of a run whose end no inspection showed, because its container was
// removed at once, as by docker rm -f or a deploy; or of a container that healthd was to start again, as one that
// docker container prune removes. told is false where the history has the end, and nothing was to follow.
func EndOfRemoved(c *runtime.Container, s *State) (reason, message string, told bool) {
	if !s.Engine.State.Alive() {
		due := s.Action.Restart != NoCause && !s.Action.GaveUp
		return EventExited, fmt.Sprintf("Container %s was removed, not recovered: healthd was to start it again", c.Name), due
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
