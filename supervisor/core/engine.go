package core

import "healthd/runtime"

// Engine is what the engine said last of the container.
type Engine struct {
	State       runtime.State `json:"state,omitempty"`
	Resources   string        `json:"resources,omitempty"`   // limits, only to be compared
	NetworkAway bool          `json:"networkAway,omitempty"` // the container whose network it shares does not run
	NetworkLost bool          `json:"networkLost,omitempty"` // or is gone
}
