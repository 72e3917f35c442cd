package core

import (
	"time"

	"healthd/prober"
	"healthd/runtime"
)

// engineStartWait is the time that healthd gives an engine to start a container by the engine's own restart policy.
// containerd's plugin looks every ten seconds.
const engineStartWait = 15 * time.Second

// endWait is the time that healthd gives an engine to show an end that it has told. Then it looks whether that was of an
// earlier run.
const endWait = 15 * time.Second

// freshNews is how old news may be that counts as told at once, and by how much clocks may
// differ that are taken for one.
const freshNews = 2 * time.Second

// redialPause is the time between two connections that DialEngine asks for.
const redialPause = time.Second

// evidence returns what Ending needs to know of the run and of healthd's calls.
func (t *stepper) evidence() *evidence {
	alive := t.Engine.State.Alive()
	return &evidence{
		container: t.c, run: t.Run.ID, before: t.Run.Before, alive: alive,
		stopping: t.Action.Stopping, grace: t.Action.Grace, stopsSent: t.stopsSent(), sentAt: t.Request.SentAt,
		openCall:    t.Action.Call == StopCall || t.Request.Error != "" || !alive,
		earlierStop: t.Action.Call == StopCall && t.Request.Sent && !t.Request.Told && t.Request.Run != t.Run.ID,
		calling:     t.Action.Call != NoCall, now: t.now,
	}
}

// stopsSent returns how many stop calls of the present stop have left for the engine.
func (t *stepper) stopsSent() int {
	if t.Action.Call == StopCall && !t.Request.Sent {
		return t.Action.StopCalls - 1
	}
	return t.Action.StopCalls
}

// signalled applies the news that somebody, perhaps healthd, sent a signal.
func (t *stepper) signalled(in *Input) {
	before := t.Ending
	meaning := t.Ending.signal(signal{newsOf(in), in.Signal}, t.evidence())
	t.dialIfInDoubt(&before, meaning)
	switch meaning {
	case meansEarlierStop:
		t.adoptEarlierStop()
	case meansCorrected:
		t.Action.Stopping = t.Ending.Overtaken
		t.reconsider()
	case meansOperator:
		t.awaitEnd()
		t.clearVerdicts()
		if t.Engine.State.Alive() && t.Action.Call == NoCall {
			t.Action.Stopping = NoCause // the operator stops the run before healthd has
		}
		t.reconsider()
	case meansNextRun:
		t.awaitEnd()
		t.yieldNextRun()
	}
}

// yieldNextRun gives up a start that is due: an operator has started the next run, which
// healthd has not seen yet, and stops it.
func (t *stepper) yieldNextRun() {
	if t.Action.Call != StartCall && t.Action.Restart != NoCause {
		t.Ending.First = t.Ending.Next.At
		t.endedBy(EndedByOperator)
	}
}

// awaitEnd gives a run that got a stop signal the time to end that the engine gives it, and 10 s.
func (t *stepper) awaitEnd() {
	t.Ending.ForgetAt = t.now.Add(othersGrace(t.spec, t.c) + 10*time.Second)
	t.Checks.InspectAt = time.Time{}
}

// adoptEarlierStop makes healthd's stop of the previous run, whose signal hit this run, a
// stop of this run.
func (t *stepper) adoptEarlierStop() {
	t.Action.Stopping, t.Action.StopCalls, t.Action.NotBefore = t.Request.Cause, 1, t.now
	t.Action.Grace = t.Request.Grace
}

// clearVerdicts sets liveness and startup to Success in a run that an operator is ending,
// as the kubelet does. If the run survives the signal, the probes can give a failure
// verdict again.
func (t *stepper) clearVerdicts() {
	if !t.Engine.State.Alive() {
		return
	}
	for _, probe := range []ProbeType{Startup, Liveness} {
		y := &t.Health.Probes[probe]
		y.Result = prober.Success
		y.OnHold = probe == Startup && t.Conditions.Started.Status && t.spec.Probes[Startup] != nil
	}
}

