package core

import (
	"slices"
	"time"

	"healthd/prober"
	"healthd/runtime"
)

// State is everything that healthd knows about one container, in groups by subject and
// lifetime. Only Step makes the next State.
type State struct {
	*Kept

	Gates []Gate // readiness gates that were set; outlive runs; never changed in place
	// Restarted has the times of recent restarts, for GiveUp: at most as many as it allows; outlives runs;
	// never changed in place.
	Restarted []time.Time
	Health    Health   // what the probes found; new with each run and each daemon
	Request   Request  // this daemon's newest call to the engine
	Checks    Checks   // questions to the engine about the end of the run, and when they are due
	Totals    Totals   // counts over all runs since this daemon first saw the container
	Shutdown  Shutdown // how far healthd's own shutdown is
	// Certificates are of the servers that the probes ask; outlive runs. Most probes see none: nil. Never
	// changed in place.
	Certificates [NumProbes]*Certificate
	Lost         bool // healthd cannot reach the engine
	// EngineRestarted: the engine restarted after the last observation of the container.
	// That may have ended the run.
	EngineRestarted bool
}

// Kept is the part of a State that the journal keeps unchanged. It is comparable with ==. It changes
// seldom: states that follow one another, and the Memory of their container, share one and do not change
// it in place.
type Kept struct {
	Engine     Engine     `json:"engine,omitzero"`     // what the engine said last
	Run        Run        `json:"run,omitzero"`        // the present run, or the last one
	Action     Action     `json:"action,omitzero"`     // the stop or start that is due or under way
	Ending     Ending     `json:"ending,omitzero"`     // evidence of who ended the run
	Conditions Conditions `json:"conditions,omitzero"` // as published; outlive runs
	Lasting    Lasting    `json:"lasting,omitzero"`    // what else outlives runs
}

// NewState returns the state of a container of which nothing is known yet.
func NewState() State { return State{Kept: &Kept{}} }

// Copy returns a copy that may be changed in place.
func (s *State) Copy() State {
	c, kept := *s, *s.Kept
	c.Kept = &kept
	return c
}

// InvalidState returns the state of a container that healthd shows but does not supervise,
// because its labels are wrong. lost says that healthd cannot reach its engine.
func InvalidState(c *runtime.Container, lost bool) State {
	s := State{Kept: &Kept{Engine: Engine{State: c.State}, Run: Run{ID: c.Run(), StartedAt: c.StartedAt}}, Lost: lost}
	if !c.State.Alive() {
		s.Run.Exit = exitOf(c)
	}
	return s
}

// RestartCount returns the number of restarts, by healthd and by the engine's own policy.
func (s *State) RestartCount() int {
	n := 0
	for _, k := range s.Lasting.Restarts {
		n += k
	}
	return n
}

// Draining says that the container still runs, but that healthd, an operator or an engine that
// shuts down is stopping it. It takes no new requests.
func (s *State) Draining() bool {
	return s.Engine.State.Alive() && (s.Action.Stopping != NoCause || s.Ending.Signalled() || s.Ending.MaybeEnded)
}

// pausedBeforeStop says that a stop waits because somebody paused the container. A restart
// that an operator requested does not wait.
func (s *State) pausedBeforeStop() bool {
	return s.Engine.State == runtime.Paused && s.Action.StopCalls == 0 && s.Action.Stopping != ByOperator
}

// Settled says that no stop or start is under way or due.
func (s *State) Settled() bool {
	if s.Engine.State.Alive() {
		return s.Action.Call == NoCall && (s.Action.Stopping == NoCause || s.StopLeft())
	}
	return s.Action.Call == NoCall && (s.Action.Restart == NoCause || s.Shutdown.LeftOver || s.startBlocked())
}

// runs says that the run goes on and is not paused. Of one whose end an event has told, only the inspection is missing:
// nothing that comes meanwhile says anything of it.
func (s *State) runs() bool { return s.Engine.State == runtime.Running && !s.Run.Died }

// containerReady is the rule of readiness without the gates.
func (s *State) containerReady() bool {
	return s.runs() && !s.Engine.NoAddress && s.Conditions.Started.Status && !s.Draining() &&
		s.Health.Probes[Readiness].Result == prober.Success
}

// StopLeft says that healthd shuts down and leaves a stop to the next daemon: because its drain takes too long, and
// labels say how long; or because the engine may have carried it out, and cannot be asked. Forgotten, it would be an
// operator's.
func (s *State) StopLeft() bool {
	switch {
	case s.stopDue():
		return s.Action.Refused == 0 && !s.Shutdown.Until.IsZero() && s.Action.NotBefore.After(s.Shutdown.Until)
	case s.Action.Stopping == NoCause, s.Action.Call != NoCall:
		return false
	}
	return s.Shutdown.Begun && (s.Lost || s.Shutdown.LeftOver)
}

