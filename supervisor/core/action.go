package core

import (
	"time"

	"healthd/runtime"
)

// Action is the stop or start that is due or under way. A new run resets all fields but
// Call.
type Action struct {
	Stopping  Cause         `json:"stopping,omitempty"`  // why healthd is stopping, or has stopped, the run
	StopCalls int           `json:"stopCalls,omitempty"` // stop calls made so far by the present stop
	Refused   int           `json:"refused,omitempty"`   // its calls in a row that the engine did not allow: no StopCalls
	Grace     time.Duration `json:"grace,omitempty"`     // grace period of the present stop, less the time of its pre_stop hook
	Restart   Cause         `json:"restart,omitempty"`   // why a start is due; NoCause: none is
	NotBefore time.Time     `json:"notBefore,omitzero"`  // earliest time of the next call; with GaveUp: since when
	Withdrawn time.Time     `json:"withdrawn,omitzero"`  // when load balancers knew that the run takes no new requests; zero: see AwaitsWithdrawal
	Call      Call          `json:"call,omitempty"`      // the call under way
	GaveUp    bool          `json:"gaveUp,omitempty"`    // healthd restarts it no more: see GiveUp
}

// Request is this daemon's newest call to the engine. It outlives the run, because news of
// the next run may come before the call returns.
type Request struct {
	Begun  time.Time     // when the present stop was decided; zero: there was none, or an earlier daemon decided it
	Sent   bool          // a stop call left for the engine: news of its signal may come
	SentAt time.Time     // when the first stop call of the present stop left; zero: none did, or an earlier daemon sent it
	Cause  Cause         // of a stop call
	Grace  time.Duration // of a stop call
	Told   bool          // the signal of a stop call was told, as one to the run that it was for
	Run    runtime.Run   // the newest run when the call was made
	Error  string        // why the call failed; empty: it did not
	Queued bool          // a start call is due, and waits for other starts: see MaxStarts
}

// Call is a call to the engine. At most one is under way for a container.
type Call uint8

// The calls.
const (
	NoCall Call = iota
	StopCall
	StartCall
)

// MaxStarts is how many start calls to an engine are under way when no more begin. After a reboot all containers
// of a small host want to start at once. Only a container that ended by itself, or with its engine, waits: a shutdown
// has no time for that, and the guard bounds the rest. A call that may hang does not count.
const MaxStarts = 8

// callRetryPause is the time before healthd tries a call again that failed, or whose
// outcome is unknown.
const callRetryPause = 10 * time.Second
