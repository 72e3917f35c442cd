package api

import (
	"time"

	"healthd/supervisor/core"
)

// Condition is one thing that is true of a container or is not.
type Condition struct {
	Type               string     `json:"type"`
	Status             string     `json:"status"`
	Reason             string     `json:"reason"`
	Message            string     `json:"message"`
	LastProbeTime      *time.Time `json:"lastProbeTime"`
	LastTransitionTime *time.Time `json:"lastTransitionTime"`
}

// ownConditions is how many conditions a container has without readiness gates.
const ownConditions = 3

// Gates returns the conditions of the container's readiness gates.
func (s Status) Gates() []Condition {
	return s.Conditions[min(ownConditions, len(s.Conditions)):]
}

// reasonNotSet is why a gate is False that nobody has set.
const reasonNotSet = "NotSet"

// conditions returns a container's own conditions, and then those of its readiness
// gates in the order of its spec.
func conditions(v *core.View) []Condition {
	s := &v.State
	asked := known(s.Health.Probes[core.Readiness].LastAt)
	isStarted, since := v.Started()
	isUp, whyNotUp, aboutUp := v.ContainerReadiness()
	isReady, whyNotReady, aboutReady := v.Readiness()
	started := Condition{
		Type: "Started", Status: truth(isStarted),
		LastProbeTime: known(s.Health.Probes[core.Startup].LastAt), LastTransitionTime: known(since),
	}
	if !isStarted {
		started.Reason, started.Message = whyNotUp, aboutUp
	}
	all := []Condition{started, {
		Type: "ContainerReady", Status: truth(isUp), Reason: whyNotUp, Message: aboutUp,
		LastProbeTime: asked, LastTransitionTime: known(s.Conditions.ContainerReady.Since),
	}, {
		Type: "Ready", Status: truth(isReady), Reason: whyNotReady, Message: aboutReady,
		LastProbeTime: asked, LastTransitionTime: known(s.Conditions.Ready.Since),
	}}
	if v.Spec == nil {
		return all
	}
	for _, name := range v.Spec.ReadinessGates {
		all = append(all, gateCondition(s, name))
	}
	return all
}

func gateCondition(s *core.State, name string) Condition {
	g, set := s.Gate(name)
	c := Condition{Type: name, Status: truth(g.Status), LastTransitionTime: known(g.At)}
	if !set {
		c.Reason, c.Message = reasonNotSet, "nobody has set it yet"
	}
	return c
}

func truth(b bool) string {
	if b {
		return "True"
	}
	return "False"
}

// known returns the time in UTC, or nil for one that is not known.
func known(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return new(t.UTC())
}
