package supervisor

import (
	"time"

	"healthd/runtime"
	"healthd/supervisor/core"
)

// expectation is what has to become of a container whose run has ended.
type expectation string

const (
	mustRun  expectation = "is to be started"
	mustStay expectation = "is to stay stopped"
	either   expectation = "may be started or not" // nobody could know
)

// chaosTruth is what is true of a container, whoever knows it.
type chaosTruth struct {
	expect    expectation // of a run that has ended
	why       string
	endedBy   actor
	endedAt   time.Time
	endBoot   int // of the engine, at the end
	outlived  bool
	doubted   bool // the engine began to end soon after
	failures  int  // ends and failed starts that may have grown the back-off
	troubleAt time.Time
	lossAt    time.Time // an event of it was dropped
	unasked   bool      // a daemon could not ask what had ended it

	wished     wish // of the operator, about the present or last run
	asked      time.Time
	askedRun   int
	murky      int // run of which a daemon forgot that healthd stops it
	calls      int // to stop the present run, by healthd
	signals    int // that came of these
	cause      core.Cause
	condemned  int       // run that healthd was stopping because of a probe
	termAt     time.Time // signal of healthd's newest stop
	grace      time.Duration
	engineTerm bool
	asks       bool // that daemon starts it because of a probe
	unheard    bool // nobody heard its end
	knew       bool // the daemon that has called for a start had been told of the wish
}

// wish is a signal that an operator has sent.
type wish struct {
	run     int
	boot    int       // of the engine, then
	at      time.Time // as the event says
	mild    bool      // the process may survive it
	told    map[actor]time.Time
	before  actor  // daemon that was hearing the engine then; 0: none
	unclear string // why it may pass for something else
}

// blame says who wanted the end of a run that a signal has ended: an operator before
// all others.
func (c *chaosContainer) blame() actor {
	switch {
	case c.wish() != noWish:
		return theOperator
	case c.engineTerm:
		return theEngine
	}
	return 1 // whichever daemon
}

// A wish holds until it is clear that the process has survived the signal.
type validity int

const (
	noWish validity = iota
	fadingWish
	freshWish
)

func (c *chaosContainer) wish() validity {
	age := time.Since(c.wished.at)
	switch {
	case c.wished.run != c.run || c.wished.mild && age > c.kind.stopTimeout+30*time.Second:
		return noWish
	case c.wished.mild && age > c.kind.stopTimeout+9*time.Second:
		return fadingWish
	}
	return freshWish
}

// answers says what the process says to a probe.
func (c *chaosContainer) answers(probe core.ProbeType) bool {
	up := c.c.State == runtime.Running && time.Since(c.c.StartedAt) >= c.kind.slow
	if probe == core.Readiness {
		return up && !c.unready && !c.hung
	}
	return up && !c.hung
}

// began takes in that a run has begun.
func (w *chaos) began(c *chaosContainer, by actor) {
	old := c.chaosTruth
	if by > 0 {
		w.judgeStart(c, by)
	}
	if c.run > 1 && old.endedBy == theProcess && by != theEngine {
		w.logf("%s runs again after %v", c.kind.name, time.Since(old.endedAt))
	}
	c.chaosTruth = chaosTruth{failures: old.failures, troubleAt: old.troubleAt, lossAt: old.lossAt, condemned: old.condemned}
}

// signalled takes in a signal.
func (w *chaos) signalled(c *chaosContainer, signal int, by actor, at time.Time) {
	switch {
	case signal == 1:
	case by == theOperator:
		if c.wish() == noWish { // a later signal makes no other wish
			var before actor
			if w.daemon != nil && !w.hearing.IsZero() {
				before = w.daemon.n
			}
			c.wished = wish{before: before, run: c.run, boot: w.engine.boot, at: at, mild: signal != killSignal, told: make(map[actor]time.Time), unclear: w.confusable(c, signal)}
		} else {
			c.wished.mild = c.wished.mild && signal != killSignal
		}
	case by == theEngine:
		c.engineTerm = true
	case signal != killSignal:
		c.signals++
		c.termAt = time.Now()
		w.judgeGroup(c)
	}
}

