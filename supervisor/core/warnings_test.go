package core

import (
	"slices"
	"testing"
	"time"

	"healthd/prober"
	"healthd/runtime"
)

func TestWarnings(t *testing.T) {
	const (
		twice = "the engine runs the command of its HEALTHCHECK, and healthd the command of its liveness probe: one command is enough with the handler engine_health"
		both  = "the engine runs the command of its HEALTHCHECK, and healthd the command of its liveness and readiness probe: one command is enough with the handler engine_health"
	)
	exec := func(grace time.Duration) *ProbeSpec {
		return &ProbeSpec{Handler: prober.Handler{Exec: &prober.Exec{Command: []string{"true"}}}, TerminationGracePeriod: grace}
	}
	tcp := func(grace time.Duration) *ProbeSpec {
		return &ProbeSpec{Handler: prober.Handler{TCPSocket: &prober.TCPSocket{Port: 80}}, TerminationGracePeriod: grace}
	}
	engineHealth := &ProbeSpec{Handler: prober.Handler{EngineHealth: &prober.EngineHealth{}}}
	short := func(grace string) string {
		return "its own stop timeout is 1m0s, but healthd gives it only " + grace + " (termination_grace_period)"
	}
	running := func(pid int, address string) runtime.Container {
		return runtime.Container{State: runtime.Running, StopTimeout: -1, Pid: pid, Address: address}
	}
	seen := func(from runtime.Vantage) runtime.Container {
		from.Own = "hd"
		c := running(7, "10.0.0.1")
		c.Network, c.From = "b", &from
		return c
	}
	const unreached = "it is in the network b, and healthd's own container (hd) is not: connect that to b, or run healthd with --network=host"
	tcpOutside := &ProbeSpec{Handler: prober.Handler{TCPSocket: &prober.TCPSocket{Port: 80, Via: prober.ViaHost}}}
	grpcInside := &ProbeSpec{Handler: prober.Handler{GRPC: &prober.GRPC{Port: 80, Via: prober.ViaContainer}}}
	getInside := &prober.LifecycleHandler{HTTPGet: &prober.HTTPGet{Port: 80, Via: prober.ViaContainer}}
	checked := runtime.Container{HasHealthcheck: true, StopTimeout: -1}
	slow := runtime.Container{StopTimeout: time.Minute}
	for _, tt := range []struct {
		name   string
		c      runtime.Container
		probes [NumProbes]*ProbeSpec
		grace  time.Duration // of the spec
		want   []string
	}{
		{"nothing", runtime.Container{StopTimeout: -1}, [NumProbes]*ProbeSpec{Liveness: exec(0)}, 0, nil},
		{"healthcheck and exec", checked, [NumProbes]*ProbeSpec{Liveness: exec(0)}, 0, []string{twice}},
		{"two execs", checked, [NumProbes]*ProbeSpec{Liveness: exec(0), Readiness: exec(0)}, 0, []string{both}},
		{"exec at the start only", checked, [NumProbes]*ProbeSpec{Startup: exec(0), Liveness: tcp(0)}, 0, nil},
		{"healthcheck and engine_health", checked, [NumProbes]*ProbeSpec{Liveness: engineHealth}, 0, nil},
		{"engine_health without a healthcheck", runtime.Container{StopTimeout: -1}, [NumProbes]*ProbeSpec{Liveness: engineHealth}, 0,
			[]string{"its liveness probe asks for the engine's HEALTHCHECK, and the container has none: the result is Unknown for ever, so nobody notices when it fails"}},
		{"engine_health without a healthcheck, for all", runtime.Container{StopTimeout: -1}, [NumProbes]*ProbeSpec{Startup: engineHealth, Liveness: engineHealth, Readiness: engineHealth}, 0,
			[]string{"its liveness and readiness and startup probe asks for the engine's HEALTHCHECK, and the container has none: the result is Unknown for ever, so it never counts as started"}},
		{"a healthcheck that nobody asks", checked, [NumProbes]*ProbeSpec{}, 0,
			[]string{"it has a HEALTHCHECK of the engine, and no probe: healthd does nothing when it is unhealthy; liveness.engine_health = {} has it restarted then"}},
		{"own stop timeout", slow, [NumProbes]*ProbeSpec{Liveness: tcp(0)}, 0, nil},
		{"grace of the spec", slow, [NumProbes]*ProbeSpec{Liveness: tcp(0)}, 10 * time.Second, []string{short("10s after a failed liveness probe")}},
		{"as long", slow, [NumProbes]*ProbeSpec{Liveness: tcp(0)}, time.Minute, nil},
		{"grace of the probe is longer", slow, [NumProbes]*ProbeSpec{Liveness: tcp(time.Hour)}, 10 * time.Second, nil},
		{
			"grace of the probes", slow, [NumProbes]*ProbeSpec{Startup: tcp(time.Second), Liveness: tcp(5 * time.Second)}, 0,
			[]string{short("5s after a failed liveness probe and 2s after a failed startup probe")},
		},
		{"readiness stops nothing", slow, [NumProbes]*ProbeSpec{Readiness: tcp(0)}, 10 * time.Second, nil},
		{"never stopped", runtime.Container{StopTimeout: time.Minute, AutoRemove: true}, [NumProbes]*ProbeSpec{Liveness: tcp(0)}, 10 * time.Second, nil},
		{"no stop timeout", runtime.Container{StopTimeout: -1}, [NumProbes]*ProbeSpec{Liveness: tcp(0)}, 3 * time.Second, nil},
		{"policy of the engine", runtime.Container{StopTimeout: -1, RestartPolicy: "always"}, [NumProbes]*ProbeSpec{Liveness: tcp(0)}, 0, nil},
		{"autoheal's label, which says nothing of autoheal", runtime.Container{StopTimeout: -1, Labels: map[string]string{"autoheal": "true"}}, [NumProbes]*ProbeSpec{Liveness: tcp(0)}, 0, nil},
		{
			"all", runtime.Container{HasHealthcheck: true, StopTimeout: time.Minute},
			[NumProbes]*ProbeSpec{Liveness: exec(0)}, 10 * time.Second, []string{twice, short("10s after a failed liveness probe")},
		},
	} {
		v := &View{Container: &tt.c, Spec: &Spec{Probes: tt.probes, TerminationGracePeriod: tt.grace}, State: NewState()}
		if got := v.Warnings(); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
	for _, tt := range []struct {
		name        string
		c           runtime.Container
		spec        Spec
		cannotEnter string
		want        []string
	}{
		{"nothing to enter", running(0, "10.0.0.1"), Spec{Probes: [NumProbes]*ProbeSpec{Liveness: tcp(0)}}, "cannot", nil},
		{"can enter", running(7, ""), Spec{Probes: [NumProbes]*ProbeSpec{Liveness: tcp(0)}}, "", nil},
		{"cannot enter", running(7, ""), Spec{Probes: [NumProbes]*ProbeSpec{Liveness: tcp(0), Readiness: exec(0)}}, "cannot X",
			[]string{"its liveness probe cannot run: healthd cannot X"}},
		{"on another host", running(0, "10.0.0.1"), Spec{Probes: [NumProbes]*ProbeSpec{Startup: grpcInside, Readiness: tcp(0)}}, "",
			[]string{"its startup probe cannot run: healthd cannot enter the container's network namespace: its engine is on another host"}},
		{"all", running(7, ""), Spec{
			Probes:    [NumProbes]*ProbeSpec{Startup: grpcInside, Liveness: tcp(0), Readiness: tcp(0)},
			Lifecycle: Lifecycle{PostStart: getInside, PreStop: getInside},
		}, "cannot X", []string{"its startup probe and liveness probe and readiness probe and post_start hook and pre_stop hook cannot run: healthd cannot X"}},
		{"in another network than healthd", seen(runtime.Vantage{CannotEnter: "hd needs X"}), Spec{Probes: [NumProbes]*ProbeSpec{Liveness: tcp(0)}}, "",
			[]string{"its liveness probe cannot run: " + unreached + "; and healthd cannot enter the container's network namespace: hd needs X"}},
		{"in another network, which healthd may enter", seen(runtime.Vantage{}), Spec{Probes: [NumProbes]*ProbeSpec{Liveness: tcp(0)}}, "", nil},
		{"in another network, asked from the host", seen(runtime.Vantage{}), Spec{Probes: [NumProbes]*ProbeSpec{Readiness: tcpOutside}}, "",
			[]string{"its readiness probe cannot run: " + unreached}},
		{"in healthd's network", seen(runtime.Vantage{Networks: []string{"b"}, CannotEnter: "hd needs X"}), Spec{Probes: [NumProbes]*ProbeSpec{Liveness: tcp(0), Readiness: tcpOutside}}, "", nil},
		{"inside, without the rights", seen(runtime.Vantage{HostNetwork: true, CannotEnter: "hd needs X"}), Spec{Probes: [NumProbes]*ProbeSpec{Startup: grpcInside}}, "",
			[]string{"its startup probe cannot run: healthd cannot enter the container's network namespace: hd needs X"}},
		{"commands that healthd does not see", seen(runtime.Vantage{Blind: true}), Spec{
			Probes: [NumProbes]*ProbeSpec{Liveness: exec(0)}, Lifecycle: Lifecycle{PreStop: &prober.LifecycleHandler{Exec: &prober.Exec{Command: []string{"true"}}}},
		}, "", []string{"healthd cannot end a command that hangs in its liveness probe and pre_stop hook: healthd's own container (hd) needs --pid=host"}},
		{"does not run", runtime.Container{State: runtime.Exited, StopTimeout: -1}, Spec{Probes: [NumProbes]*ProbeSpec{Liveness: tcp(0)}}, "cannot X", nil},
	} {
		v := &View{Container: &tt.c, Spec: &tt.spec, CannotEnter: tt.cannotEnter, State: NewState()}
		if got := v.Warnings(); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
	invalid := &View{Container: &runtime.Container{HasHealthcheck: true, StopTimeout: time.Minute}, Invalid: "label", State: NewState()}
	if got := invalid.Warnings(); got != nil {
		t.Errorf("invalid: %q", got)
	}
}

// A job that nobody has called one is started for ever.
func TestWarningOfAJob(t *testing.T) {
	const job = `it exits with 0 by itself, and healthd starts it again and again, because no restart_policy is set: if it is a job, set restart_policy = "OnFailure" or "Never"`
	for _, tt := range []struct {
		name   string
		change func(v *View)
		want   string
	}{
		{"has ended", func(*View) {}, job},
		{"runs again", func(v *View) {
			v.State.Run.LastExit, v.State.Run.Exit, v.State.Action.Restart, v.State.Lasting.Restarts[ByExit] = v.State.Run.Exit, Exit{}, NoCause, 1
			v.State.Run.LastByItself, v.State.Ending.By = true, NotEnded
		}, job},
		{"was started by an operator", func(v *View) {
			v.State.Run.LastExit, v.State.Run.Exit, v.State.Action.Restart = v.State.Run.Exit, Exit{}, NoCause
		}, ""},
		{"policy is meant", func(v *View) { v.Spec.Values[0].Origin = "healthd.toml:3" }, ""},
		{"of the engine's policy", func(v *View) { v.Container.RestartPolicy = "always" }, ""},
		{"stays stopped", func(v *View) { v.State.Action.Restart = NoCause }, ""},
		{"has failed", func(v *View) { v.State.Run.Exit.Reason = ReasonError }, ""},
	} {
		v := &View{
			Container: &runtime.Container{StopTimeout: -1, RestartPolicy: "no"},
			Spec:      &Spec{RestartPolicy: Always, Values: []Value{{Path: "restart_policy", Value: `"Always"`, Origin: OriginDefault}}},
			State:     State{Kept: &Kept{Run: Run{Exit: Exit{Reason: ReasonCompleted}}, Action: Action{Restart: ByExit}, Ending: Ending{By: EndedByItself}}},
		}
		tt.change(v)
		if got := v.warnJob(); got != tt.want {
			t.Errorf("%s: %q", tt.name, got)
		}
	}
}

// What somebody else has ended is no job, although it exits with 0.
func TestNoWarningOfAServerThatIsRestarted(t *testing.T) {
	for name, story := range map[string][]string{
		"by healthd restart": {"0s runs", "1m exits 1", "2m restart-asked", "3m"},
		"with its engine":    {"0s runs", "1m engine-ends", "1m signalled 15", "1m exits 0", "61s engine-restarts", "3m"},
		"by itself":          {"0s runs", "1m exits 0", "3m"},
	} {
		sim := newSimulation(t)
		sim.spec.Values = []Value{{Path: "restart_policy", Origin: OriginDefault}}
		sim.play(story...)
		v := sim.view()
		if s := &v.State; !s.Engine.State.Alive() || s.Run.LastExit.Code != 0 || s.Run.LastExit.Reason != ReasonCompleted {
			t.Fatalf("%s: the last run ended by %+v:\n%s", name, s.Run.LastExit, sim.transcript.String())
		}
		if warned := v.warnJob() != ""; warned != (name == "by itself") {
			t.Errorf("%s: warned %v\n%s", name, warned, sim.transcript.String())
		}
	}
}
