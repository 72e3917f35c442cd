package notify

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"healthd/prober"
	"healthd/runtime"
	"healthd/supervisor"
	"healthd/supervisor/core"
)

var engineUp = supervisor.RuntimeView{Name: "docker", Up: true, Synced: true}

// container returns one that has run for long and is ready.
func container(name, service string, changes ...func(*core.View)) *core.View {
	id := runtime.Run{ID: "id-of-" + name, Started: dawn.UnixNano()}
	v := &core.View{
		Container: &runtime.Container{Runtime: "docker", ID: "id-of-" + name, Name: name, State: runtime.Running, StartedAt: dawn, Labels: map[string]string{"com.docker.compose.project": "shop"}},
		Spec:      &core.Spec{Name: "web", RestartPolicy: core.Always, Backoff: core.Backoff{Initial: 10 * time.Second, Max: 5 * time.Minute, ResetAfter: 10 * time.Minute}, GiveUp: core.GiveUp{Restarts: 3, Within: time.Hour}},
		Service:   service, State: core.NewState(),
	}
	s := &v.State
	s.Engine.State, s.Run.ID, s.Run.BeganAt = runtime.Running, id, dawn
	s.Conditions.Started, s.Conditions.Ready = core.Condition{Status: true, Since: dawn}, core.Condition{Status: true, Since: dawn}
	for _, change := range changes {
		change(v)
	}
	return v
}

func ended(v *core.View) {
	s := &v.State
	s.Engine.State = runtime.Exited
	s.Run.Exit = core.Exit{Code: 1, Reason: core.ReasonError, StartedAt: dawn, FinishedAt: dawn.Add(time.Second)}
	s.Conditions.Ready = core.Condition{Since: dawn.Add(time.Minute)}
}

func backoff(delay time.Duration) func(*core.View) {
	return func(v *core.View) {
		ended(v)
		v.State.Action.Restart, v.State.Lasting.Backoff = core.ByExit, core.BackoffState{Active: true, Delay: delay}
	}
}

func gaveUp(v *core.View) {
	ended(v)
	v.State.Action.Restart, v.State.Action.GaveUp = core.ByExit, true
}
func lost(v *core.View)     { v.State.Lost = true }
func held(v *core.View)     { v.State.Lasting.HeldHere = true }
func unready(v *core.View)  { v.State.Conditions.Ready = core.Condition{Since: dawn.Add(time.Minute)} }
func neverUp(v *core.View)  { v.State.Conditions.Ready = core.Condition{} }
func stopped(v *core.View)  { ended(v); v.State.Ending.By = core.EndedByOperator }
func complete(v *core.View) { ended(v); v.State.Run.Exit.Code = 0 }
func created(v *core.View) {
	neverUp(v)
	v.State.Engine.State, v.State.Run = runtime.Created, core.Run{}
}
func refused(v *core.View)  { v.Container.Error = "port is already allocated" }
func invalid(v *core.View)  { v.Spec, v.Invalid = nil, "labels" }
func byDocker(v *core.View) { v.Container.RestartPolicy, v.State.Run.LastByItself = "always", true }
func managed(v *core.View)  { v.Spec.ManagedElsewhere = "Nomad" }
func young(v *core.View)    { v.State.Run.BeganAt = later.Add(-time.Minute) }

func livenessFailed(v *core.View) {
	v.Spec.Probes[core.Liveness] = &core.ProbeSpec{}
	v.State.Health.Probes[core.Liveness] = core.ProbeState{Outcome: prober.Failure, Last: prober.Result{Output: "statuscode: 500\nnot well"}}
}

var later = dawn.Add(time.Hour)