// stopDue says that a stop waits for its first call that the engine allows.
func (s *State) stopDue() bool {
	return s.Action.Stopping != NoCause && s.Action.StopCalls == 0 && s.Action.Call == NoCall
}

// stopPending says that a stop call waits only for Action.NotBefore, the pre_stop hook or
// another call. While others stop the run, healthd repeats no call: its grace period may be shorter.
func (s *State) stopPending() bool {
	return s.Engine.State.Alive() && s.Action.Stopping != NoCause && !s.Lost && !s.pausedBeforeStop() && !s.StopLeft() && !s.Ending.Signalled()
}

// startPending says that a start call waits only for Action.NotBefore or another call.
func (s *State) startPending() bool {
	return !s.Engine.State.Alive() && s.Action.Restart != NoCause && !s.Shutdown.LeftOver && !s.startBlocked() &&
		(!s.Lost || s.Shutdown.Begun)
}

// StopRefused says that the engine has not allowed healthd's stop, and that healthd waits until it tries again: the run
// goes on, and may recover.
func (s *State) StopRefused() bool {
	return s.stopDue() && s.Action.Refused > 0 && !s.Ending.Signalled()
}

// AwaitsDrain says that healthd will stop the container as soon as its drain is over.
// The input ConnectionsDrained ends the drain early.
func (s *State) AwaitsDrain() bool {
	return s.Engine.State.Alive() && s.stopDue() && s.Action.Refused == 0 && s.Run.Hooks[PreStop] == HookIdle
}

// AwaitsWithdrawal says that the drain has not begun, because load balancers may not know yet that the run takes no new
// requests. The input Withdrawn says that they do.
func (s *State) AwaitsWithdrawal() bool { return s.AwaitsDrain() && s.Action.Withdrawn.IsZero() }

// OperatorStopped says that an operator ended the run, and that the container stays
// stopped until somebody starts it.
func (s *State) OperatorStopped() bool {
	return s.Ending.By == EndedByOperator && s.Action.Restart == NoCause
}

// InDoubt says that the engine is away, and has not told whether an operator or its own shutdown stopped the run.
func (s *State) InDoubt() bool {
	return s.Lost && s.Ending.MaybeEngine && s.Action.Restart == NoCause
}

// Stale says that c is older than the state: observations come from several requests to
// the engine, and may overtake one another. asked is when healthd began to ask for c; zero: not known.
func (s *State) Stale(c *runtime.Container, asked time.Time) bool {
	run := c.Run()
	if run == (runtime.Run{}) {
		return s.Run.ID != run
	}
	return run == s.Run.Before || s.Refutes(c) && !asked.After(s.Health.SeenAt)
}

// Refutes says that c shows a run alive that has ended: c is stale, or the engine was wrong about the end.
func (s *State) Refutes(c *runtime.Container) bool {
	return c.Run() == s.Run.ID && c.State.Alive() && !s.Run.Exit.FinishedAt.IsZero()
}

// Gate returns a readiness gate, and false if it was never set.
func (s *State) Gate(name string) (Gate, bool) {
	i := slices.IndexFunc(s.Gates, func(g Gate) bool { return g.Type == name })
	if i < 0 {
		return Gate{}, false
	}
	return s.Gates[i], true
}

// firstUnmetGate returns the first of the spec's gates that is not True, or empty.
func firstUnmetGate(spec *Spec, s *State) string {
	for _, name := range spec.ReadinessGates {
		if g, _ := s.Gate(name); !g.Status {
			return name
		}
	}
	return ""
}

// startBlocked says that a start waits for the end of a hold, or for the container whose
// network it shares, or for ever. A hold does not block the start after healthd's own stop.
func (s *State) startBlocked() bool {
	return (s.Lasting.Held() || s.Action.GaveUp) && s.Action.Restart == ByExit || s.Engine.NetworkAway
}

// postStartPending says that the post_start hook of the run has not succeeded yet. Until
// then the container is not started, and healthd does not probe it.
func (s *State) postStartPending() bool {
	return s.Run.Hooks[PostStart] != HookIdle && s.Run.Hooks[PostStart] != HookDone
}

// postStartDue says that the post_start hook runs as soon as Health.HookAt has come.
func (s *State) postStartDue() bool {
	return s.Run.Hooks[PostStart] == HookDue && s.runs() && !s.Draining() && !s.Lost && !s.Shutdown.Begun
}

// Shutdown is the shutdown of healthd itself.
type Shutdown struct {
	Begun    bool
	Until    time.Time // when it is over; zero: it has no bound
	RunBegan bool      // the run began after that: if it crashes, healthd does not start it again
	LeftOver bool      // healthd leaves a start that is due, or a stop of unknown outcome, to the next daemon
}
