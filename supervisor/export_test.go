package supervisor

import "context"

// LoopOf returns the state of a running Supervisor's loop, for tests of the whole that are outside of this
// package. It may be looked at only while all goroutines wait.
func LoopOf(ctx context.Context, s *Supervisor) (any, error) {
	found := make(chan *loop, 1)
	if err := s.send(ctx, inspectLoop(func(l *loop) { found <- l })); err != nil {
		return nil, err
	}
	return <-found, nil
}
