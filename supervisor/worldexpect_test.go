package supervisor

import (
	"time"

	"healthd/runtime"
	"healthd/supervisor/core"
)

// expectation is what must become of a container whose run has ended.
type expectation string

const (
	mustRun  expectation = "is to be started"
	mustStay expectation = "is to stay stopped"
	either   expectation = "may be started or not" // healthd cannot know
)

// worldRecord is what the test knows about a container, whether healthd knows it or not.
type worldRecord struct {
	expect          expectation // set when a run has ended
	why             string
	endedBy         actor
	endedAt         time.Time
	refusedAt       time.Time // when the engine could not start it by its own policy
	endLife         int       // the engine's life at the end of the run
	engineLeaves    bool      // an API call had switched the engine's restart policy off
	engineOutlived  bool
	engineEndedSoon bool // the engine began to shut down soon after the end
	failures        int  // ends and failed starts, which may have grown the back-off
	disturbedAt     time.Time
	lossAt          time.Time // when an event of it was dropped
	lookupFailed    bool      // a daemon could not ask for the missed kill events

	opSignal           operatorSignal // the operator's, to the present or last run
	opStop             operatorStop   // the one that takes longest
	outlasted          bool           // the run ended within that stop, when healthd may have forgotten its signal
	restartAskedAt     time.Time
	restartAskedRun    int
	restartAskedUnseen bool // healthd had not seen that run: it may take its start for the restart
	uncertainRun       int  // run whose stop or restart by healthd a daemon has forgotten
	unstoredRun        int  // run of which a daemon was killed before its slow disk had all it knew
	calls              int  // stops of the present run that healthd called for
	calledAt           time.Time
	calledLife         int  // the engine's at the first of them
	starts             int  // starts after it that healthd called for
	signals            int  // stop signals that came of these
	signalLost         bool // the event of one of them
	stopsDone          int  // those of these that the engine has carried out
	cause              core.Cause
	probeStoppedRun    int       // run that healthd stopped for a failed probe
	termAt, termStamp  time.Time // when healthd's newest stop sent its signal, and that by the engine's clock
	grace              time.Duration
	engineTerm         bool
	startedForProbe    bool // the daemon's start follows a failed probe
	endUnseen          bool // no daemon was connected when the run ended
	daemonKnew         bool // the daemon that called for a start knew of the operator's signal
}

// operatorSignal is a signal that an operator has sent.
type operatorSignal struct {
	run        int
	life       int // the engine's, at that time
	at         time.Time
	eventAt    time.Time // by the engine's clock
	survivable bool      // the process may survive it
	readAt     map[actor]time.Time
	connected  actor  // the daemon that was connected then; 0: none
	ambiguous  string // why healthd may take it for something else; empty: it may not
}

// operatorStop is a docker stop.
type operatorStop struct {
	until   time.Time // when KILL comes
	timeout time.Duration
	engine  <-chan struct{} // closed when the engine's life ends, and the stop with it
}

// underWay says that an operator stops the present run.
func (s *operatorStop) underWay() bool {
	select {
	case <-s.engine:
		return false
	default:
		return s.engine != nil && time.Since(s.until) < time.Second
	}
}

// noteStop notes a docker stop of the present run.
func (h *world) noteStop(c *worldContainer, timeout time.Duration, by actor) {
	until := time.Now().Add(timeout)
	if by == byOperator && (!c.opStop.underWay() || until.After(c.opStop.until)) {
		c.opStop = operatorStop{until: until, timeout: timeout, engine: h.engine.ended}
	}
}

// whoEnded says who wanted the end of a run that a signal has ended. An operator's
// signal comes before all others.
func (c *worldContainer) whoEnded() actor {
	switch {
	case c.signalState() != noSignal:
		return byOperator
	case c.engineTerm:
		return byEngine
	}
	return 1 // any daemon
}

// An operator's signal counts until it is clear that the process has survived it.
type signalState int

const (
	noSignal signalState = iota
	fadingSignal
	freshSignal
)

func (c *worldContainer) signalState() signalState {
	age := time.Since(c.opSignal.at)
	switch {
	case c.opSignal.run == c.run && c.opStop.underWay():
		return freshSignal
	case c.opSignal.run != c.run || c.opSignal.survivable && age > c.template.stopTakes()+30*time.Second:
		return noSignal
	case c.opSignal.survivable && age > c.template.stopTakes()+9*time.Second:
		return fadingSignal
	}
	return freshSignal
}

