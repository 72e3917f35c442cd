package core

import "time"

// Lasting belongs to the identity of a container and outlives its runs. (Gates do, too.)
type Lasting struct {
	Backoff   BackoffState   `json:"backoff,omitzero"`
	Restarts  [numCauses]int `json:"restarts,omitzero"`  // by cause; ByExit includes the engine's own
	Held      bool           `json:"held,omitempty"`     // an operator holds it: healthd restarts nothing
	HeldUntil time.Time      `json:"heldUntil,omitzero"` // end of the hold; zero: until a resume
}
