package supervisor

import (
	"context"

	"healthd/runtime"
	"healthd/supervisor/core"
)

// Publisher tells load balancers what the Board shows, and knows how they see it.
// None of its methods may block: the loop calls them.
type Publisher interface {
	// Changed says that the Board shows something that a load balancer wants to know:
	// a container has come, is gone, is ready or no longer, or is elsewhere.
	Changed()
	// LastUp names where the container of that ID is the last one that takes traffic;
	// it is empty where others do, or where nothing is known.
	LastUp(id string) (where string)
}

// noPublisher is the Publisher of a supervisor that has none.
type noPublisher struct{}

func (noPublisher) Changed()             {}
func (noPublisher) LastUp(string) string { return "" }

// Drained says that no load balancer sends that run anything any more and that all it
// had sent is answered: a stop that waits for its drain to be over need not. It is no
// error when none does.
func (s *Supervisor) Drained(ctx context.Context, run runtime.Run) error {
	return s.send(ctx, connectionsDrained(run))
}

// connectionsDrained is the message that a run has nothing left to do.
type connectionsDrained runtime.Run

func (run connectionsDrained) apply(l *loop) {
	if e := l.entries[run.ID]; e != nil && e.spec != nil && e.state.Run.ID == runtime.Run(run) {
		l.step(e, &core.Input{Kind: core.ConnectionsDrained})
	}
}
