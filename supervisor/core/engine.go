package core

import (
	"healthd/prober"
	"healthd/runtime"
)

// Engine is what the engine last said about the container.
type Engine struct {
	State       runtime.State `json:"state,omitempty"`
	Resources   string        `json:"resources,omitempty"`   // limits, for comparison only
	NetworkAway bool          `json:"networkAway,omitempty"` // the container whose network it shares does not run
	NetworkLost bool          `json:"networkLost,omitempty"` // the container whose network it shares is gone
}

// Stale says that c is older than the state: observations come from several requests to
// the engine, and may overtake one another.
func (s *State) Stale(c *runtime.Container) bool {
	run := c.Run()
	if run == (runtime.Run{}) {
		return s.Run.ID != run
	}
	return run == s.Run.Before || run == s.Run.ID && c.State.Alive() && !s.Run.Exit.FinishedAt.IsZero()
}

// observed applies an inspection of the container.
func (t *stepper) observed(in *Input) {
	withEngine := t.EngineRestarted && (t.Engine.State.Alive() || t.Action.Restart != NoCause)
	t.EngineRestarted = false
	if run := t.c.Run(); run != t.Run.ID && run != (runtime.Run{}) {
		t.beginRun(run, in.Unwatched)
	}
	t.Engine.State, t.Run.Died = t.c.State, false
	t.Engine.NetworkAway = t.c.NetworkOwner != "" && t.c.NetworkOwnerStartedAt.IsZero()
	t.checkResources()
	if !t.Engine.State.Alive() && (!in.Unwatched || t.Run.ID == runtime.Run{}) {
		t.failProbes()
	}
	if !t.Engine.State.Alive() && t.Run.ID != (runtime.Run{}) && t.Run.Exit.FinishedAt.IsZero() {
		t.endRun(in.Unwatched, withEngine)
	}
}

// checkResources resets the back-off when the container's resource limits change: that
// may have removed the cause of the failure. (kubelet GetBackoffKey)
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

// failProbes sets the verdict of every probe to Failure when the container does not run.
// (kubelet prober worker)
func (t *stepper) failProbes() {
	for i := range t.Health.Probes {
		if t.spec.Probes[i] != nil {
			t.Health.Probes[i].Result = prober.Failure
		}
	}
}

// followNetworkOwner restarts a container that shares the network of another one, when
// that other one has a new run. The new run has a new network, and this container keeps
// the old one until it is restarted.
func (t *stepper) followNetworkOwner() {
	if t.c.NetworkOwner == "" || !t.Engine.State.Alive() {
		return
	}
	gone := t.c.NetworkOwnerGone
	if gone && !t.Engine.NetworkLost {
		t.record(EventNetworkLost, "Container %s shares the network of container %s, which is gone: re-create container %[1]s", t.c.Name, short(t.c.NetworkOwner))
	}
	t.Engine.NetworkLost = gone
	switch {
	case t.Engine.State == runtime.Paused, t.Action.Stopping != NoCause, !t.Ending.First.IsZero(), t.Action.Call != NoCall, t.Lost, t.Lasting.Held, t.Shutdown.Begun:
	case t.c.AutoRemove, t.spec.RestartPolicy == Never:
	case t.c.NetworkOwnerStartedAt.After(t.Run.StartedAt):
		t.record(EventKilling, "Container %s will be restarted: it shares the network of container %s, which has a new run", t.c.Name, short(t.c.NetworkOwner))
		t.stop(ByNetwork)
	}
}

func short(id string) string { return id[:min(12, len(id))] }
