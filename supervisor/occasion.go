package supervisor

import (
	"context"
	"time"

	"healthd/runtime"
	"healthd/supervisor/core"
)

// Recorder makes flight records: it asks what a container was doing when it failed.
type Recorder interface {
	// Record makes the record of an occasion, as far as it gets before ctx ends. It returns soon after
	// that; nobody waits for it any longer. Any number may be made at once.
	Record(ctx context.Context, o *Occasion)
}

// Occasion is a failure of a container. It never changes.
type Occasion struct {
	View   *core.View // the container as the loop knew it then
	Name   string     // see Board.NameOf
	At     time.Time
	Cause  core.Cause  // ByLiveness, ByStartup and ByPostStart: its stop waits. ByExit: it has crashed
	Run    runtime.Run // the run that failed
	Exit   core.Exit   // how that ended; zero: it goes on
	Recent [core.NumProbes][]RecentResult
}

const (
	// recordPatience is what a record may delay a stop, unless a command of the spec's may take longer.
	recordPatience = 2 * time.Second
	// crashPatience is for what delays nothing.
	crashPatience = 10 * time.Second
)

// Limit returns what the record of a container may delay its stop at most.
func (o *Occasion) Limit() time.Duration { return max(recordPatience, o.View.Spec.Recorder.Timeout) }

// beforeStop returns the occasion of the stop call that is due; nil: there is none, or it was had
// already.
func (l *loop) beforeStop(e *entry, call core.Call) *Occasion {
	cause := e.state.Action.Stopping
	if call != core.StopCall || !cause.ByProbe() || e.state.Request.Error != "" {
		return nil
	}
	return l.occasion(e, e.state.Run.ID, cause)
}

// occasion returns the occasion to record a run, once for each; nil: there is none.
func (l *loop) occasion(e *entry, run runtime.Run, cause core.Cause) *Occasion {
	if l.config.Recorder == nil || e.recorded == run {
		return nil
	}
	e.recorded = run
	return &Occasion{
		View: e.slot.view.Load(), Name: l.board.NameOf(e.container), At: time.Now(), Cause: cause, Run: run,
		Recent: e.slot.recent.all(),
	}
}

// recordStop records a container before its stop, for Limit at most, and no longer than the run lasts.
func (l *loop) recordStop(ctx context.Context, o *Occasion) {
	if o == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, o.Limit())
	done := make(chan struct{})
	l.wg.Go(func() {
		defer close(done)
		l.config.Recorder.Record(ctx, o)
	})
	select {
	case <-done:
	case <-ctx.Done():
	}
	cancel()
}

// recordCrash records a container whose run has ended by itself, and badly, in this step.
func (l *loop) recordCrash(e *entry, before *core.State) {
	run, exit, ok := crashed(before, e.state)
	if !ok {
		return
	}
	o := l.occasion(e, run, core.ByExit)
	if o == nil {
		return
	}
	o.Exit = exit
	l.wg.Go(func() {
		ctx, cancel := context.WithTimeout(l.workCtx, crashPatience)
		defer cancel()
		l.config.Recorder.Record(ctx, o)
	})
}

// crashed returns which run has ended by itself between two states, and how. One that completed
// has not crashed.
func crashed(before, after *core.State) (runtime.Run, core.Exit, bool) {
	run, exit := after.Run.ID, after.Run.Exit
	switch {
	case run == before.Run.ID && before.Ending.By != core.EndedByItself && after.Ending.By == core.EndedByItself:
	// Its engine started it again before an inspection showed the end.
	case run != before.Run.ID && before.Run.Died && before.Ending.By == core.NotEnded && !before.Ending.Signalled() && before.Action.Stopping == core.NoCause:
		run, exit = before.Run.ID, after.Run.LastExit
	default:
		return run, exit, false
	}
	return run, exit, exit.Code != 0 || exit.Reason == core.ReasonOOMKilled
}
