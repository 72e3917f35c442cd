package core

import (
	"time"

	"healthd/runtime"
)

// Run is one run of the container, from its start to its end.
type Run struct {
	ID        runtime.Run         `json:"id"`
	Before    runtime.Run         `json:"before,omitzero"`    // the previous run; zero: none known
	StartedAt time.Time           `json:"startedAt,omitzero"` // by the engine's clock
	BeganAt   time.Time           `json:"beganAt,omitzero"`   // the same by healthd's clock
	EndedAt   time.Time           `json:"endedAt,omitzero"`   // its end by healthd's clock; zero: it goes on
	Network   Network             `json:"network,omitzero"`   // the network that it shares
	Hooks     [numHooks]HookState `json:"hooks,omitzero"`
	Died      bool                `json:"died,omitempty"`     // an event told its end, no inspection has shown it yet
	DiedCode  int                 `json:"diedCode,omitempty"` // exit code of that event
	Exit      Exit                `json:"exit,omitzero"`      // how it ended; zero FinishedAt: it has not
	LastExit  Exit                `json:"lastExit,omitzero"`  // how the previous run ended; zero FinishedAt: none known

	EngineTries  bool `json:"engineTries,omitempty"`  // the engine was seen about to start the container after it
	EngineGaveUp bool `json:"engineGaveUp,omitempty"` // the engine's own policy has not started the container after it
	LastByItself bool `json:"lastByItself,omitempty"` // the previous run ended by itself: nobody stopped it, nor did its engine end
}

// Network is the network of another container that a run shares.
type Network struct {
	Known     bool      `json:"known,omitempty"`    // StartedAt is known
	StartedAt time.Time `json:"startedAt,omitzero"` // start of the other container's run that the network belongs to; zero: not of one that healthd has seen
}

// Exit is how a run ended. Its times are by the engine's clock.
type Exit struct {
	Code       int
	Reason     string // one of the Reason constants
	StartedAt  time.Time
	FinishedAt time.Time
}

// The reasons of an Exit.
const (
	ReasonCompleted         = "Completed"
	ReasonError             = "Error"
	ReasonOOMKilled         = "OOMKilled"
	ReasonStoppedByOperator = "StoppedByOperator"
	ReasonLivenessFailed    = "LivenessFailed"
	ReasonStartupFailed     = "StartupFailed"
	ReasonManagedElsewhere  = "ManagedElsewhere" // another orchestrator decides what follows, however it ended
)

// exitOf returns the Exit of a container's last run, as the engine tells it. It is
// meaningless while the container is alive.
func exitOf(c *runtime.Container) Exit {
	e := Exit{Code: c.ExitCode, StartedAt: c.StartedAt, FinishedAt: c.FinishedAt, Reason: ReasonError}
	const killed = 128 + 9
	switch {
	case c.OOMKilled && c.ExitCode == killed: // else the kernel killed a child of it, perhaps long before
		e.Reason = ReasonOOMKilled
	case c.ExitCode == 0:
		e.Reason = ReasonCompleted
	}
	return e
}
