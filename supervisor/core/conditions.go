package core

import "time"

// Conditions are what is published of a container. Like a Pod's they outlive its runs.
type Conditions struct {
	Started        Condition `json:"started,omitzero"`        // the post_start hook and the startup probe have succeeded
	ContainerReady Condition `json:"containerReady,omitzero"` // all but the readiness gates says that it is ready
	Ready          Condition `json:"ready,omitzero"`          // it takes traffic
}

// Condition is a fact about a container with the time of its last change.
type Condition struct {
	Status bool      `json:"status,omitempty"`
	Since  time.Time `json:"since,omitzero"`
}

// set notes what holds from now on.
func (c *Condition) set(status bool, now time.Time) {
	if c.Status != status {
		c.Status, c.Since = status, now
	}
}
