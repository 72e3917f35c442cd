package core

import "time"

// Lasting belongs to the identity of a container: it outlives its runs, and the container
// itself when it is re-created. (Gates outlive runs only.)
type Lasting struct {
	Backoff  BackoffState   `json:"backoff,omitzero"`
	Restarts [numCauses]int `json:"restarts,omitzero"` // by cause; ByExit includes the engine's own

	// Each holder's hold is a fact of its own: the end of one ends no other.
	HeldHere      bool      `json:"held,omitempty"`          // people on this host hold it
	HeldHereUntil time.Time `json:"heldUntil,omitzero"`      // end of that; zero: until a resume
	FleetHold     string    `json:"fleetHold,omitempty"`     // the hold of its service on all hosts; empty: none
	FleetHoldOver bool      `json:"fleetHoldOver,omitempty"` // people on this host have ended FleetHold for it
}

// Held says that healthd restarts nothing, because one holder holds it.
func (l *Lasting) Held() bool { return l.HeldHere || l.HeldByFleet() }

// HeldByFleet says that the hold on all hosts counts here.
func (l *Lasting) HeldByFleet() bool { return l.FleetHold != "" && !l.FleetHoldOver }

// HeldUntil is the end of all holds; zero: there is none, or it is not known.
func (l *Lasting) HeldUntil() time.Time {
	if l.HeldByFleet() {
		return time.Time{}
	}
	return l.HeldHereUntil
}

// InheritedBy returns what the next container of the identity has at its first run, which had own before: back-off and
// counts. Its holds are its own: what becomes of one is told.
func (l Lasting) InheritedBy(own Lasting) Lasting {
	own.Backoff, own.Restarts = l.Backoff, l.Restarts
	return own
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
