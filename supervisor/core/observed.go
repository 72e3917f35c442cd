package core

import (
	"time"

	"healthd/prober"
	"healthd/runtime"
)

// observed applies an inspection of the container.
func (t *stepper) observed(in *Input) {
	withEngine, unwatched := t.EngineRestarted && (t.Engine.State.Alive() || t.Action.Restart != NoCause), in.Unwatched
	if t.EngineRestarted && in.Life.EndedSince(t.c) {
		withEngine, unwatched = false, true
	}
	t.EngineRestarted, t.Ending.MaybeEnded = false, false
	if run := t.c.Run(); run != t.Run.ID && run != (runtime.Run{}) {
		t.beginRun(run, in.Unwatched)
		t.Ending.NeverSeen = in.Unwatched && !t.c.State.Alive()
	}
	if t.Refutes(t.c) {
		t.resumeRun()
	}
	t.Engine.State, t.Run.Died = t.c.State, false
	t.lookWhetherLeftDown()
	t.Engine.NetworkAway = t.c.NetworkOwner != "" && t.c.NetworkOwnerStartedAt.IsZero()
	if !t.Engine.NetworkAway {
		t.Engine.NetworkStartedAt = t.c.NetworkOwnerStartedAt
	}
	t.Health.SeenAt = t.now
	if t.Engine.State.Alive() {
		t.Health.AliveAt = t.now
		t.Engine.Addressed = t.Engine.Addressed || t.c.Address != ""
		if t.Ending.Signalled() && t.Ending.ForgetAt.IsZero() { // the news of an end has taken that back, which was not this run's
			t.awaitEnd()
		}
	}
	t.checkResources()
	if !t.Engine.State.Alive() && (!in.Unwatched || t.Run.ID == runtime.Run{}) {
		t.failProbes()
	}
	if !t.Engine.State.Alive() && t.Run.ID != (runtime.Run{}) && t.Run.Exit.FinishedAt.IsZero() {
		t.endRun(unwatched, withEngine)
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
	case !t.runs(), t.Action.Stopping != NoCause, !t.Ending.First.IsZero(), t.Action.Call != NoCall, t.Lost, t.Lasting.Held(), t.Shutdown.Begun:
	case t.c.AutoRemove, t.spec.RestartPolicy == Never:
	case t.networkChanged() && t.spec.Observe:
		if !t.Health.NetworkTold {
			t.Health.NetworkTold = true
			t.record(EventWouldRestart, "Container %s would be restarted: it shares the network of container %s, which has a new run. healthd only observes it",
				t.c.Name, short(t.c.NetworkOwner))
		}
	case t.networkChanged():
		t.record(EventKilling, "Container %s will be restarted: it shares the network of container %s, which has a new run", t.c.Name, short(t.c.NetworkOwner))
		t.stop(ByNetwork)
	}
}

// networkChanged says that the container whose network this one shares has a newer run than
// the one that this run's network belongs to.
func (t *stepper) networkChanged() bool {
	owner, mine := t.c.NetworkOwnerStartedAt, t.Run.Network
	if !mine.Known {
		return owner.After(t.Run.StartedAt)
	}
	return !owner.IsZero() && !owner.Equal(mine.StartedAt)
}

// sharedNetwork returns the network that a run shares which healthd observes for the first
// time. If healthd knew the other container's run before, the network is that run's. Else both
// runs are new to healthd, and the engine's times tell which began first.
func (t *stepper) sharedNetwork(known time.Time) Network {
	owner := t.c.NetworkOwnerStartedAt
	if owner.Equal(known) || !owner.After(t.c.StartedAt) {
		return Network{Known: true, StartedAt: owner}
	}
	return Network{Known: true}
}

func short(id string) string { return id[:min(12, len(id))] }
