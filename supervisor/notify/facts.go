package notify

import (
	"time"

	"healthd/prober"
	"healthd/runtime"
	"healthd/supervisor"
	"healthd/supervisor/core"
)

// How long something must be wrong before it is an incident, and over before a crash loop has ended.
const (
	lostAfter     = 30 * time.Second // an engine or the journal
	downAfter     = 30 * time.Second // a service of which a member was ready before
	neverUpAfter  = 5 * time.Minute  // a service whose members have not been ready yet
	steadyAfter   = 2 * time.Minute  // a run without an end, after a crash loop; less where reset_after is
	crashLoopWait = 4                // a crash loop waits this many times backoff.initial, or backoff.max
)

// look returns what is wrong. open are the incidents so far: only of these it says what is unsettled. problem is
// why the journal cannot be written; empty: it can.
func look(b *supervisor.Board, problem string, open map[string]incident, now time.Time) facts {
	f := facts{wrong: map[string]finding{}, ending: map[string]ending{}, unsettled: map[string]bool{}}
	up := map[string]bool{}
	for _, r := range b.Runtimes() {
		up[r.Name] = r.Up && r.Synced
		if !r.Up {
			f.add(lostRuntime(r), lostAfter)
		}
	}
	if problem != "" {
		f.add(incident{subject: subject{Reason: JournalFailed}, Cause: clip(problem), Next: "healthd goes on in memory, and tries again"}, lostAfter)
	}
	services := map[string]*members{}
	for v := range b.All() {
		f.addContainer(b, v, now)
		if v.Service != "" {
			m := services[v.Service]
			if m == nil {
				m = &members{}
				services[v.Service] = m
			}
			m.add(v)
		}
	}
	for name, m := range services {
		f.addService(name, m)
	}
	for key, i := range open {
		if i.Reason == ServiceDown && services[i.Service].unsettled(b) || f.isUnsettled(b, &i, up, now) {
			f.unsettled[key] = true
		}
	}
	return f
}

func (f *facts) add(i incident, after time.Duration) { f.wrong[i.key()] = finding{i, after} }

func lostRuntime(r supervisor.RuntimeView) incident {
	i := incident{subject: subject{Reason: RuntimeLost, Runtime: r.Name}, Next: "healthd restarts nothing there until the engine answers, and keeps what it has published"}
	if r.Err != nil {
		i.Cause = clip(r.Err.Error())
	}
	return i
}

// addContainer adds what is wrong with one container.
func (f *facts) addContainer(b *supervisor.Board, v *core.View, now time.Time) {
	s := &v.State
	if v.Spec == nil || s.Lost {
		return
	}
	if s.Run.LastByItself && v.Container.HasRestartPolicy() && now.Sub(s.Run.BeganAt) < crashLoopWindow {
		i := incident{subject: subjectOf(b, v, CrashLoop), Cause: causeOf(v), Next: "the engine starts it again, by its own restart policy"}
		f.ending[i.key()] = ending{i, s.RestartCount()}
	}
	if s.Action.Restart == core.NoCause && s.Health.Failed == core.NoCause {
		return // it waits for nothing that concerns anybody, as most do
	}
	w := v.Waiting()
	if w == nil {
		return
	}
	switch {
	case w.Reason == core.WaitGaveUp:
		i := incident{subject: subjectOf(b, v, GaveUp), Cause: causeOf(v)}
		i.Next = "healthd does not restart it until somebody does: healthd resume " + i.Container
		f.add(i, 0)
	case w.Reason == core.WaitCrashLoop && loops(v):
		i := incident{subject: subjectOf(b, v, CrashLoop), Cause: causeOf(v)}
		i.Next = "healthd starts it again after a back-off of " + s.Lasting.Backoff.Delay.String()
		f.add(i, 0)
	}
}

// loops says that the back-off has grown so far that the container has ended four times in a row.
func loops(v *core.View) bool {
	delay, c := v.State.Lasting.Backoff.Delay, v.Spec.Backoff
	return delay > 0 && delay >= min(crashLoopWait*c.Initial, c.Max)
}

func subjectOf(b *supervisor.Board, v *core.View, reason string) subject {
	return subject{
		Reason: reason, Runtime: v.Container.Runtime, Container: b.NameOf(v.Container),
		Service: v.Service, Project: core.ProjectOf(v.Container.Labels),
	}
}

// isUnsettled says that an open incident may last, although nothing wrong is to be seen. A container
// that is gone has none; nor has one that an operator has stopped.
func (f *facts) isUnsettled(b *supervisor.Board, i *incident, up map[string]bool, now time.Time) bool {
	if i.Reason != GaveUp && i.Reason != CrashLoop {
		return false
	}
	if known, running := up[i.Runtime]; running && !known {
		return true
	}
	v, err := b.Find(i.Container)
	if err != nil || v.Spec == nil {
		return false
	}
	if i.Reason == GaveUp {
		return unasked(v)
	}
	return !steady(v, now)
}

// unasked says that the probe for which healthd may have given the container up has not succeeded in this
// run, or not since a restart of healthd.
func unasked(v *core.View) bool {
	s := &v.State
	if !s.Engine.State.Alive() || s.OperatorStopped() {
		return false
	}
	if v.Spec.Probes[core.Liveness] != nil {
		return s.Health.Probes[core.Liveness].Outcome != prober.Success
	}
	return v.Spec.Probes[core.Startup] != nil && !s.Conditions.Started.Status
}

// steady says that a container whose crash loop was told of is not in it any more.
func steady(v *core.View, now time.Time) bool {
	s := &v.State
	if !s.Engine.State.Alive() {
		// Nobody will start it: it has completed, or an operator stopped it.
		return s.Action.Restart == core.NoCause && s.Engine.State != runtime.Restarting
	}
	return s.Engine.State == runtime.Running && now.Sub(s.Run.BeganAt) >= min(steadyAfter, v.Spec.Backoff.ResetAfter)
}
