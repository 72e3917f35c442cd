package core

import (
	"slices"
	"time"
)

// Gate is a readiness gate that somebody has set. It belongs to the container, as a
// condition belongs to a Pod, and outlives runs.
type Gate struct {
	Type   string
	Status bool
	At     time.Time // time of its last change
}

// Gate returns a readiness gate, and false if it was never set.
func (s *State) Gate(name string) (Gate, bool) {
	i := slices.IndexFunc(s.Gates, func(g Gate) bool { return g.Type == name })
	if i < 0 {
		return Gate{}, false
	}
	return s.Gates[i], true
}

// firstUnmetGate returns the first of the spec's gates that is not True, or empty.
func firstUnmetGate(spec *Spec, s *State) string {
	for _, name := range spec.ReadinessGates {
		if g, _ := s.Gate(name); !g.Status {
			return name
		}
	}
	return ""
}

// setGate sets a readiness gate. States share the list, so setGate copies it.
func (t *stepper) setGate(name string, status bool) {
	old, ok := t.Gate(name)
	if ok && old.Status == status {
		return
	}
	gates := slices.DeleteFunc(slices.Clone(t.Gates), func(g Gate) bool { return g.Type == name })
	t.Gates = append(gates, Gate{Type: name, Status: status, At: t.now})
}
