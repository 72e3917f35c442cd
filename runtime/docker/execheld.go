package docker

import (
	"context"
	"fmt"
	"time"
)

// An engine deals with the ends of a container's commands one after the other, and
// with none for some seconds while the output of the last one is held open. Newer ones
// do not even answer questions about that one meanwhile. Whoever holds it is killed.

// tellMax is what the engine gets to tell of an end that can be seen from here.
const tellMax = 200 * time.Millisecond

// delay is that of an engine which does not tell of a command's end.
type delay struct {
	*execution
	since time.Time // its process is gone since then; zero while it is there
	blind bool      // nothing of the container can be seen from here
}

// end ends it when it takes too long, and says whether it has.
func (d *delay) end(ctx context.Context) bool {
	t := tree{root: d.pid, container: d.container}
	switch now := time.Now(); {
	case d.blind:
		return false
	case t.lives():
		d.since = time.Time{}
		return false
	case d.since.IsZero():
		d.since = now
		return false
	case now.Sub(d.since) < tellMax:
		return false
	}
	d.blind = len(t.processes()) == 0
	d.since = time.Now()
	return d.sweep(ctx, d.leftover) == nil
}

// gone says that the command's process has ended although the engine calls it
// running: other processes of its container can be seen from here, and it cannot.
func (d *delay) gone() bool {
	t := tree{root: d.pid, container: d.container}
	return !t.lives() && len(t.processes()) > 0
}

// lateEnd asks how a command ended of which the engine does not say so when its time
// is over.
func (x *execution) lateEnd(ctx context.Context) (exitCode int, err error) {
	ctx, cancel := context.WithTimeout(ctx, killMax)
	defer cancel()
	if err := x.sweep(ctx, x.ownOrLeftover); err != nil {
		return 0, fmt.Errorf("cannot end what commands left behind: %w", err)
	}
	err = x.until(ctx, func(in execState) bool {
		if in.ended() {
			exitCode = *in.ExitCode
		}
		return in.ended()
	})
	if err != nil {
		return 0, fmt.Errorf("the command has ended, but the engine does not say how: %w", err)
	}
	return exitCode, nil
}

// unlock lets the engine answer a question about the command that it does not answer
// as the command has ended and its output is held open. The function that it returns
// is to be called when the answer is there.
func (x *execution) unlock(ctx context.Context) (answered func()) {
	done := make(chan struct{})
	late := time.AfterFunc(tellMax, func() {
		defer close(done)
		t := tree{container: x.container, mark: x.mark}
		if t.orphaned() {
			_ = x.sweep(ctx, x.ownOrLeftover)
		}
	})
	return func() {
		if !late.Stop() {
			<-done
		}
	}
}

func (x *execution) sweep(ctx context.Context, which func(mark string) bool) error {
	ctx, cancel := context.WithTimeout(ctx, killMax)
	defer cancel()
	return tree{container: x.container}.sweep(ctx, which)
}

// leftover says whether a process of that mark is what a command left behind that
// has ended, and not meant to stay.
func (x *execution) leftover(mark string) bool {
	m, ok := readMark(mark)
	_, runs := x.engine.commands.Load(mark)
	return ok && !m.lasting && !runs && (m.owner == x.engine.owner || m.owner.ended())
}

func (x *execution) ownOrLeftover(mark string) bool {
	m, ok := readMark(mark)
	return ok && mark == x.mark && !m.lasting || x.leftover(mark)
}
