package core

import "healthd/runtime"

// sharesNetwork takes care of a container that uses the network of another one: a new
// run of that one has a new network, of which this one sees nothing before it is
// restarted, too.
func (t *stepper) sharesNetwork() {
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
