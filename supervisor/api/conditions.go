package api

import (
	"time"

	"healthd/supervisor/core"
)

// Condition is a condition of a container, as in a Pod.
type Condition struct {
	Type               string     `json:"type"`
	Status             string     `json:"status"`
	Reason             string     `json:"reason"`
	Message            string     `json:"message"`
	LastProbeTime      *time.Time `json:"lastProbeTime"`
	LastTransitionTime *time.Time `json:"lastTransitionTime"`
}

// fixedConditions is how many conditions a container has without readiness gates.
const fixedConditions = 3

// Gates returns the conditions of the container's readiness gates.
func (s Status) Gates() []Condition {
	return s.Conditions[min(fixedConditions, len(s.Conditions)):]
}

// reasonNotSet is the reason of a gate that nobody has set.
const reasonNotSet = "NotSet"

// conditions returns a container's own conditions, and then those of its readiness
// gates in the order of its spec.
func conditions(v *core.View, at time.Time) []Condition {
	s := &v.State
	asked := byClockOrNil(s.Health.Probes[core.Readiness].LastAt, at)
	isStarted, since := v.Started()
	isUp, whyNotUp, aboutUp := v.ContainerReadiness()
	isReady, whyNotReady, aboutReady := v.Readiness()
	started := Condition{
		Type: "Started", Status: conditionStatus(isStarted),
		LastProbeTime: byClockOrNil(s.Health.Probes[core.Startup].LastAt, at), LastTransitionTime: byClockOrNil(since, at),
	}
	if !isStarted {
		started.Reason, started.Message = whyNotUp, aboutUp
	}
	all := []Condition{started, {
		Type: "ContainerReady", Status: conditionStatus(isUp), Reason: whyNotUp, Message: aboutUp,
		LastProbeTime: asked, LastTransitionTime: byClockOrNil(s.Conditions.ContainerReady.Since, at),
	}, {
		Type: "Ready", Status: conditionStatus(isReady), Reason: whyNotReady, Message: aboutReady,
		LastProbeTime: asked, LastTransitionTime: byClockOrNil(s.Conditions.Ready.Since, at),
	}}
	if v.Spec == nil {
		return all
	}
	for _, name := range v.Spec.ReadinessGates {
		all = append(all, gateCondition(s, name, at))
	}
	return all
}

func gateCondition(s *core.State, name string, at time.Time) Condition {
	g, set := s.Gate(name)
	c := Condition{Type: name, Status: conditionStatus(g.Status), LastTransitionTime: byClockOrNil(g.At, at)}
	if !set {
		c.Reason, c.Message = reasonNotSet, "nobody has set it yet"
	}
	return c
}

func conditionStatus(b bool) string {
	if b {
		return "True"
	}
	return "False"
}

// byClockOrNil is core.ByClock, or nil when t is zero.
func byClockOrNil(t, at time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return new(core.ByClock(t, at))
}
