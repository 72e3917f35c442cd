package core

import (
	"time"
)

// Gate is a readiness gate that somebody has set. It belongs to the container, as a
// condition belongs to a Pod, and outlives runs.
type Gate struct {
	Type   string
	Status bool
	At     time.Time // time of its last change
}
