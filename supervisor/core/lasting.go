package core

import "time"

// Lasting belongs to the identity of a container: it outlives its runs, and the container
// itself when it is re-created. (Gates outlive runs only.)
type Lasting struct {
	Backoff   BackoffState   `json:"backoff,omitzero"`
	Restarts  [numCauses]int `json:"restarts,omitzero"`  // by cause; ByExit includes the engine's own
	Held      bool           `json:"held,omitempty"`     // an operator holds it: healthd restarts nothing
	HeldUntil time.Time      `json:"heldUntil,omitzero"` // end of the hold; zero: until a resume
}

// BackoffState is how far the back-off of an identity has grown. The zero state: no end
// counts, and the next restart is at once.
type BackoffState struct {
	Active bool          // a run has ended, and no long run has reset the back-off since
	Delay  time.Duration // wait after the last end
	// Soon says that the last restart was one after a crash within DefaultBackoffInitial. Labels
	// may set a ResetAfter that is shorter, so a reset leaves it.
	Soon bool `json:",omitempty"`
}

// next returns the state after the end of a run that lasted ran. Its Delay is the wait
// from that end. The first restart is at once, as in the kubelet (discussed in
// k8s#133472).
func (b Backoff) next(s BackoffState, ran time.Duration) BackoffState {
	switch {
	case !s.Active || ran > b.ResetAfter:
		return BackoffState{Active: true}
	case s.Delay == 0:
		return BackoffState{Active: true, Delay: min(b.Initial, b.Max)}
	}
	return BackoffState{Active: true, Delay: min(2*s.Delay, b.Max)}
}