// died applies an event that tells the end of a run. A slow engine may show the end by
// inspection only much later. Meanwhile the container is not ready, and the run cannot
// survive a stop signal any more. Events of earlier runs may come late and are ignored.
func (t *stepper) died(in *Input) {
	n := newsOf(in)
	if t.EngineRestarted && !n.sentAtEngineStart() && !(n.sinceBegan() && n.of.Old()) {
		t.EngineRestarted = false // the restarted engine told the end itself, so its restart did not end the run
	}
	if t.evidence().whichRun(&n) != presentRun {
		return
	}
	if !n.late && t.engineNow.Sub(n.at).Abs() <= freshNews {
		t.Health.AliveAt = t.now
	}
	t.Run.Died = t.Engine.State.Alive()
	t.Run.DiedCode, t.Ending.ForgetAt, t.Checks.InspectAt = in.ExitCode, time.Time{}, t.now.Add(endWait)
}

// stopCarriedOut applies the news that the engine finished a stop or restart request.
func (t *stepper) stopCarriedOut(in *Input) {
	before := t.Ending
	meaning := t.Ending.carriedOut(newsOf(in), t.evidence())
	t.dialIfInDoubt(&before, meaning)
	switch meaning {
	case meansOperator:
		if t.Engine.State.Alive() && !t.now.Before(t.Ending.ForgetAt) {
			t.awaitEnd()
		}
		t.clearVerdicts()
		t.reconsider()
	case meansNextRun:
		t.yieldNextRun()
	}
}

// forgetSignals forgets the stop signals that a run has survived. It first asks the engine
// whether the run still lives, because the news of its end may be lost.
func (t *stepper) forgetSignals(in *Input) {
	if t.Run.Died && t.Engine.State.Alive() && !t.Lost && !t.now.Before(t.Checks.InspectAt) {
		t.Checks.InspectAt = t.now.Add(endWait)
		t.fx = append(t.fx, Effect{Kind: InspectContainer})
	}
	if !t.Engine.State.Alive() || t.Lost || !t.Ending.Signalled() || t.Ending.ForgetAt.IsZero() || t.now.Before(t.Ending.ForgetAt) {
		return
	}
	if in.Kind != Observed {
		if !t.now.Before(t.Checks.InspectAt) {
			t.Checks.InspectAt = t.now.Add(callRetryPause)
			t.fx = append(t.fx, Effect{Kind: InspectContainer})
		}
		return
	}
	t.Ending.survived()
	if t.Action.Stopping != NoCause {
		return
	}
	if y := &t.Health.Probes[Startup]; !t.Conditions.Started.Status {
		y.Result = initialResult(t.spec.Probes[Startup], Startup)
	}
}

// dialIfInDoubt begins to ask the engine whether it accepts connections, when new evidence
// against an operator may be the engine's own shutdown.
func (t *stepper) dialIfInDoubt(before *Ending, m meaning) {
	if t.Ending.MaybeEngine && (!before.MaybeEngine || !t.Ending.First.Equal(before.First) || m == meansNextRun) {
		t.Checks.MaybeEngineSince, t.Checks.DialAt = t.now, t.now
	}
}

// dialEngine opens a new connection to the engine once a second while the stop signal may
// be the engine's own. An engine that shuts down stops listening first, and then sends
// stop signals to all its containers, as an operator would.
func (t *stepper) dialEngine() {
	if t.Ending.MaybeEngine && !t.Lost && !t.now.Before(t.Checks.DialAt) {
		t.Checks.DialAt = t.now.Add(redialPause)
		t.fx = append(t.fx, Effect{Kind: DialEngine})
	}
}

// engineAccepts applies that the engine accepted a connection begun at that moment: the
// engine was not shutting down then, so earlier signals were not its own, but an operator's.
func (t *stepper) engineAccepts(began time.Time) {
	t.Ending.MaybeEngine = t.Ending.MaybeEngine && t.Checks.MaybeEngineSince.After(began)
	t.tellOperatorStop()
}

