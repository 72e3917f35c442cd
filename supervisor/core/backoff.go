package core

import "time"

// BackoffState is how far the back-off of an identity has grown.
type BackoffState struct {
	Active bool          // there was an end that is not forgotten yet
	Delay  time.Duration // given after the last end
}

// next returns the state after one more end of a run that lasted ran; its Delay
// is what to wait from that end. The first restart is at once, as in the kubelet
// (k8s#133472 has the discussion).
func (b Backoff) next(s BackoffState, ran time.Duration) BackoffState {
	switch {
	case !s.Active || ran > b.ResetAfter:
		return BackoffState{Active: true}
	case s.Delay == 0:
		return BackoffState{Active: true, Delay: min(b.Initial, b.Max)}
	}
	return BackoffState{Active: true, Delay: min(2*s.Delay, b.Max)}
}
