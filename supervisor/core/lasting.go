package core

import "time"

// Lasting is what outlives the runs of a container: it belongs to its identity. (Gates
// do, too.)
type Lasting struct {
	Backoff   BackoffState       `json:"backoff,omitzero"`
	Restarts  [numberOfCause]int `json:"restarts,omitzero"`  // by cause: ours, and the engine's own after an exit
	Held      bool               `json:"held,omitempty"`     // an operator wants nothing restarted
	HeldUntil time.Time          `json:"heldUntil,omitzero"` // zero: until it is resumed
}
