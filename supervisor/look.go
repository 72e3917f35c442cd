package supervisor

import (
	"time"

	"healthd/runtime"
	"healthd/supervisor/core"
)

// Look is how a container is at a glance.
type Look uint8

// The looks. A timeline keeps them as four bits.
const (
	LookNone     Look = iota // healthd did not watch it
	LookReady                // it takes traffic
	LookStarting             // it runs, and has no verdict yet
	LookNotReady             // it runs, and takes no traffic
	LookDraining             // it runs, and is being stopped
	LookPaused
	LookWaiting // it has ended, and is to be started again, or nobody has decided yet
	LookStopped // it has ended for good, or has never run
	LookUnknown // its engine is away
	LookInvalid // its labels are wrong
	numLooks
)

// String returns the word for the look in answers of the API.
func (l Look) String() string {
	return [...]string{"None", "Ready", "Starting", "NotReady", "Draining", "Paused", "Waiting", "Stopped", "Unknown", "Invalid"}[l]
}

// LookOf returns how a container is.
func LookOf(v *core.View) Look {
	s := &v.State
	switch {
	case v.Spec == nil:
		return LookInvalid
	case s.Lost:
		return LookUnknown
	case s.Engine.State == runtime.Restarting, !s.Engine.State.Alive() && s.Action.Restart != core.NoCause && !s.Action.GaveUp:
		return LookWaiting
	case !s.Engine.State.Alive():
		return LookStopped
	case s.Run.Died:
		return LookWaiting
	case s.Draining():
		return LookDraining
	case s.Engine.State == runtime.Paused:
		return LookPaused
	}
	switch ready, reason, _ := v.Readiness(); {
	case ready:
		return LookReady
	case reason == core.NotReadyStarting, reason == core.NotReadyPending, reason == core.NotReadyPostStart:
		return LookStarting
	}
	return LookNotReady
}

// LookSet is how a container was in a minute: each look that it had, and whether it was restarted.
type LookSet uint16

const restarted LookSet = 1 << 15

// Has says whether the container had that look.
func (s LookSet) Has(l Look) bool { return s&(1<<l) != 0 }

// Restarted says that a run began by a restart.
func (s LookSet) Restarted() bool { return s&restarted != 0 }

// Worst returns the look of the set that a reader should see first: LookNone if there is none.
func (s LookSet) Worst() Look {
	for _, l := range [...]Look{LookInvalid, LookStopped, LookWaiting, LookNotReady, LookUnknown, LookPaused, LookDraining, LookStarting, LookReady} {
		if s.Has(l) {
			return l
		}
	}
	return LookNone
}

// change is a moment at which a container got another look, ended or was restarted.
type change struct {
	at      time.Duration // since the start of the daemon
	look    Look
	restart core.Cause
	exit    exit
}

func (c *change) set() LookSet {
	if c.restart != core.NoCause {
		return 1<<c.look | restarted
	}
	return 1 << c.look
}

// exit is how a run ended; the zero exit: it did not.
type exit struct {
	reason uint8 // one more than its place in exitReasons
	code   uint16
}

// exitReasons are those of core.Exit. No reason is told by an index that is not there.
var exitReasons = [...]string{
	core.ReasonCompleted, core.ReasonError, core.ReasonOOMKilled, core.ReasonStoppedByOperator,
	core.ReasonLivenessFailed, core.ReasonStartupFailed, core.ReasonManagedElsewhere, "",
}

// mostExitCode is more than any signal or exit status of Linux.
const mostExitCode = 1<<9 - 1

func exitFrom(e core.Exit) exit {
	x := exit{reason: uint8(len(exitReasons)), code: uint16(min(max(0, e.Code), mostExitCode))}
	for i, r := range exitReasons {
		if r == e.Reason {
			x.reason = uint8(i + 1)
		}
	}
	return x
}

// pack keeps 4 bits of the look, of the restart's cause and of the exit's reason, 9 of the code, and 43 of
// milliseconds, which are signed: tests play what was before.
func (c *change) pack() uint64 {
	return uint64(c.look) | uint64(c.restart)<<4 | uint64(c.exit.reason)<<8 | uint64(c.exit.code)<<12 | uint64(c.at.Milliseconds())<<21
}

func unpackChange(u uint64) change {
	return change{
		at: time.Duration(int64(u)>>21) * time.Millisecond, look: Look(u & 15), restart: core.Cause(u >> 4 & 15),
		exit: exit{reason: uint8(u >> 8 & 15), code: uint16(u >> 12 & mostExitCode)},
	}
}
