package core

import (
	"healthd/prober"
	"healthd/runtime"
)

// State is everything that healthd knows about one container, in groups by subject and
// lifetime. Only Step makes the next State.
type State struct {
	Kept

	Gates    []Gate   // readiness gates that were set; outlive runs; never changed in place
	Health   Health   // what the probes found; new with each run and each daemon
	Request  Request  // this daemon's newest call to the engine
	Checks   Checks   // questions to the engine about the end of the run, and when they are due
	Totals   Totals   // counts over all runs since this daemon first saw the container
	Shutdown Shutdown // how far healthd's own shutdown is
	Lost     bool     // healthd cannot reach the engine
	// EngineRestarted: the engine restarted after the last observation of the container.
	// That may have ended the run.
	EngineRestarted bool
}

// Kept is the part of a State that the journal keeps unchanged. It is comparable with ==.
type Kept struct {
	Engine     Engine     `json:"engine,omitzero"`     // what the engine said last
	Run        Run        `json:"run,omitzero"`        // the present run, or the last one
	Action     Action     `json:"action,omitzero"`     // the stop or start that is due or under way
	Ending     Ending     `json:"ending,omitzero"`     // evidence of who ended the run
	Conditions Conditions `json:"conditions,omitzero"` // as published; outlive runs
	Lasting    Lasting    `json:"lasting,omitzero"`    // what else outlives runs
}

// InvalidState returns the state of a container that healthd shows but does not supervise,
// because its labels are wrong. lost says that healthd cannot reach its engine.
func InvalidState(c *runtime.Container, lost bool) State {
	s := State{Kept: Kept{Engine: Engine{State: c.State}, Run: Run{ID: c.Run(), StartedAt: c.StartedAt}}, Lost: lost}
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

// Draining says that the container still runs, but healthd or an operator is stopping it.
// It takes no new requests.
func (s *State) Draining() bool {
	return s.Engine.State.Alive() && (s.Action.Stopping != NoCause || !s.Ending.First.IsZero())
}

// pausedBeforeStop says that a stop waits because somebody paused the container. A restart
// that an operator requested does not wait.
func (s *State) pausedBeforeStop() bool {
	return s.Engine.State == runtime.Paused && s.Action.StopCalls == 0 && s.Action.Stopping != ByOperator
}

// Settled says that no stop or start is under way or due.
func (s *State) Settled() bool {
	if s.Engine.State.Alive() {
		return s.Action.Call == NoCall && s.Action.Stopping == NoCause
	}
	return s.Action.Call == NoCall && (s.Action.Restart == NoCause || s.Shutdown.LeftOver || s.startBlocked())
}

// containerReady is the rule of readiness without the gates.
func (s *State) containerReady() bool {
	return s.Engine.State == runtime.Running && !s.Run.Died && s.Conditions.Started.Status && !s.Draining() &&
		s.Health.Probes[Readiness].Result == prober.Success
}