// tellOperatorStop records that an operator stopped the container, once it cannot have been an engine that shuts down.
func (t *stepper) tellOperatorStop() {
	if !t.Ending.Untold || t.Ending.MaybeEngine {
		return
	}
	t.Ending.Untold = false
	who := "an operator"
	if t.Ending.Overtaken.ByProbe() {
		who += ", or by another supervisor, while healthd was stopping it, too"
	}
	what := "by " + who + " (exit code %d). It stays stopped until somebody starts it"
	if m := t.spec.ManagedElsewhere; m != "" {
		what = "by an operator or " + m + " (exit code %d). healthd leaves the start to " + m
	}
	t.record(EventOperatorStopped, "Container %s was stopped "+what, t.c.Name, t.Run.Exit.Code)
}

// engineRestarted applies that the engine has restarted. A container that it was about to
// start by its own restart policy may be forgotten, so healthd starts that one.
func (t *stepper) engineRestarted() {
	// An engine that told the end before its own did not end the run. It may have been about
	// to start the container again.
	t.EngineRestarted = !t.Run.Died || t.Ending.MaybeEngine || t.enginePolicy()
	if t.Engine.State == runtime.Restarting && t.Action.Restart == NoCause && t.Action.Call == NoCall &&
		t.Ending.By != EndedByOperator && !t.Ending.Signalled() {
		t.Engine.State, t.Ending.WithEngine = runtime.Exited, true
		t.endedBy(EndedByEngine)
	}
	t.Ending.engineRestarted()
	t.reconsider()
}

// endedBeforeEngine applies that the run had ended long before its engine did.
func (t *stepper) endedBeforeEngine() {
	if t.Action.Call == NoCall {
		t.Ending.LongBefore = true
		t.reconsider()
	}
}

// engineLivedOn applies that the restart of the engine has ended no run (live-restore): the end counts as the
// container's own. So it does if healthd was away, too, as it was meant to run: an operator's stop in that time is lost.
func (t *stepper) engineLivedOn() {
	if t.Action.Call == NoCall && t.Ending.By == EndedByEngine {
		t.Ending.WithEngine, t.Ending.Unwatched, t.Action.Restart = false, false, NoCause
		t.reconsider()
	}
}

// endRun decides who ended the run, and acts on that. unwatched: nobody watched the
// engine when the run ended. withEngine: the run was meant to go on, but its engine or host
// restarted.
func (t *stepper) endRun(unwatched, withEngine bool) {
	t.Run.Exit, t.Request.Error = t.exit(t.exitCode()), ""
	t.Run.EndedAt = t.now.Add(-t.sinceEnd())
	if t.runDuration() > t.spec.Backoff.ResetAfter {
		t.Lasting.Backoff = BackoffState{Soon: t.Lasting.Backoff.Soon} // also if an operator ended it
	}
	if t.endedBeforeStop() {
		t.Action.Stopping = NoCause
	}
	t.Ending.Unwatched, t.Ending.WithEngine = unwatched, withEngine
	t.endedBy(t.whoEnded())
}

// endedBeforeStop says that the run had ended when healthd decided to stop it for a failed probe or hook, and that no
// stop was sent: these asked a dead address, while a slow engine had not told the end yet. Only the engine's clock tells
// when that was. If it was set meanwhile, the exit code may decide where the failure should, or the other way round.
func (t *stepper) endedBeforeStop() bool {
	ended := t.now.Add(-t.engineNow.Sub(t.Run.Exit.FinishedAt))
	return t.Action.Stopping.ByProbe() && t.stopsSent() == 0 && !ended.After(t.Request.Begun)
}

// exitCode returns the exit code of a run that an inspection shows ended. An engine that was killed
// between telling the end and writing it down forgets the code, and shows 0.
func (t *stepper) exitCode() int {
	if t.c.ExitCode == 0 {
		return t.Run.DiedCode
	}
	return t.c.ExitCode
}

// whoEnded returns who ended the run. One that ended unseen did not end by a stop that no daemon had sent:
// an operator may have stopped it. A restart that an operator asked for is made all the same.
func (t *stepper) whoEnded() Ender {
	if t.Ending.Unwatched && t.Action.StopCalls == 0 && t.Action.Stopping != ByOperator {
		return t.Ending.Who(NoCause)
	}
	return t.Ending.Who(t.Action.Stopping)
}