// answersProbe says whether the process answers a probe with success.
func (c *worldContainer) answersProbe(probe core.ProbeType) bool {
	up := c.info.State == runtime.Running && time.Since(c.beganAt) >= c.template.startupTime
	if probe == core.Readiness {
		return up && !c.notReady && !c.hung && !c.closing
	}
	return up && !c.hung && !c.closing
}

// noteRunBegan notes that a run has begun.
func (h *world) noteRunBegan(c *worldContainer, by actor) {
	old := c.worldRecord
	if by > 0 {
		h.checkStart(c, by)
	}
	if c.run > 1 && old.endedBy == byProcess && by != byEngine {
		h.logf("%s runs again after %v", c.template.name, time.Since(old.endedAt))
	}
	c.worldRecord = worldRecord{failures: old.failures, disturbedAt: old.disturbedAt, lossAt: old.lossAt, probeStoppedRun: old.probeStoppedRun}
}

// noteSignal notes a signal.
func (h *world) noteSignal(c *worldContainer, signal int, by actor, eventAt time.Time) {
	switch {
	case signal == 1:
	case by == byOperator:
		if c.signalState() != freshSignal { // only the first signal counts
			var connected actor
			if h.daemon != nil && !h.connectedSince.IsZero() {
				connected = h.daemon.number
			}
			c.opSignal = operatorSignal{connected: connected, run: c.run, life: h.engine.life, at: time.Now(), eventAt: eventAt, survivable: signal != killSignal, readAt: make(map[actor]time.Time), ambiguous: h.ambiguity(c, signal)}
		} else {
			c.opSignal.survivable = c.opSignal.survivable && signal != killSignal
		}
	case by == byEngine:
		c.engineTerm = true
	case signal != killSignal:
		c.signals++
		c.signalLost = c.signalLost || c.lossAt.Equal(time.Now())
		c.termAt, c.termStamp = time.Now(), eventAt
		h.checkGroup(c)
	}
}

// ambiguity says why healthd may take an operator's signal for its own. A stop that
// healthd called for without a known outcome explains one signal. The engine sends KILL
// at the end of the grace period.
func (h *world) ambiguity(c *worldContainer, signal int) string {
	underWay := h.daemon != nil && h.daemon.calling[c.info.ID] == "stop"
	switch {
	case signal != killSignal && h.storedStop(c):
		return "healthd was, or had been, about to call for a stop when it ended"
	case signal != killSignal && (c.calls > c.signals || underWay && c.calls == 0):
		return "healthd called for a stop whose outcome is not known"
	case signal != killSignal && c.calls > 1 && c.calledLife != h.engine.life:
		return "its engine may have forgotten the signal of healthd's first call"
	case signal == killSignal && c.signals > 0 && time.Since(c.termAt) > c.grace-200*time.Millisecond:
		return "the grace period of healthd's own stop is over"
	case signal == killSignal && c.calls > c.signals && (time.Since(c.calledAt)-c.grace).Abs() < 3*time.Second:
		return "the grace period of a stop is over that healthd called for, and that the engine may have carried out"
	case h.engine.now().Before(c.info.StartedAt):
		return "its engine's clock was set back, so that the signal seems to be of the run before"
	}
	return ""
}

// storedStop says whether a daemon has stored that it stops the present run, but did not
// get as far as the signal.
func (h *world) storedStop(c *worldContainer) bool {
	m, ok := h.disk.memories[c.info.ID]
	return ok && m.Run.ID == c.info.Run() && m.Action.StopCalls > c.signals
}

// noteRunEnded notes that a run has ended, and sets what must follow.
func (h *world) noteRunEnded(c *worldContainer, by actor) {
	if time.Since(c.beganAt) > worldReset && h.engine.clockSetAt.IsZero() { // else healthd may think that the run was shorter
		c.failures = 0
	}
	c.failures++
	c.endUnseen, c.engineLeaves = h.connectedSince.IsZero() || h.daemon != nil && !h.daemon.stopRequestedAt.IsZero(), c.stoppedByAPI
	c.outlasted = c.opStop.underWay() && time.Since(c.opSignal.at) > c.template.stopTakes()+9*time.Second
	c.endedBy, c.endedAt, c.endLife = by, time.Now(), h.engine.life
	c.expect, c.why = h.expected(c, by)
	if spec := h.specs[c.template.name]; c.expect == mustRun && spec.GiveUp.Restarts > 0 && c.restartAskedRun != c.run {
		c.expect, c.why = either, mayGiveUp
	}
	h.logf("%s has ended: %s (%s)", c.template.name, c.expect, c.why)
}

