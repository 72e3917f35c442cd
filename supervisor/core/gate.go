package core

import (
	"slices"
	"time"
)

// Gate is a readiness gate that somebody has set. It belongs to the container, like
// a condition to a Pod, and outlives its runs.
type Gate struct {
	Type   string
	Status bool
	At     time.Time // of its last change
}

// Gate returns what a readiness gate was set to last, if it ever was.
func (s *State) Gate(name string) (Gate, bool) {
	i := slices.IndexFunc(s.Gates, func(g Gate) bool { return g.Type == name })
	if i < 0 {
		return Gate{}, false
	}
	return s.Gates[i], true
}

// setGate takes in what somebody says of a readiness gate. States share the list,
// so it is copied.
func (t *stepper) setGate(name string, status bool) {
	old, ok := t.Gate(name)
	if ok && old.Status == status {
		return
	}
	gates := slices.DeleteFunc(slices.Clone(t.Gates), func(g Gate) bool { return g.Type == name })
	t.Gates = append(gates, Gate{Type: name, Status: status, At: t.now})
}

// firstUnmetGate returns the first of the spec's gates that is not True, and empty when
// all are.
func firstUnmetGate(spec *Spec, s *State) string {
	for _, name := range spec.ReadinessGates {
		if g, _ := s.Gate(name); !g.Status {
			return name
		}
	}
	return ""
}
