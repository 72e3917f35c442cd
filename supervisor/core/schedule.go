package core

import (
	"hash/fnv"
	"time"

	"healthd/runtime"
)

// shouldProbe says whether a probe runs in the present state. Liveness and readiness wait
// for the startup probe. During a stop only readiness goes on. (kubelet prober worker)
func (t *stepper) shouldProbe(probe ProbeType) bool {
	switch {
	case t.spec.Probes[probe] == nil, t.Engine.State != runtime.Running, t.Health.Probes[probe].OnHold, t.Shutdown.Begun, t.postStartPending():
		return false
	case probe == Startup:
		return !t.Conditions.Started.Status && !t.Draining()
	case probe == Liveness:
		return t.Conditions.Started.Status && !t.Draining()
	}
	return t.Conditions.Started.Status
}

// scheduleProbes schedules the probes that should run, and cancels the others.
func (t *stepper) scheduleProbes(in *Input) {
	for i := range t.Health.Probes {
		y, probe := &t.Health.Probes[i], ProbeType(i)
		switch {
		case !t.shouldProbe(probe):
			y.Due = time.Time{}
		case y.Due.IsZero() && !y.Running:
			y.Due = later(t.now, t.Health.BeganAt.Add(t.spec.Probes[i].InitialDelay))
			if in.First || in.Kind == SpecChanged {
				y.Due = later(y.Due, t.now.Add(t.spread(probe)))
			}
		}
	}
}

// spread returns the delay of the first probe of a container that was already running when
// the daemon started or its spec changed: between 0 and one period, so that the probes of
// many containers do not come at once. It is the same each time.
func (t *stepper) spread(probe ProbeType) time.Duration {
	h := fnv.New64a()
	h.Write([]byte(t.c.Name))
	h.Write([]byte{byte(probe)})
	return time.Duration(h.Sum64() % uint64(t.spec.Probes[probe].Period))
}

func (t *stepper) runProbes() {
	for i := range t.Health.Probes {
		y := &t.Health.Probes[i]
		if y.Due.IsZero() || y.Running || t.now.Before(y.Due) {
			continue
		}
		y.Running = true
		t.fx = append(t.fx, Effect{Kind: RunProbe, Probe: ProbeType(i), Late: t.now.Sub(later(y.Due, y.LastAt))})
	}
}

// NextTick returns the time at which Step needs the input Tick; zero: it needs none.
func NextTick(s *State) time.Time {
	var first time.Time
	sooner := func(at time.Time) {
		if !at.IsZero() && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	for i := range s.Health.Probes {
		if !s.Health.Probes[i].Running {
			sooner(s.Health.Probes[i].Due)
		}
	}
	if s.postStartDue() {
		sooner(s.Health.HookAt)
	}
	if s.Action.Call == NoCall && (s.stopPending() && s.Run.Hooks[PreStop] != HookRunning || s.startPending()) {
		sooner(s.Action.NotBefore)
	}
	if s.Ending.MaybeEngine && !s.Lost {
		sooner(s.Checks.DialAt)
	}
	if s.Lasting.Held {
		sooner(s.Lasting.HeldUntil)
	}
	if s.Engine.State.Alive() && !s.Lost && s.Ending.Signalled() && !s.Ending.ForgetAt.IsZero() {
		sooner(later(s.Ending.ForgetAt, s.Checks.InspectAt))
	}
	return first
}
