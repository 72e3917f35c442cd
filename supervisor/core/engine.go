package core

import (
	"healthd/prober"
	"healthd/runtime"
)

// Engine is what the engine said last of the container.
type Engine struct {
	State       runtime.State `json:"state,omitempty"`
	Resources   string        `json:"resources,omitempty"`   // limits, only to be compared
	NetworkAway bool          `json:"networkAway,omitempty"` // the container whose network it shares does not run
	NetworkLost bool          `json:"networkLost,omitempty"` // or is gone
}

// observed takes in what the engine says the container is now.
func (t *stepper) observed(in *Input) {
	withEngine := t.EngineRestarted && (t.Engine.State.Alive() || t.Action.Restart != NoCause)
	t.EngineRestarted = false
	if run := t.c.Run(); run != t.Run.ID && run != (runtime.Run{}) {
		t.begin(run, in.Unwatched)
	}
	t.Engine.State, t.Run.Died = t.c.State, false
	t.Engine.NetworkAway = t.c.NetworkOwner != "" && t.c.NetworkOwnerStartedAt.IsZero()
	t.checkResources()
	if !t.Engine.State.Alive() && (!in.Unwatched || t.Run.ID == runtime.Run{}) {
		t.failProbes()
	}
	if !t.Engine.State.Alive() && t.Run.ID != (runtime.Run{}) && t.Run.Exit.FinishedAt.IsZero() {
		t.end(in.Unwatched, withEngine)
	}
}

// checkResources forgets the back-off when somebody gave the container other
// resources: what it failed for may be mended. (kubelet GetBackoffKey)
func (t *stepper) checkResources() {
	changed := t.Engine.Resources != t.c.Resources
	t.Engine.Resources = t.c.Resources
	if !changed || t.Run.ID == (runtime.Run{}) || !t.Lasting.Backoff.Active {
		return
	}
	t.Lasting.Backoff = BackoffState{}
	if t.Action.Restart != NoCause && t.Request.Error == "" {
		t.Action.NotBefore = t.now
	}
}

// failProbes makes every probe of a container that does not run a Failure, as the
// kubelet does.
func (t *stepper) failProbes() {
	for i := range t.Health.Probes {
		if t.spec.Probes[i] != nil {
			t.Health.Probes[i].Result = prober.Failure
		}
	}
}

// Stale says that c was inspected before what is known already: observations come
// from several requests to the engine, and may overtake one another.
func (s *State) Stale(c *runtime.Container) bool {
	run := c.Run()
	if run == (runtime.Run{}) {
		return s.Run.ID != run
	}
	return run == s.Run.Before || run == s.Run.ID && c.State.Alive() && !s.Run.Exit.FinishedAt.IsZero()
}

// followNetworkOwner takes care of a container that uses the network of another one: a new
// run of that one has a new network, of which this one sees nothing before it is
// restarted, too.
func (t *stepper) followNetworkOwner() {
	if t.c.NetworkOwner == "" || !t.Engine.State.Alive() {
		return
	}
	gone := t.c.NetworkOwnerGone
	if gone && !t.Engine.NetworkLost {
		t.record(EventNetworkLost, "Container %s shares the network of container %s, which is gone for good: it has to be created anew", t.c.Name, short(t.c.NetworkOwner))
	}
	t.Engine.NetworkLost = gone
	switch {
	case t.Engine.State == runtime.Paused, t.Action.Stopping != NoCause, !t.Ending.First.IsZero(), t.Action.Call != NoCall, t.Lost, t.Lasting.Held, t.Shutdown.Begun:
	case t.c.AutoRemove, t.spec.RestartPolicy == Never:
	case t.c.NetworkOwnerStartedAt.After(t.Run.StartedAt):
		t.record(EventKilling, "Container %s shares the network of container %s, which has a new run, and will be restarted", t.c.Name, short(t.c.NetworkOwner))
		t.stop(ByNetwork)
	}
}

func short(id string) string { return id[:min(12, len(id))] }
