package core

import "time"

// Ending is the evidence of who ends the run.
type Ending struct {
	OwnSignals      int       `json:"ownSignals,omitempty"`      // stop signals of our calls that the engine reported
	KillDue         time.Time `json:"killDue,omitzero"`          // engine's time from which KILL is of these calls
	First           time.Time `json:"first,omitzero"`            // engine's time at which somebody else sent the run a stopping signal
	FirstSignal     int       `json:"firstSignal,omitempty"`     // which one
	Overtaken       Cause     `json:"overtaken,omitempty"`       // why healthd was stopping the run then
	Last            time.Time `json:"last,omitzero"`             // of the newest such signal, perhaps to a run that is not seen yet
	ForgetAt        time.Time `json:"forgetAt,omitzero"`         // when the run, if it still lives, is taken to have survived that
	Overruled       bool      `json:"overruled,omitempty"`       // somebody has asked for a restart since
	Survived        bool      `json:"survived,omitempty"`        // the run did survive a signal, once
	OperatorStopped bool      `json:"operatorStopped,omitempty"` // the run ended of that: stays so until somebody starts it
	MaybeEngine     bool      `json:"maybeEngine,omitempty"`     // that may have been the engine itself, ending
}

// next is the evidence that a run begins with: of a signal that was for it, and whose
// news was faster than that of its start.
func (e Ending) next(startedAt time.Time) Ending {
	if e.Last.Before(startedAt) {
		return Ending{}
	}
	return Ending{First: e.Last, Last: e.Last, ForgetAt: e.ForgetAt, MaybeEngine: e.MaybeEngine}
}

// Checks is what the engine is to be asked about an ending, and when.
type Checks struct {
	InspectAt     time.Time // whether the run has survived a signal
	DoubtfulSince time.Time // since when the signals may be the engine's
	DialAt        time.Time // whether it takes new connections
}
