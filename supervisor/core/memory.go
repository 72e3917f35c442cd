package core

import (
	"slices"
	"time"

	"healthd/prober"
	"healthd/runtime"
)

// Memory is what the next daemon needs to know about a container, also after a crash of
// this one. The journal keeps its JSON form.
type Memory struct {
	Facts
	Written   Stamp       `json:"written,omitzero"`    // when it was written; zero: never, or by an older daemon
	Gates     []Gate      `json:"gates,omitempty"`     // never changed in place
	Restarted []time.Time `json:"restarted,omitempty"` // see State; changes only together with Facts
	Granted   []time.Time `json:"granted,omitempty"`   // recent restarts for failed probes and hooks; never changed in place; changes only together with Facts
}

// Facts is a Memory without its lists.
type Facts struct {
	ID       string `json:"id"`
	Name     string `json:"name"`
	Runtime  string `json:"runtime"`
	Identity string `json:"identity"`
	Was      string `json:"was,omitempty"` // the identity before it was renamed, which no other container has taken
	// Superseded says that a newer container has run under its identity, and has what belongs to that.
	Superseded bool `json:"superseded,omitempty"`
	// Image is the image ID, or the name where the engine tells no ID. A container of the
	// same identity with another image or other Engine.Resources gets a new back-off.
	Image           string    `json:"image,omitempty"`
	Gone            time.Time `json:"gone,omitzero"`             // when the container was removed; zero: it was not
	DroppedByReload bool      `json:"droppedByReload,omitempty"` // a reload ended its supervision: the rest is of that moment
	*Kept
	ReadinessSucceeded bool   `json:"readinessSucceeded,omitempty"` // the readiness probe's verdict
	Down               Outage `json:"down,omitzero"`
}

// Remember returns the Facts of a container in that state.
func Remember(c *runtime.Container, identity string, s *State) Facts {
	return Facts{
		ID: c.ID, Name: c.Name, Runtime: c.Runtime, Identity: identity, Image: imageOf(c),
		Kept: s.Kept, ReadinessSucceeded: s.Health.Probes[Readiness].Result == prober.Success,
	}
}

// Equal says whether two are the same facts.
func (f *Facts) Equal(other *Facts) bool {
	x, y := *f, *other
	if *x.Kept != *y.Kept {
		return false
	}
	x.Kept, y.Kept = nil, nil
	return x == y
}

// SameImageAndResources says whether the remembered container has the image and the resources of c. If
// not, the back-off begins afresh: the change may have removed the cause of the failure.
// (kubelet GetBackoffKey)
func (m *Memory) SameImageAndResources(c *runtime.Container) bool {
	return m.Image == imageOf(c) && m.Engine.Resources == c.Resources
}

func imageOf(c *runtime.Container) string {
	if c.ImageID != "" {
		return c.ImageID
	}
	return c.Image
}

// State returns the state that the last daemon knew, as if no time had passed, after a reload to the spec that the
// container has now: the next observation then shows what has changed. Probes count afresh, but Ready and Started
// stay until the first verdict. (kubelet since 1.35) The effects are events, valid until the next step in the room.
func (m *Memory) State(spec *Spec, c *runtime.Container, now time.Time, room *Room) (State, []Effect) {
	kept := *m.Kept
	s := State{Kept: &kept, Gates: slices.Clone(m.Gates), Restarted: m.Restarted}
	if s.Run.BeganAt.IsZero() { // an older daemon did not keep it
		s.Run.BeganAt = now.Add(-max(0, now.Sub(m.Run.StartedAt)))
	}
	switch state := m.Engine.State; {
	case state.Alive():
		s.Engine.State = runtime.Running
	case state != runtime.Restarting: // an engine that restarts forgets that one
		s.Engine.State = runtime.Exited
	}
	t := room.begin(&s, spec, c, now)
	t.recallCall()
	t.recallProbes(m.ReadinessSucceeded)
	t.changeSpec(nil)
	t.recallHooks()
	return t.end(&s)
}

// recallCall notes that the last daemon ended during a call, whose outcome is unknown.
func (s *State) recallCall() {
	alive := s.Engine.State.Alive()
	switch {
	case s.Action.StopCalls > 0 && s.Action.Stopping != NoCause && alive:
		s.Request.Error = "healthd ended while it stopped the container"
	case s.Action.Call == StartCall && s.Action.Restart != NoCause && !alive:
		s.Request.Error = "healthd ended while it started the container"
	}
	s.Action.Call = NoCall
}

// recallProbes restores the verdicts that the last daemon had acted on or published.
func (t *stepper) recallProbes(readinessSucceeded bool) {
	t.Health = newHealth(t.spec)
	for i := range t.Health.Probes {
		if y := &t.Health.Probes[i]; t.Action.Stopping != NoCause && causeOf(ProbeType(i)) == t.Action.Stopping {
			y.Result, y.OnHold = prober.Failure, t.Action.Refused == 0
		}
	}
	if readinessSucceeded {
		t.Health.Probes[Readiness].Result = prober.Success
	}
}

// recallHooks lets hooks run again that were running when the last daemon ended.
func (s *State) recallHooks() {
	for i, hook := range s.Run.Hooks {
		switch {
		case hook == HookRunning && HookType(i) == PostStart:
			s.Run.Hooks[i] = HookDue
		case hook == HookRunning:
			s.Run.Hooks[i] = HookIdle
		}
	}
}

// Outage is a restart for a failed probe or hook whose container is still down for it.
type Outage struct {
	Run   runtime.Run `json:"run"`   // the run that healthd stops, or has stopped
	Since time.Time   `json:"since"` // time of the decision
}
