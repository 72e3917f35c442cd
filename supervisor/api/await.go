package api

import (
	"context"
	"time"
)

const (
	// maxWait is how long a check waits at most for what is not known yet.
	maxWait = 5 * time.Second
	// maxWaiting bounds the checks that wait at once: a flood of unknown names is answered.
	maxWaiting = 1024
	// lookPause is the time between two looks of a check that waits. While healthd starts,
	// the board changes all the time.
	lookPause = 20 * time.Millisecond
)

// await calls look until it returns true, known does, ctx ends or maxWait is over; at least
// once. known says that all is on the board that look looks for. Just after its start, healthd does not know yet who is ready: an
// answer would take down servers that are.
func (a *API) await(ctx context.Context, known, look func() bool) {
	all := known() // before the look, which then sees all
	if look() || all {
		return
	}
	select {
	case a.waiting <- struct{}{}:
		defer func() { <-a.waiting }()
	default:
		return
	}
	ctx, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	pause := time.NewTicker(lookPause)
	defer pause.Stop()
	for {
		changed, all := a.board.Changed(), known()
		if look() || all || !receive(ctx, changed) || !receive(ctx, pause.C) {
			return
		}
	}
}

// receive waits for c; it returns false when ctx ends first.
func receive[T any](ctx context.Context, c <-chan T) bool {
	select {
	case <-c:
		return true
	case <-ctx.Done():
		return false
	}
}
