package core

import (
	"healthd/runtime"
	"time"
)

// Action is the stop or start under way. All but Call ends with the run.
type Action struct {
	Stopping  Cause         `json:"stopping,omitempty"`  // why we are stopping, or have stopped, the run
	StopCalls int           `json:"stopCalls,omitempty"` // made for the run by the present stop
	Grace     time.Duration `json:"grace,omitempty"`     // left for the stop signal of the present stop
	Restart   Cause         `json:"restart,omitempty"`   // the run has ended, and a start is due at NotBefore
	NotBefore time.Time     `json:"notBefore,omitzero"`  // earliest next call: the drain or the back-off is over
	Call      Call          `json:"call,omitempty"`      // under way
}

// Request is what this daemon knows of its newest call to the engine. News of the
// next run may come before the call returns, so it outlives the run.
type Request struct {
	Sent  bool        // a stop: it is on its way, so news of its signal may come
	Cause Cause       // of a stop
	Run   runtime.Run // the newest one when the call was made
	Error string      // why the call failed; empty after a good one
}

// Call is a request to the engine that is under way for a container. There is at
// most one.
type Call uint8

// The calls.
const (
	NoCall Call = iota
	StopCall
	StartCall
)