// reconsider decides again who ended the run after late news, and acts on a new answer. The
// answer no longer matters once an operator asked healthd for a start.
func (t *stepper) reconsider() {
	if t.Engine.State.Alive() || t.Ending.By == NotEnded || t.Action.Restart == ByOperator {
		return
	}
	if who := t.whoEnded(); who != t.Ending.By {
		t.endedBy(who)
	}
}

// endedBy acts on the answer to who ended the run.
func (t *stepper) endedBy(who Ender) {
	before := t.Ending.By
	t.Ending.By, t.Ending.Untold = who, who == EndedByOperator
	switch who {
	case EndedByOperator:
		t.Action.Restart, t.Action.Stopping = NoCause, NoCause
		t.Run.Exit.Reason = ReasonStoppedByOperator
		t.tellOperatorStop()
	case EndedByEngine:
		t.endedWithEngine()
	case EndedUnseen:
		t.Action.Restart, t.Action.Stopping = NoCause, NoCause
		what := "was found stopped (exit code %d). healthd leaves it alone"
		if before == EndedByEngine {
			what = "ended long before its engine did (exit code %d), for an unknown reason: healthd leaves it alone"
		}
		t.record(EventExited, "Container %s "+what, t.c.Name, t.Run.Exit.Code)
	default:
		t.exited()
	}
	if t.spec.ManagedElsewhere != "" && t.Run.Exit.Reason != ReasonCompleted {
		t.Run.Exit.Reason = ReasonManagedElsewhere
	}
}

// exited acts on a run that ended by itself or by healthd's stop: the restart policy
// decides.
func (t *stepper) exited() {
	cause := ByExit
	if t.Action.Stopping != NoCause {
		cause = t.Action.Stopping
	}
	t.Run.Exit = t.exit(t.Run.Exit.Code)
	reason := EventExited
	if exitOf(t.c).Reason == ReasonOOMKilled {
		reason = EventOOMKilled
	}
	t.record(reason, "Container %s exited with code %d (%s)", t.c.Name, t.Run.Exit.Code, t.Run.Exit.Reason)
	t.startAfter(cause)
}

// startAfter schedules the start of a container that has ended for that cause, if it is to be started.
func (t *stepper) startAfter(cause Cause) {
	switch {
	case t.shouldStart(cause) && (cause == ByExit || t.spec.RestartPolicy == Never) && t.mustGiveUp(cause): // under Never a stop is no restart yet
		t.giveUpStart()
	case t.shouldStart(cause):
		t.Shutdown.LeftOver = t.Shutdown.RunBegan && cause == ByExit
		t.scheduleStart(cause)
	case t.wouldStart(cause):
		t.tellStart()
	}
}

// endedWithEngine schedules the start of a container that ended with its engine or host.
// That end is no failure of the container, so the back-off does not grow.
func (t *stepper) endedWithEngine() {
	t.Action.GaveUp = false // it ran
	if t.Run.Exit.Reason == ReasonStoppedByOperator {
		t.Run.Exit.Reason = exitOf(&runtime.Container{ExitCode: t.Run.Exit.Code}).Reason
	}
	if !t.startsAfterEngine() {
		why := "restart policy Never"
		switch {
		case t.c.AutoRemove:
			why = "--rm"
		case t.spec.ManagedElsewhere != "":
			why = "managed by " + t.spec.ManagedElsewhere
		}
		t.record(EventExited, "Container %s ended with its engine (exit code %d). It stays stopped (%s)", t.c.Name, t.Run.Exit.Code, why)
		return
	}
	if t.onlyObserved(ByExit) {
		t.record(EventExited, "Container %s ended with its engine (exit code %d)", t.c.Name, t.Run.Exit.Code)
		t.tellStart()
		return
	}
	t.Action.Restart, t.Action.NotBefore = ByExit, t.now
	if t.enginePolicy() {
		t.Action.NotBefore = t.now.Add(engineStartWait)
	}
	t.record(EventExited, "Container %s ended with its engine (exit code %d). healthd starts it again", t.c.Name, t.Run.Exit.Code)
}

// tellStart records the start that healthd would make.
func (t *stepper) tellStart() {
	t.record(EventWouldRestart, "Container %s has ended, would be started again. healthd only observes it", t.c.Name)
}