const engineRestarts = "its engine restarts it"

// noteRefused notes that the engine could not start a container by its own policy.
func (h *world) noteRefused(c *worldContainer) {
	c.refusedAt = time.Now()
	if spec := h.specs[c.template.name]; c.why == engineRestarts && !c.endUnseen && spec.GiveUp.Restarts == 0 {
		c.expect, c.why = mustRun, "its engine could not start it"
	} else if c.why == startGivenUp {
		c.expect, c.why = either, "its engine has tried to start it all the same"
	}
	h.logf("%s: the engine cannot start it: %s (%s)", c.template.name, c.expect, c.why)
}

// noteGivenUp notes that an operator has had the engine give up a start by its own policy.
func (h *world) noteGivenUp(c *worldContainer) {
	c.expect, c.why = either, "an operator stopped it before healthd saw that the engine was about to start it"
	v, connected := h.view(c), !h.connectedSince.IsZero()
	switch {
	case c.restartAskedRun == c.run:
		c.why = "an operator has asked healthd to restart it, too"
	case v != nil && v.State.Action.Restart != core.NoCause:
		c.why = "healthd was about to start it"
	case connected && v != nil && v.State.Run.ID == c.info.Run() && v.State.Engine.State == runtime.Restarting:
		c.expect, c.why = mustStay, startGivenUp
	}
	c.endedBy = byOperator
	h.logf("%s: the engine gives up its start: %s (%s)", c.template.name, c.expect, c.why)
}

const (
	exitedWithZero = "it exited with 0"
	mayGiveUp      = "healthd may give it up"
	startGivenUp   = "an operator stopped it when the engine was about to start it"
	isNever        = "its policy is Never"
	becameNever    = "its policy has become Never"
)

func (h *world) expected(c *worldContainer, by actor) (expectation, string) {
	spec := h.specs[c.template.name]
	asked, signal := c.restartAskedRun == c.run, c.signalState()
	stopping := h.stopCause(c)
	if stopping.ByProbe() {
		c.probeStoppedRun = c.run
	}
	switch {
	case spec == nil || h.daemon != nil && !h.supervised(c.template.name):
		return either, "healthd does not supervise it"
	case h.daemon != nil && !h.daemon.everSynced && h.daemon.loadedOf(c.info.ID).Run.ID != c.info.Run():
		return either, "healthd has not seen this run"
	case h.connectedSince.IsZero() && h.daemon != nil && h.view(c) == nil:
		return either, "healthd has not seen it"
	case c.uncertainRun == c.run:
		return either, "a part of its run is not known"
	case c.endUnseen && h.seemsKilledEarly(c):
		return either, "its engine's clock was set back, so that healthd's KILL seems to be an operator's"
	case min(c.beganAt.Sub(h.engine.clockSetAt).Abs(), c.beganAt.Sub(c.lossAt).Abs()) < 5*time.Second && h.engine.clockSetAt.Sub(c.lossAt).Abs() < 5*time.Second:
		return either, "its engine's clock was set while news of a run was lost: the rest may be of either"
	case c.signalLost && c.calls > 1:
		return either, "one of healthd's calls has no signal, so that its KILL may be an operator's"
	case signal != noSignal && asked:
		return either, "an operator stopped it and requested a restart"
	case signal != noSignal && c.engineTerm:
		return either, "an operator and its engine stopped it"
	case by == byOperator && signal == freshSignal:
		return mustStay, "an operator stopped it"
	case signal != noSignal, c.opSignal.run == c.run && h.disturbedAt.After(c.opSignal.at):
		return either, "an operator's signal and its exit came together"
	case c.engineTerm && by == byProcess:
		return either, "its engine's signal and its exit came together"
	case c.template.autoRemove:
		return mustStay, "the engine removes it"
	case asked && c.restartAskedUnseen:
		return either, "a restart was requested before healthd had seen its run"
	case asked:
		return mustRun, "a restart was requested"
	case spec.RestartPolicy == core.Never:
		return mustStay, isNever
	case by == byEngine && h.engine.endEventsLost:
		return either, "its engine ended, and some events of that were lost"
	case by == byEngine && h.runUnseen(c):
		return either, "healthd has not seen the run that its engine ended"
	case by == byEngine:
		return mustRun, "its engine ended"
	case by > 0 && c.calls == 0 && c.signals == 0 && c.opSignal.run == c.run:
		return either, "it ended of an operator's signal that it seemed to have survived"
	case by > 0, c.calls > 0, stopping != core.NoCause, c.probeStoppedRun == c.run:
		if by == byProcess && spec.RestartPolicy == core.OnFailure && c.info.ExitCode == 0 {
			return either, "it exited while healthd was stopping it"
		}
		return mustRun, "healthd stopped it"
	case c.template.enginePolicy != "no" && !c.stoppedByAPI:
		return either, engineRestarts
	case spec.RestartPolicy == core.OnFailure && c.info.ExitCode == 0 && h.engine.up:
		return mustStay, exitedWithZero
	case spec.RestartPolicy == core.OnFailure && c.info.ExitCode == 0:
		return either, "it exited with 0, or with its engine: nobody can tell"
	}
	return mustRun, "it exited"
}

