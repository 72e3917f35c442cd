package core

import (
	"hash/fnv"
	"time"

	"healthd/runtime"
)

// shouldProbe says whether a probe should run in the present state. The startup probe
// gates the others; a stop under way leaves readiness alone running, as in the
// kubelet.
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

// scheduleProbes arms the probes that should run and are not armed, and disarms the others.
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

// spread is the share of the period by which a probe of a container that already
// ran when the daemon came, or when its spec changed, is put off, so that they do not all come at once, and
// at the same place each time.
func (t *stepper) spread(probe ProbeType) time.Duration {
	h := fnv.New64a()
	h.Write([]byte(t.c.Name))
	h.Write([]byte{byte(probe)})
	return time.Duration(h.Sum64() % uint64(t.spec.Probes[probe].Period))
}

// runProbes starts the probes that are due.
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

// NextTick returns when the state needs its next tick; zero when it needs none.
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
	alive := s.Engine.State.Alive()
	if s.Action.Call == NoCall && (alive && s.Action.Stopping != NoCause && !s.Lost && !s.pausedBeforeStop() && s.Run.Hooks[PreStop] != HookRunning ||
		!alive && s.Action.Restart != NoCause && !s.Shutdown.LeftOver && !s.startBlocked() && (!s.Lost || s.Shutdown.Begun)) {
		sooner(s.Action.NotBefore)
	}
	if s.Ending.MaybeEngine && !s.Lost {
		sooner(s.Checks.DialAt)
	}
	if s.Lasting.Held {
		sooner(s.Lasting.HeldUntil)
	}
	if alive && !s.Lost && !s.Ending.First.IsZero() && !s.Ending.ForgetAt.IsZero() {
		sooner(later(s.Ending.ForgetAt, s.Checks.InspectAt))
	}
	return first
}
