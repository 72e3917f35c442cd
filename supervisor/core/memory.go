package core

import (
	"slices"
	"time"

	"healthd/prober"
	"healthd/runtime"
)

// Memory is what must be known again of a container when the daemon comes back,
// however it ended. It is written to the journal by its JSON form.
type Memory struct {
	Facts
	Gates   []Gate      `json:"gates,omitempty"`   // never changed in place
	Granted []time.Time `json:"granted,omitempty"` // nor these; they change with Facts
}

// Facts is a Memory but for its lists, so that it can be compared.
type Facts struct {
	ID       string `json:"id"`
	Name     string `json:"name"`
	Runtime  string `json:"runtime"`
	Identity string `json:"identity"`
	// Image and Resources are what the container is made of: the back-off is not for
	// one of the same identity that is made of something else.
	Image     string    `json:"image,omitempty"`
	Resources string    `json:"resources,omitempty"`
	Gone      time.Time `json:"gone,omitzero"`  // when it was removed
	Left      bool      `json:"left,omitempty"` // a reload has dropped it: the rest is as of then

	Run       runtime.Run         `json:"run"` // the newest
	RunBefore runtime.Run         `json:"runBefore,omitzero"`
	StartedAt time.Time           `json:"startedAt,omitzero"`
	Alive     bool                `json:"alive,omitempty"`
	Started   bool                `json:"started,omitempty"`
	StartedCh time.Time           `json:"startedChanged,omitzero"`
	Able      bool                `json:"able,omitempty"` // the readiness probe's verdict was Success
	Ready     bool                `json:"ready,omitempty"`
	ReadyCh   time.Time           `json:"readyChanged,omitzero"`
	Hooks     [numHooks]HookState `json:"hooks"`
	Exit      Exit                `json:"exit,omitzero"`     // end of Run, if it has ended
	LastExit  Exit                `json:"lastExit,omitzero"` // end of the run before

	Stopping  Cause         `json:"stopping,omitempty"` // why healthd stops, or has stopped, Run
	StopCalls int           `json:"stopCalls,omitempty"`
	OwnKills  int           `json:"ownKills,omitempty"`
	KillDue   time.Time     `json:"killDue,omitzero"`
	Grace     time.Duration `json:"grace,omitempty"`
	Restart   Cause         `json:"restart,omitempty"`  // Run has ended, and a start is due
	Starting  bool          `json:"starting,omitempty"` // or under way
	NotBefore time.Time     `json:"notBefore,omitzero"`

	KilledAt        time.Time `json:"killedAt,omitzero"`
	KilledLast      time.Time `json:"killedLast,omitzero"`
	KillForgotten   time.Time `json:"killForgotten,omitzero"`
	Survived        bool      `json:"survived,omitempty"`
	OperatorStopped bool      `json:"operatorStopped,omitempty"`
	Doubtful        bool      `json:"doubtful,omitempty"`
	Died            bool      `json:"died,omitempty"` // an event told the end of Run, and no inspection yet

	Backoff   BackoffState       `json:"backoff,omitzero"`
	Restarts  [numberOfCause]int `json:"restarts"`
	Held      bool               `json:"held,omitempty"`
	HeldUntil time.Time          `json:"heldUntil,omitzero"`
	Down      Outage             `json:"down,omitzero"`
}

// remembered is what is kept of a container in that state.
func Remember(c *runtime.Container, identity string, s *State) Facts {
	return Facts{
		ID: c.ID, Name: c.Name, Runtime: c.Runtime, Identity: identity, Image: imageOf(c),
		Resources: s.Resources, Run: s.Run, RunBefore: s.RunBefore, StartedAt: s.StartedAt, Alive: s.Engine.Alive(),
		Started: s.Started, StartedCh: s.StartedCh, Able: s.Tallies[Readiness].Result == prober.Success,
		Ready: s.Ready, ReadyCh: s.ReadyCh, Hooks: s.Hooks, Exit: s.Exit, LastExit: s.LastExit,
		Stopping: s.Stopping, StopCalls: s.StopCalls, OwnKills: s.OwnKills, KillDue: s.KillDue, Grace: s.Grace,
		Restart: s.Restart, NotBefore: s.NotBefore, Starting: s.Call == StartCall,
		KilledAt: s.KilledAt, KilledLast: s.KilledLast, KillForgotten: s.KillForgotten, Survived: s.Survived, OperatorStopped: s.OperatorStopped,
		Backoff: s.Backoff, Restarts: s.Restarts, Held: s.Held, HeldUntil: s.HeldUntil, Doubtful: s.Doubtful,
		Died: s.Died,
	}
}