// seemsKilledEarly says that healthd's grace period was over when the run ended, but not by the engine's clock.
func (h *world) seemsKilledEarly(c *worldContainer) bool {
	due := c.grace - 100*time.Millisecond
	seems := h.engine.now().Sub(c.termStamp)
	return c.signals > 0 && (time.Since(c.termAt) >= due || c.signals > 1) && seems >= 0 && seems < due
}

// noteSpecChange notes what another spec, nil for none, changes of what must become of a container that has ended.
func (h *world) noteSpecChange(c *worldContainer, spec *core.Spec) {
	old, v := h.specs[c.template.name], h.view(c)
	switch {
	case (spec == nil) != (old == nil):
		if c.uncertainRun = c.run; !c.info.State.Alive() && c.expect != "" {
			c.expect, c.why = either, "healthd does not supervise it, or did not"
		}
	case spec == nil || c.info.State.Alive() || c.expect == "":
	case spec.RestartPolicy != old.RestartPolicy && (!h.decided(c) || c.restartAskedRun == c.run || c.endedBy == byEngine):
		c.expect, c.why = either, "its policy changes, and healthd may decide by either"
	case c.why == becameNever && spec.RestartPolicy != core.Never: // a daemon that has not seen the container since knows the newest spec only
		c.expect, c.why = either, "its policy was Never for a while"
	case c.starts > 0, v != nil && v.State.Action.Call == core.StartCall: // a call may still be under way
		c.makeUncertain("its spec changes while it is started")
	case spec.RestartPolicy == core.Never && old.RestartPolicy != core.Never && (c.expect == mustRun || c.why == mayGiveUp):
		c.expect, c.why = mustStay, becameNever
	case spec.GiveUp.Restarts == 0 && c.why == mayGiveUp:
		c.expect, c.why, c.disturbedAt = mustRun, "healthd gives it up no more", time.Now()
	}
}

// decided says whether healthd, or the last daemon, has decided what becomes of a container that has ended.
func (h *world) decided(c *worldContainer) bool {
	kept := h.disk.memories[c.info.ID].Kept
	if v := h.view(c); h.daemon != nil && v != nil {
		kept = v.State.Kept
	}
	if kept == nil || kept.Run.ID != c.info.Run() || kept.Run.Exit.FinishedAt.IsZero() || h.daemon == nil && c.unstoredRun == c.run {
		return false
	}
	return c.endedBy != byProcess || c.template.enginePolicy == "no" || kept.Run.EngineGaveUp // before that the engine decides
}

// runUnseen says that the running daemon has not seen the present run, by its board.
func (h *world) runUnseen(c *worldContainer) bool {
	v := h.view(c)
	return v != nil && v.State.Run.ID != c.info.Run()
}

// stopCause is why the running daemon stops the present run, by its board.
func (h *world) stopCause(c *worldContainer) core.Cause {
	if v := h.view(c); v != nil && v.State.Run.ID == c.info.Run() {
		return v.State.Action.Stopping
	}
	return core.NoCause
}

func (h *world) view(c *worldContainer) *core.View {
	if h.daemon == nil {
		return nil
	}
	return h.daemon.sup.Board().ByID(c.info.ID)
}
