package core

import "time"

// Conditions are the published conditions of a container. Like a Pod's they outlive its
// runs.
type Conditions struct {
	Started        Condition `json:"started,omitzero"`        // the post_start hook and the startup probe have succeeded
	ContainerReady Condition `json:"containerReady,omitzero"` // ready, readiness gates not considered
	Ready          Condition `json:"ready,omitzero"`          // takes traffic
}

// Condition is True or False since the moment of its last change.
type Condition struct {
	Status bool      `json:"status,omitempty"`
	Since  time.Time `json:"since,omitzero"`
}

func (c *Condition) set(status bool, now time.Time) {
	if c.Status != status {
		c.Status, c.Since = status, now
	}
}