// madeOf says whether the container that is remembered was made of the same as c.
// Where it was not, back-off begins afresh: what it failed for may be mended.
// (kubelet GetBackoffKey)
func (m *Memory) MadeOf(c *runtime.Container) bool {
	return m.Image == imageOf(c) && m.Resources == c.Resources
}

func imageOf(c *runtime.Container) string {
	if c.ImageID != "" {
		return c.ImageID
	}
	return c.Image
}

// recalled is the state of a container that an earlier daemon knew, as if no time had
// gone by: what the engine says next is then taken in as ever. Probes begin afresh,
// but readiness and started hold until they give a first verdict. (kubelet since 1.35)
func (m *Memory) State(spec *Spec, now time.Time) State {
	s := State{
		Engine: runtime.Exited, Run: m.Run, RunBefore: m.RunBefore, StartedAt: m.StartedAt,
		BeganAt: now.Add(-max(0, now.Sub(m.StartedAt))), Exit: m.Exit, LastExit: m.LastExit,
		Started: m.Started, StartedCh: m.StartedCh, ContainerReady: m.Ready, ContainerReadyCh: m.ReadyCh,
		Ready: m.Ready, ReadyCh: m.ReadyCh, Resources: m.Resources, Hooks: m.Hooks, Grace: m.Grace,
		Stopping: m.Stopping, StopCalls: m.StopCalls, OwnKills: m.OwnKills, KillDue: m.KillDue,
		Restart: m.Restart, NotBefore: m.NotBefore,
		KilledAt: m.KilledAt, KilledLast: m.KilledLast, KillForgotten: m.KillForgotten, Survived: m.Survived, OperatorStopped: m.OperatorStopped,
		Backoff: m.Backoff, Restarts: m.Restarts, Gates: slices.Clone(m.Gates), Held: m.Held, HeldUntil: m.HeldUntil,
		Doubtful: m.Doubtful, Died: m.Died,
	}
	if m.Alive {
		s.Engine = runtime.Running
	}
	// Should the clock have been set back meanwhile, nothing waits longer for that.
	s.NotBefore = earlier(m.NotBefore, now.Add(max(m.Backoff.Delay, spec.Publish.Drain, callRetry)))
	s.KillForgotten = earlier(m.KillForgotten, now.Add(max(m.Grace, DefaultGrace)+10*time.Second))
	switch {
	case m.StopCalls > 0 && m.Stopping != NoCause && m.Alive:
		s.CallError = "the stop was interrupted by the end of healthd"
	case m.Starting && m.Restart != NoCause && !m.Alive:
		s.CallError = "the start was interrupted by the end of healthd"
	}
	for i := range s.Tallies {
		s.Tallies[i].reset(spec.Probes[i], ProbeType(i))
		if causeOf(ProbeType(i)) == m.Stopping && ProbeType(i) != Readiness {
			s.Tallies[i].Result, s.Tallies[i].OnHold = prober.Failure, true
		}
	}
	if y := &s.Tallies[Startup]; m.Started && spec.Probes[Startup] != nil {
		y.Result, y.OnHold = prober.Success, true
	}
	if m.Able {
		s.Tallies[Readiness].Result = prober.Success
	}
	for i, hook := range s.Hooks { // cut short by the end of healthd: once more
		switch {
		case hook == HookRunning && HookType(i) == PostStart:
			s.Hooks[i] = HookDue
		case hook == HookRunning:
			s.Hooks[i] = HookIdle
		}
	}
	if spec.Lifecycle.PostStart == nil && s.starting() {
		s.Hooks[PostStart], s.Started = HookIdle, spec.Probes[Startup] == nil
	}
	return s
}

// Outage is a restart that a probe or hook asked for, while its container is down for
// that.
type Outage struct {
	Run   runtime.Run `json:"run"`   // which is to be stopped, or was
	Since time.Time   `json:"since"` // the decision
}