// What of the board is wrong: REASON SUBJECT (after): cause.
func TestLook(t *testing.T) {
	away := supervisor.RuntimeView{Name: "docker", Synced: true, Err: errors.New("connection refused")}
	for _, tt := range []struct {
		name    string
		engine  supervisor.RuntimeView
		problem string
		views   []*core.View
		want    []string
	}{
		{"all is well", engineUp, "", []*core.View{container("web-1", "shop/web"), container("web-2", "shop/web", unready)}, nil},
		{"engine away", away, "", nil, []string{"RuntimeLost docker (30s): connection refused"}},
		{"engine not there yet", supervisor.RuntimeView{Name: "docker"}, "", nil, []string{"RuntimeLost docker (30s): "}},
		{"journal", engineUp, "cannot write: no space left", nil, []string{"JournalFailed  (30s): cannot write: no space left"}},

		{"short back-off", engineUp, "", []*core.View{container("web-1", "", backoff(20*time.Second))}, nil},
		{"crash loop", engineUp, "", []*core.View{container("web-1", "", backoff(40*time.Second))}, []string{"CrashLoop web-1 (0s): it ended with exit code 1 (Error)"}},
		{"longest back-off", engineUp, "", []*core.View{container("web-1", "", backoff(20*time.Second), func(v *core.View) { v.Spec.Backoff.Max = 20 * time.Second })},
			[]string{"CrashLoop web-1 (0s): it ended with exit code 1 (Error)"}},
		{"crash loop of an engine that is away", away, "", []*core.View{container("web-1", "", backoff(time.Minute), lost)}, []string{"RuntimeLost docker (30s): connection refused"}},
		{"crash loop, held", engineUp, "", []*core.View{container("web-1", "", backoff(time.Minute), held)}, nil},
		{"gave up", engineUp, "", []*core.View{container("web-1", "", gaveUp)}, []string{"GaveUp web-1 (0s): it ended with exit code 1 (Error)"}},
		{"gave up for a probe", engineUp, "", []*core.View{container("web-1", "", livenessFailed, func(v *core.View) {
			v.State.Health.Failed, v.State.Health.Wait.Reason = core.ByLiveness, core.WaitGaveUp
		})}, []string{"GaveUp web-1 (0s): its liveness probe failed: statuscode: 500 not well"}},
		{"waits for its group", engineUp, "", []*core.View{container("web-1", "", livenessFailed, func(v *core.View) {
			v.State.Health.Failed, v.State.Health.Wait.Reason = core.ByLiveness, core.WaitGroupLimit
		})}, nil},
		{"started again by Docker", engineUp, "", []*core.View{container("web-1", "", byDocker, young)}, []string{"may be CrashLoop web-1"}},
		{"started again by Docker long ago", engineUp, "", []*core.View{container("web-1", "", byDocker)}, nil},

		{"service down", engineUp, "", []*core.View{container("web-1", "shop/web", unready), container("web-2", "shop/web", unready)},
			[]string{"ServiceDown shop/web (30s): none of 2 containers is ready; web-1: ReadinessPending"}},
		{"one container that is down", engineUp, "", []*core.View{container("web-1", "shop/web", ended)},
			[]string{"ServiceDown shop/web (30s): its one container is not ready; web-1: NotRunning: it ended with exit code 1 (Error)"}},
		{"never up", engineUp, "", []*core.View{container("web-1", "shop/web", neverUp)},
			[]string{"ServiceDown shop/web (5m0s): its one container is not ready; web-1: ReadinessPending"}},
		{"never run", engineUp, "", []*core.View{container("web-1", "shop/web", created)}, nil},
		{"the engine could not start it", engineUp, "", []*core.View{container("web-1", "shop/web", created, refused)},
			[]string{"ServiceDown shop/web (5m0s): its one container is not ready; web-1: NotRunning: the engine did not start it: port is already allocated"}},
		{"one member cannot be seen", engineUp, "", []*core.View{container("web-1", "shop/web", unready), container("web-2", "shop/web", lost)}, nil},
		{"somebody stopped it", engineUp, "", []*core.View{container("web-1", "shop/web", stopped)}, nil},
		{"another orchestrator replaces it", engineUp, "", []*core.View{container("web-1", "shop/web", ended, managed)}, nil},
		{"its replacement is not ready", engineUp, "", []*core.View{container("web-1", "shop/web", ended, managed), container("web-2", "shop/web", unready, managed)},
			[]string{"ServiceDown shop/web (30s): none of 2 containers is ready; web-2: ReadinessPending"}},
		{"a job", engineUp, "", []*core.View{container("job-1", "shop/job", complete)}, nil},
		{"held", engineUp, "", []*core.View{container("web-1", "shop/web", unready, held)}, nil},
		{"one is held, the other down", engineUp, "", []*core.View{container("web-1", "shop/web", unready, held), container("web-2", "shop/web", ended)},
			[]string{"ServiceDown shop/web (30s): none of 2 containers is ready; web-2: NotRunning: it ended with exit code 1 (Error)"}},
		{"wrong labels", engineUp, "", []*core.View{container("web-1", "shop/web", unready, invalid)}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := look(supervisor.NewBoard([]supervisor.RuntimeView{tt.engine}, tt.views...), tt.problem, nil, later)
			var got []string
			for _, key := range sortedKeys(f.wrong) {
				found := f.wrong[key]
				got = append(got, found.Reason+" "+found.Container+found.Service+found.Runtime[:len(found.Runtime)*boolInt(found.Container == "")]+" ("+found.After.String()+"): "+found.Cause)
			}
			for _, key := range sortedKeys(f.ending) {
				got = append(got, "may be "+f.ending[key].Reason+" "+f.ending[key].Container)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("got\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(tt.want, "\n\t"))
			}
		})
	}
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Which open incidents last although nothing wrong is to be seen.
func TestUnsettled(t *testing.T) {
	crash := subject{Reason: CrashLoop, Runtime: "docker", Container: "web-1"}
	gave := subject{Reason: GaveUp, Runtime: "docker", Container: "web-1"}
	down := subject{Reason: ServiceDown, Service: "shop/web"}
	away, starting := supervisor.RuntimeView{Name: "docker", Synced: true}, supervisor.RuntimeView{Name: "docker"}
	for _, tt := range []struct {
		name   string
		of     subject
		engine supervisor.RuntimeView
		views  []*core.View
		want   bool
	}{
		{"runs for long", crash, engineUp, []*core.View{container("web-1", "")}, false},
		{"runs for a minute", crash, engineUp, []*core.View{container("web-1", "", young)}, true},
		{"runs for longer than reset_after", crash, engineUp, []*core.View{container("web-1", "", young, func(v *core.View) { v.Spec.Backoff.ResetAfter = 30 * time.Second })}, false},
		{"has ended, and starts again", crash, engineUp, []*core.View{container("web-1", "", backoff(time.Second))}, true},
		{"waits for Docker to start it again", crash, engineUp, []*core.View{container("web-1", "", byDocker, ended, func(v *core.View) { v.State.Engine.State = runtime.Restarting })}, true},
		{"somebody stopped it", crash, engineUp, []*core.View{container("web-1", "", stopped)}, false},
		{"it is gone", crash, engineUp, nil, false},
		{"its engine is away", crash, away, []*core.View{container("web-1", "", lost)}, true},
		{"healthd starts", crash, starting, nil, true},
		{"its engine is not configured any more", crash, supervisor.RuntimeView{Name: "other", Up: true, Synced: true}, nil, false},
		{"resumed", gave, engineUp, []*core.View{container("web-1", "")}, false},
		{"its probe has not succeeded since a restart of healthd", gave, engineUp, []*core.View{container("web-1", "", livenessFailed)}, true},
		{"its probe succeeds", gave, engineUp, []*core.View{container("web-1", "", livenessFailed, func(v *core.View) {
			v.State.Health.Probes[core.Liveness].Outcome = prober.Success
		})}, false},
		{"ready", down, engineUp, []*core.View{container("web-1", "shop/web")}, false},
		{"held", down, engineUp, []*core.View{container("web-1", "shop/web", unready, held)}, true},
		{"cannot be seen", down, away, []*core.View{container("web-1", "shop/web", lost)}, true},
		{"stopped by somebody", down, engineUp, []*core.View{container("web-1", "shop/web", stopped)}, false},
		{"no container any more", down, engineUp, nil, false},
		{"healthd starts, and knows none of them", down, starting, nil, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			open := map[string]incident{tt.of.key(): {subject: tt.of}}
			f := look(supervisor.NewBoard([]supervisor.RuntimeView{tt.engine}, tt.views...), "", open, later)
			if got := f.unsettled[tt.of.key()]; got != tt.want {
				t.Errorf("got %v", got)
			}
			if tt.want == false {
				s := newIncidents()
				s.open = open
				if s.step(f, later); len(s.open) > 0 {
					t.Error("it is still open")
				}
			}
		})
	}
}

// What a container says cannot break a line, and takes little room.
func TestClip(t *testing.T) {
	for text, want := range map[string]string{
		"a\nb\x1b[31mc\x00d": "a b [31mc d", "\n\n": "", "\xff": "?", strings.Repeat("x", 300): strings.Repeat("x", 300),
		strings.Repeat("ä", 200): strings.Repeat("ä", 148) + "…",
	} {
		if got := clip(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

// BenchmarkLook is one look at 10,000 containers, most of which are well.
func BenchmarkLook(b *testing.B) {
	var views []*core.View
	for i := range 10_000 {
		name := strings.Repeat("x", 10) + string(rune('a'+i%26)) + strings.Repeat("y", i/26%10)
		views = append(views, container(name, "shop/"+name))
		if i%100 == 0 {
			backoff(time.Minute)(views[i])
		}
		views[i].Container.ID = name + string(rune(i+0x1000))
	}
	board := supervisor.NewBoard([]supervisor.RuntimeView{engineUp}, views...)
	b.ReportAllocs()
	for b.Loop() {
		look(board, "", nil, later)
	}
}
