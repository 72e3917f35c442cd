package engine

import (
	"net/http"
	"slices"
	"time"
)

// ByMeasurement is the header of requests that the measurement itself makes. All others are the supervisor's.
const ByMeasurement = "Bench-Measurement"

// Kinds of acts.
const (
	Start = "start"
	Stop  = "stop"
)

// Act is a start or a stop that the supervisor asked for, and that changed something.
type Act struct {
	At       time.Time
	Kind     string
	ID, Name string // of the container
}

// actsKept is how many acts are kept for a measurement that does not ask for them.
const actsKept = 1 << 16

// noteAct notes what a request has changed, if it was the supervisor's. The caller holds mu.
func (e *Engine) noteAct(r *http.Request, kind string, i *instance) {
	if r.Header.Get(ByMeasurement) != "" {
		return
	}
	if len(e.acts) >= 2*actsKept {
		e.acts = slices.Clone(e.acts[len(e.acts)-actsKept:])
	}
	e.acts = append(e.acts, Act{time.Now(), kind, i.id, i.name})
}

func (e *Engine) takeActs(w http.ResponseWriter, _ *http.Request) {
	e.mu.Lock()
	acts := e.acts
	e.acts = nil
	e.mu.Unlock()
	answer(w, http.StatusOK, append([]Act{}, acts...))
}
