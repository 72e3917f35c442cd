package core

import (
	"slices"
	"time"
)

// hold begins a hold by people on this host that ends at until, or, if until is zero, with a resume. A stop whose
// call was made goes on, and healthd still starts the container again: it must not leave it
// stopped.
func (t *stepper) hold(until time.Time) {
	if t.Lasting.HeldHere && t.Lasting.HeldHereUntil.Equal(until) {
		return
	}
	t.Lasting.HeldHere, t.Lasting.HeldHereUntil = true, until
	t.deferStop()
	if until.IsZero() {
		t.record(EventHeld, "Container %s is held: healthd does not restart it until an operator resumes it", t.c.Name)
		return
	}
	t.record(EventHeld, "Container %s is held: healthd does not restart it for %v", t.c.Name, until.Sub(t.now).Round(time.Second))
}

// holdEnded takes in that people have ended the hold on the container that had taken this one's place.
func (t *stepper) holdEnded() {
	if t.Lasting.HeldHere {
		t.Lasting.HeldHere, t.Lasting.HeldHereUntil = false, time.Time{}
		t.recordHoldEnd("the container that had replaced it was resumed, or not held any more")
	}
}

// deferStop turns a stop in its drain into one that waits for the end of the hold, or for ever if healthd
// comes to only observe the container. The run may recover meanwhile, so its probes go on.
func (t *stepper) deferStop() {
	if t.Action.Stopping == NoCause || t.Action.Stopping == ByOperator || !t.Engine.State.Alive() ||
		t.Action.StopCalls > 0 || t.Run.Hooks[PreStop] == HookRunning {
		return
	}
	if t.Action.Stopping.ByProbe() { // for ByNetwork followNetworkOwner decides again after the hold
		t.Health.Failed = t.Action.Stopping
	}
	t.giveUpStop()
}

// holdByFleet begins, replaces or ends the hold that all hosts have of the container's service. A new one counts also
// where people have ended the one before.
func (t *stepper) holdByFleet(hold string) {
	if t.Lasting.FleetHold == hold {
		return
	}
	was := t.Lasting.HeldByFleet()
	t.Lasting.FleetHold, t.Lasting.FleetHoldOver = hold, false
	switch is := t.Lasting.HeldByFleet(); {
	case is && !was:
		t.deferStop()
		t.record(EventHeld, "Container %s is held on all hosts: healthd does not restart it until that hold ends", t.c.Name)
	case was && !is:
		t.recordHoldEnd("the hold on all hosts is over")
	}
}

// recordHoldEnd records that one holder's hold is over.
func (t *stepper) recordHoldEnd(why string) {
	switch {
	case t.Lasting.HeldHere:
		t.record(EventHeld, "Container %s is still held on this host: only %s", t.c.Name, why)
	case t.Lasting.HeldByFleet():
		t.record(EventHeld, "Container %s is still held on all hosts: only %s", t.c.Name, why)
	default:
		t.record(EventResumed, "Container %s is no longer held: %s", t.c.Name, why)
	}
}

// resumeRequested ends all holds, and a GiveUp.
func (t *stepper) resumeRequested() {
	held := t.Lasting.Held()
	t.Lasting.HeldHere, t.Lasting.HeldHereUntil, t.Lasting.FleetHoldOver = false, time.Time{}, t.Lasting.FleetHold != ""
	if held {
		t.recordHoldEnd("an operator resumed it")
	}
	if t.Action.GaveUp {
		t.takeUp()
		t.record(EventResumed, "Container %s is no longer given up: an operator resumed it", t.c.Name)
	}
}

// endHold ends a hold of people whose time is over.
func (t *stepper) endHold() {
	if t.Lasting.HeldHere && !t.Lasting.HeldHereUntil.IsZero() && !t.now.Before(t.Lasting.HeldHereUntil) {
		t.Lasting.HeldHere, t.Lasting.HeldHereUntil = false, time.Time{}
		t.recordHoldEnd("the time of the hold is over")
	}
}

// setGate sets a readiness gate. States share the list, so setGate copies it.
func (t *stepper) setGate(name string, status bool) {
	old, ok := t.Gate(name)
	if ok && old.Status == status {
		return
	}
	gates := slices.DeleteFunc(slices.Clone(t.Gates), func(g Gate) bool { return g.Type == name })
	t.Gates = append(gates, Gate{Type: name, Status: status, At: t.now})
}

// requestRestart begins the restart that an operator requested. The request overrules
// earlier stop signals of others, and a stop under way is followed by a start.
func (t *stepper) requestRestart() {
	if t.Action.GaveUp {
		t.takeUp()
	}
	switch {
	case t.Action.Call == StartCall:
		return
	case t.Engine.State.Alive() && t.Action.Stopping != NoCause:
		t.Ending.Overruled = t.Ending.Overruled || !t.Ending.First.IsZero()
		t.Action.Stopping, t.Ending.First = ByOperator, time.Time{}
	case t.Engine.State.Alive():
		t.Ending.Overruled = t.Ending.Overruled || !t.Ending.First.IsZero()
		t.Ending.First = time.Time{}
		t.record(EventKilling, "Container %s will be restarted: an operator asked healthd to", t.c.Name)
		t.stop(ByOperator)
	default:
		t.Action.Restart, t.Action.NotBefore = ByOperator, t.now
	}
}
