package docker

import (
	"context"
	"fmt"
	"time"
)

// Docker handles the ends of a container's commands one after the other. While a
// background process holds the output pipe of the last one open, Docker waits some
// seconds. Meanwhile it reports the end of no other command, and newer versions do not
// answer an inspection of that command. healthd kills the processes that hold the pipe.

// exitReportTimeout is how long the engine may take to report an end that healthd sees
// in /proc.
const exitReportTimeout = 200 * time.Millisecond

// undetectedExit watches for a command that has ended by /proc, but runs by the engine.
type undetectedExit struct {
	*execution
	goneSince       time.Time // when the process was first seen gone; zero while it exists
	containerHidden bool      // /proc shows no process of the container: a remote engine
}

// unblock kills the processes that hold output pipes once the engine is late, and says
// whether it did.
func (d *undetectedExit) unblock(ctx context.Context) bool {
	t := d.tree(d.pid, "")
	switch now := time.Now(); {
	case d.containerHidden:
		return false
	case t.RootAlive():
		d.goneSince = time.Time{}
		return false
	case d.goneSince.IsZero():
		d.goneSince = now
		return false
	case now.Sub(d.goneSince) < exitReportTimeout:
		return false
	}
	if d.containerHidden = len(t.Processes()) == 0; d.containerHidden {
		return false
	}
	d.goneSince = time.Now()
	return d.killPipeHolders(ctx, d.isLeftover) == nil
}

// slowestPoll returns how long the next inspection may wait. The end of a command's output
// brings one at once, so a long pause delays only commands whose output is held open, and the
// news that a command runs: its timeout begins then, so that may be late by a tenth of it. The
// pause grows with the command's age: thousands of commands that hang must not keep the engine
// busy.
func (d *undetectedExit) slowestPoll(now time.Time) time.Duration {
	late := !d.goneSince.IsZero() && !d.containerHidden
	switch {
	case d.startedAt.IsZero():
		return min(max(pollMin, d.timeout/10), pollMax)
	case late:
		return pollMax
	}
	return min(max(pollMax, now.Sub(d.startedAt)/10), pollSlowest)
}

// processGone says that the command's process has ended although the engine calls it
// running: /proc shows other processes of the container, and not this one.
func (d *undetectedExit) processGone() bool {
	return d.tree(d.pid, "").RootEnded()
}

// exitCodeAfterTimeout returns the exit code of a command that ended in time, though the
// engine did not report it before the timeout.
func (x *execution) exitCodeAfterTimeout(ctx context.Context) (exitCode int, err error) {
	ctx, cancel := context.WithTimeout(ctx, killTimeout)
	defer cancel()
	if err := x.killPipeHolders(ctx, x.isOwnOrLeftover); err != nil {
		return 0, fmt.Errorf("cannot kill background processes of commands: %w", err)
	}
	err = x.pollUntil(ctx, func(in execState) bool {
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

// unblockInspect makes the engine answer an inspection that it holds back because the
// command has ended and its output is held open. The caller calls answered when the
// answer has come.
func (x *execution) unblockInspect(ctx context.Context) (answered func()) {
	done := make(chan struct{})
	timer := time.AfterFunc(exitReportTimeout, func() {
		defer close(done)
		t := x.tree(x.pid, x.mark)
		if t.Orphaned() {
			_ = x.killPipeHolders(ctx, x.isOwnOrLeftover)
		}
	})
	return func() {
		if !timer.Stop() {
			<-done
		}
	}
}

func (x *execution) killPipeHolders(ctx context.Context, isLeftover func(mark string) bool) error {
	ctx, cancel := context.WithTimeout(ctx, killTimeout)
	defer cancel()
	return x.tree(0, "").KillPipeHolders(ctx, isLeftover)
}

// isLeftover says whether a process with that mark is a background process of a command
// that has ended and had a timeout.
func (x *execution) isLeftover(mark string) bool {
	m, ok := parseMark(mark)
	_, runs := x.engine.runningMarks.Load(mark)
	return ok && !m.noTimeout && !runs && (m.owner == x.engine.owner || m.owner.ended())
}

func (x *execution) isOwnOrLeftover(mark string) bool {
	m, ok := parseMark(mark)
	return ok && mark == x.mark && !m.noTimeout || x.isLeftover(mark)
}
