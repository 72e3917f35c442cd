package core

// setReadiness sets the conditions ContainerReady and Ready, which follow from everything
// else.
func (t *stepper) setReadiness() {
	lost, published := t.Engine.Addressed && t.c.Address == "", t.spec.Publish.Port != 0 || t.spec.Publish.HAProxy.Backend != ""
	t.Engine.NoAddress = t.c.State.Alive() && (lost || published && t.address() == "")
	ready := t.containerReady()
	t.Conditions.ContainerReady.set(ready, t.now)
	ready = ready && firstUnmetGate(t.spec, &t.State) == ""
	if ready == t.Conditions.Ready.Status {
		return
	}
	t.Conditions.Ready.set(ready, t.now)
	if ready {
		t.record(EventReady, "Container %s is ready", t.c.Name)
		return
	}
	v := View{Container: t.c, Spec: t.spec, State: t.State}
	_, reason, message := v.Readiness()
	if message != "" {
		message = ": " + message
	}
	t.record(EventNotReady, "Container %s is not ready: %s%s", t.c.Name, reason, message)
}

func (t *stepper) address() string {
	address, _, _ := t.spec.Publish.Local(t.c)
	return address
}

func (t *stepper) setStarted(started bool) { t.Conditions.Started.set(started, t.now) }

// beginConditions sets Started to False, or to True if the spec has neither a startup probe
// nor a post_start hook. setReadiness sets the other conditions at the end of the step.
func (t *stepper) beginConditions(before *State) {
	started := Condition{Status: t.spec.Probes[Startup] == nil && !t.postStartPending(), Since: t.now}
	if v := (View{State: *before}); !started.Status && !before.Conditions.Started.Since.IsZero() { // not started since the end of the previous run, or longer
		_, started.Since = v.Started()
	}
	t.Conditions.Started = started
	if t.Conditions.Ready.Since.IsZero() {
		t.Conditions.Ready.Since, t.Conditions.ContainerReady.Since = t.now, t.now
	}
}
