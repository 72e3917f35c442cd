package core

import "time"

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
	stop := s.stopPending() && s.Run.Hooks[PreStop] != HookRunning
	if start := s.startPending() && !s.Request.Queued; s.Action.Call == NoCall && (stop || start) {
		sooner(s.Action.NotBefore)
	}
	sooner(s.EngineGivesUpAt())
	if s.Ending.MaybeEngine && !s.Lost {
		sooner(s.Checks.DialAt)
	}
	if s.Lasting.HeldHere {
		sooner(s.Lasting.HeldHereUntil)
	}
	if s.Engine.State.Alive() && !s.Lost && s.Ending.Signalled() && !s.Ending.ForgetAt.IsZero() {
		sooner(later(s.Ending.ForgetAt, s.Checks.InspectAt))
	}
	if s.Run.Died && s.Engine.State.Alive() && !s.Lost {
		sooner(s.Checks.InspectAt)
	}
	return first
}
