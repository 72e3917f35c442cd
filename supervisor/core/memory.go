package core

import (
	"slices"
	"time"

	"healthd/prober"
	"healthd/runtime"
)

// Memory is what must be known again of a container when the daemon comes back,
// however it ended. The journal keeps its JSON form.
type Memory struct {
	Facts
	Gates   []Gate      `json:"gates,omitempty"`   // never changed in place
	Granted []time.Time `json:"granted,omitempty"` // restarts that probes asked for, lately; never changed in place; they change with Facts
}

// Facts is a Memory but for its lists, so that it can be compared.
type Facts struct {
	ID       string `json:"id"`
	Name     string `json:"name"`
	Runtime  string `json:"runtime"`
	Identity string `json:"identity"`
	// Image is, with Engine.Resources, what the container is made of: the back-off is
	// not for one of the same identity that is made of something else.
	Image string    `json:"image,omitempty"`
	Gone  time.Time `json:"gone,omitzero"`  // when it was removed
	Left  bool      `json:"left,omitempty"` // a reload has dropped it: the rest is as of then
	Kept
	ReadinessSucceeded bool   `json:"readinessSucceeded,omitempty"` // the readiness probe's verdict
	Down               Outage `json:"down,omitzero"`
}

// Remember returns what is kept of a container in that state.
func Remember(c *runtime.Container, identity string, s *State) Facts {
	return Facts{
		ID: c.ID, Name: c.Name, Runtime: c.Runtime, Identity: identity, Image: imageOf(c),
		Kept: s.Kept, ReadinessSucceeded: s.Health.Probes[Readiness].Result == prober.Success,
	}
}

// MadeOf says whether the container that is remembered was made of the same as c.
// Where it was not, back-off begins afresh: what it failed for may be mended.
// (kubelet GetBackoffKey)
func (m *Memory) MadeOf(c *runtime.Container) bool {
	return m.Image == imageOf(c) && m.Engine.Resources == c.Resources
}

func imageOf(c *runtime.Container) string {
	if c.ImageID != "" {
		return c.ImageID
	}
	return c.Image
}

// State returns the state of a container that an earlier daemon knew, as if no time had
// gone by: what the engine says next is then taken in as ever. Probes begin afresh,
// but readiness and started hold until they give a first verdict. (kubelet since 1.35)
func (m *Memory) State(spec *Spec, now time.Time) State {
	s := State{Kept: m.Kept, Gates: slices.Clone(m.Gates)}
	s.Health.BeganAt = now.Add(-max(0, now.Sub(m.Run.StartedAt)))
	s.Engine.State = runtime.Exited
	if m.Engine.State.Alive() {
		s.Engine.State = runtime.Running
	}
	// Should the clock have been set back meanwhile, nothing waits longer for that.
	s.Action.NotBefore = earlier(m.Action.NotBefore, now.Add(max(m.Lasting.Backoff.Delay, spec.Publish.Drain, callRetryPause)))
	s.Ending.ForgetAt = earlier(m.Ending.ForgetAt, now.Add(max(m.Action.Grace, DefaultGrace)+10*time.Second))
	s.recallCall()
	s.recallProbes(spec, m.ReadinessSucceeded)
	s.recallHooks(spec)
	return s
}

// recallCall notes that a call was cut short by the end of the daemon before: nobody
// knows what came of it.
func (s *State) recallCall() {
	alive := s.Engine.State.Alive()
	switch {
	case s.Action.StopCalls > 0 && s.Action.Stopping != NoCause && alive:
		s.Request.Error = "the stop was interrupted by the end of healthd"
	case s.Action.Call == StartCall && s.Action.Restart != NoCause && !alive:
		s.Request.Error = "the start was interrupted by the end of healthd"
	}
	s.Action.Call = NoCall
}

// recallProbes lets verdicts hold that the daemon before has acted on or published.
func (s *State) recallProbes(spec *Spec, readinessSucceeded bool) {
	for i := range s.Health.Probes {
		y, probe := &s.Health.Probes[i], ProbeType(i)
		y.Result = firstResult(spec.Probes[i], probe)
		if causeOf(probe) == s.Action.Stopping && probe != Readiness {
			y.Result, y.OnHold = prober.Failure, true
		}
	}
	if s.Conditions.Started.Status && spec.Probes[Startup] != nil {
		y := &s.Health.Probes[Startup]
		y.Result, y.OnHold = prober.Success, true
	}
	if readinessSucceeded {
		s.Health.Probes[Readiness].Result = prober.Success
	}
}

// recallHooks lets hooks run once more that were cut short.
func (s *State) recallHooks(spec *Spec) {
	for i, hook := range s.Run.Hooks {
		switch {
		case hook == HookRunning && HookType(i) == PostStart:
			s.Run.Hooks[i] = HookDue
		case hook == HookRunning:
			s.Run.Hooks[i] = HookIdle
		}
	}
	if spec.Lifecycle.PostStart == nil && s.postStartPending() {
		s.Run.Hooks[PostStart], s.Conditions.Started.Status = HookIdle, spec.Probes[Startup] == nil
	}
}

// Outage is a restart that a probe or hook asked for, while its container is down for
// that.
type Outage struct {
	Run   runtime.Run `json:"run"`   // which is to be stopped, or was
	Since time.Time   `json:"since"` // the decision
}
