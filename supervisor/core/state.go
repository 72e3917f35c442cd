package core

import (
	"healthd/prober"
	"healthd/runtime"
)

// State is all that is known of one container, in groups by what they tell and how
// long that holds. Step makes the next one from it; nothing else does.
type State struct {
	Kept

	Gates    []Gate   // readiness gates that people have set; outlive runs; never changed in place
	Health   Health   // what probes say of the run; begins afresh with each run and each daemon
	Request  Request  // our newest call to the engine, as this daemon knows it
	Checks   Checks   // what the engine is to be asked about the end of the run, and when
	Totals   Totals   // counted since this daemon has known the container
	Shutdown Shutdown // healthd's own end
	Lost     bool     // the engine cannot be heard
	// EngineRestarted says that the engine was started anew since it last told what the
	// container is, which may have ended the run.
	EngineRestarted bool
}

// Kept is the part of a State that the journal keeps as it is. It can be compared.
type Kept struct {
	Engine     Engine     `json:"engine,omitzero"`     // what the engine said last
	Run        Run        `json:"run,omitzero"`        // the present run, or the last one
	Action     Action     `json:"action,omitzero"`     // the stop or start under way
	Ending     Ending     `json:"ending,omitzero"`     // the evidence of who ends the run
	Conditions Conditions `json:"conditions,omitzero"` // as published; outlive runs
	Lasting    Lasting    `json:"lasting,omitzero"`    // what else outlives runs
}

// InvalidState is the state of a container that is shown but not supervised, because
// its labels are wrong. lost says that its runtime cannot be heard.
func InvalidState(c *runtime.Container, lost bool) State {
	s := State{Kept: Kept{Engine: Engine{State: c.State}, Run: Run{ID: c.Run(), StartedAt: c.StartedAt}}, Lost: lost}
	if !c.State.Alive() {
		s.Run.Exit = exitOf(c)
	}
	return s
}

// RestartCount is how often the container was started again after its first run.
func (s *State) RestartCount() int {
	n := 0
	for _, k := range s.Lasting.Restarts {
		n += k
	}
	return n
}

// Draining says that the container still runs but is about to be stopped, by us or
// by somebody else, and takes no new work.
func (s *State) Draining() bool {
	return s.Engine.State.Alive() && (s.Action.Stopping != NoCause || !s.Ending.First.IsZero())
}

// pausedBeforeStop says that a stop which is due does not come, as somebody has paused the
// container and wants it as it is; unless somebody has asked for the restart, too.
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

// containerReady is the rule of readiness, gates apart: everything else first.
func (s *State) containerReady() bool {
	return s.Engine.State == runtime.Running && !s.Run.Died && s.Conditions.Started.Status && !s.Draining() &&
		s.Health.Probes[Readiness].Result == prober.Success
}
