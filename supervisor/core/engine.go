package core

import (
	"time"

	"healthd/runtime"
)

// Engine is what the engine last said about the container.
type Engine struct {
	State       runtime.State `json:"state,omitempty"`
	Resources   string        `json:"resources,omitempty"`   // limits, for comparison only
	NetworkAway bool          `json:"networkAway,omitempty"` // the container whose network it shares does not run
	NetworkLost bool          `json:"networkLost,omitempty"` // the container whose network it shares is gone
	LeftDown    bool          `json:"-"`                     // the engine does not start it, as its policy says
	GivesUp     bool          `json:"givesUp,omitempty"`     // it did, and an operator, perhaps, has stopped that
	Addressed   bool          `json:"addressed,omitempty"`   // the run has had an address
	NoAddress   bool          `json:"noAddress,omitempty"`   // it has none, and lost it or is published
	// NetworkStartedAt is when the newest run of that container began that healthd has seen.
	NetworkStartedAt time.Time `json:"networkStartedAt,omitzero"`
}