// confusable says why an operator's signal may pass for healthd's own: a call of
// healthd that was not carried out explains one signal, and KILL at the end of the
// grace period is the engine's.
func (w *chaos) confusable(c *chaosContainer, signal int) string {
	underWay := w.daemon != nil && w.daemon.calling[c.c.ID] == "stop"
	switch {
	case signal != killSignal && (c.calls > c.signals || underWay && c.calls == 0):
		return "healthd has called for a stop of which nobody knows whether it is carried out"
	case signal == killSignal && c.signals > 0 && time.Since(c.termAt) > c.grace-200*time.Millisecond:
		return "the grace period of healthd's own stop is over"
	}
	return ""
}

// endedRun takes in that a run has ended, and says what has to follow.
func (w *chaos) endedRun(c *chaosContainer, by actor) {
	if c.c.FinishedAt.Sub(c.c.StartedAt) > chaosReset {
		c.failures = 0
	}
	c.failures++
	c.unheard = w.hearing.IsZero()
	c.endedBy, c.endedAt, c.endBoot = by, time.Now(), w.engine.boot
	c.expect, c.why = w.follows(c, by)
	w.logf("%s has ended: %s (%s)", c.kind.name, c.expect, c.why)
}

const endedWell = "it ended well"

func (w *chaos) follows(c *chaosContainer, by actor) (expectation, string) {
	spec := w.specs[c.kind.name]
	asked, wish := c.askedRun == c.run, c.wish()
	stopping := w.stopping(c)
	if stopping.ByProbe() {
		c.condemned = c.run
	}
	switch {
	case spec == nil || w.daemon != nil && !w.supervised(c.kind.name):
		return either, "it is not supervised"
	case w.daemon != nil && !w.daemon.everSynced && w.daemon.bornWith[c.c.ID].Run.ID != c.c.Run():
		return either, "healthd has not seen this run"
	case w.hearing.IsZero() && w.daemon != nil && w.view(c) == nil:
		return either, "healthd has not seen it"
	case c.murky == c.run:
		return either, "some of its run is not known"
	case wish != noWish && asked:
		return either, "an operator stopped it and asked for a restart"
	case wish != noWish && c.engineTerm:
		return either, "an operator and its engine stopped it"
	case by == theOperator && wish == freshWish:
		return mustStay, "an operator stopped it"
	case wish != noWish, c.wished.run == c.run && w.troubleAt.After(c.wished.at):
		return either, "an operator's signal and its own end came together"
	case c.engineTerm && by == theProcess:
		return either, "its engine's signal and its own end came together"
	case c.kind.rm:
		return mustStay, "it is removed"
	case asked:
		return mustRun, "a restart was asked for"
	case spec.RestartPolicy == core.Never:
		return mustStay, "its policy is Never"
	case by == theEngine && w.engine.mute:
		return either, "its engine ended, of which some events were lost"
	case by == theEngine:
		return mustRun, "its engine ended"
	case by > 0, c.calls > 0, stopping != core.NoCause, c.condemned == c.run:
		if by == theProcess && spec.RestartPolicy == core.OnFailure && c.c.ExitCode == 0 {
			return either, "it ended by itself while healthd was stopping it"
		}
		return mustRun, "healthd stopped it"
	case c.kind.enginePolicy != "no":
		return either, "its engine restarts it"
	case spec.RestartPolicy == core.OnFailure && c.c.ExitCode == 0 && w.engine.up:
		return mustStay, endedWell
	case spec.RestartPolicy == core.OnFailure && c.c.ExitCode == 0:
		return either, "it ended well, or of its engine's end: nobody can tell"
	}
	return mustRun, "it ended by itself"
}

// stopping is why the living daemon stops the present run, as it shows it.
func (w *chaos) stopping(c *chaosContainer) core.Cause {
	if v := w.view(c); v != nil && v.State.Run.ID == c.c.Run() {
		return v.State.Action.Stopping
	}
	return core.NoCause
}

func (w *chaos) view(c *chaosContainer) *core.View {
	if w.daemon == nil {
		return nil
	}
	v, _ := w.daemon.sup.Board().Find(c.c.ID)
	return v
}
