package core

import (
	"flag"
	"math/rand/v2"
	"testing"
	"time"

	"healthd/prober"
	"healthd/runtime"
)

// check holds one step against what must be true of every step.
func (sim *simulation) checkInvariants(before State, in *Input, fx []Effect) {
	s := &sim.state
	must := func(ok bool, rule string) {
		if !ok {
			sim.t.Helper() // is dear
			sim.t.Fatalf("%v: %s\nbefore %+v\ninput %+v\nafter %+v\neffects %+v\n%s", sim.now.Sub(sim.start), rule, before, in, *s, fx, sim.transcript.String())
		}
	}
	next := NextTick(s)
	must(!s.Conditions.Ready.Status || s.Engine.State == runtime.Running && s.Conditions.Started.Status, "ready means running and started")
	must(!s.Conditions.Ready.Status || s.Action.Stopping == NoCause && s.Ending.First.IsZero(), "nothing that is being stopped is ready")
	must(!sim.stopVerdict() || !next.IsZero() || s.Health.Probes[Liveness].Running || s.Health.Probes[Startup].Running || s.Action.Call != NoCall || s.Run.Hooks[PreStop] == HookRunning || s.Lost || s.Shutdown.Begun,
		"a verdict to stop leads to a stop")
	must(!s.OperatorStopped() || s.Action.Restart == NoCause, "no start is due for what the operator stopped")
	must(next.IsZero() || next.After(sim.now), "what is due is done in the same step")
	must(!s.Conditions.Ready.Status || s.Conditions.ContainerReady.Status && firstUnmetGate(sim.spec, s) == "", "ready means that the probe and every gate say so")
	if s.Engine.State == runtime.Running && !s.Draining() && !s.Conditions.Started.Status && !s.Shutdown.Begun && !sim.c.AutoRemove && s.Action.Call == NoCall {
		y := s.Health.Probes[Startup]
		must(s.Run.Hooks[PostStart] == HookDue || s.Run.Hooks[PostStart] == HookRunning || s.Health.Failed != NoCause || s.Lost ||
			sim.spec.Probes[Startup] != nil && (!y.Due.IsZero() || y.Running), "what is not started is on its way to be")
	}
	must(!s.postStartPending() || !s.Conditions.Started.Status && !s.Conditions.Ready.Status, "nothing is started before its post_start hook has ended")
	if s.Lasting.Backoff.Delay < before.Lasting.Backoff.Delay && in.Kind != SpecChanged && s.Engine.Resources == before.Engine.Resources {
		must(s.Run.Exit.FinishedAt.Sub(s.Run.Exit.StartedAt) > sim.spec.Backoff.ResetAfter, "back-off shrinks only after a long run")
	}
	sim.checkWaitingInvariants(before, in, must)
	calls := 0
	var asked [NumProbes]int
	for _, f := range fx {
		switch f.Kind {
		case StopContainer:
			calls++
			must(!s.Conditions.Ready.Status, "readiness is withdrawn before a stop")
			must(!s.Lost && s.Run.ID != (runtime.Run{}), "nothing is stopped that cannot be seen")
			must(s.Engine.State.Alive(), "only what runs is stopped")
			must(!sim.c.AutoRemove, "--rm containers are never stopped")
			must(f.Grace >= MinGrace, "the stop signal gets its time")
			must(s.Run.Hooks[PreStop] != HookRunning, "pre_stop ends before the stop")
			must(sim.spec.Lifecycle.PreStop == nil || s.Run.Hooks[PreStop] == HookDone || sim.c.StopTimeout == 0, "pre_stop comes before the stop")
		case StartContainer:
			calls++
			must(!s.Engine.State.Alive(), "only what does not run is started")
			must(!s.OperatorStopped(), "what the operator stopped is not started")
			must(!s.Lasting.Held || s.Action.Restart != ByExit, "what is held is not started after an exit")
		case RunHook:
			must(before.Run.Hooks[f.Hook] != HookRunning || before.Run.ID != s.Run.ID, "a hook runs once")
			must(s.Engine.State.Alive() && !s.Lost && f.Grace > 0, "a hook is for what runs and can be reached")
			must(f.Hook == PreStop || s.Run.Hooks[PostStart] == HookRunning && s.Action.Stopping == NoCause, "nothing begins that is about to end")
			must(f.Hook == PostStart || s.Action.Stopping != NoCause && !s.Conditions.Ready.Status, "readiness is withdrawn before pre_stop")
		case RunProbe:
			must(!s.postStartPending(), "no probe before post_start has ended")
			asked[f.Probe]++
			y := s.Health.Probes[f.Probe]
			must(!y.OnHold, "on hold means no probe")
			must(asked[f.Probe] == 1 && y.Running, "one probe at a time")
			must(s.Engine.State == runtime.Running, "only what runs is probed")
			must(f.Probe == Startup != s.Conditions.Started.Status, "startup gates liveness and readiness")
			must(f.Late >= 0, "no probe comes early")
		}
	}
	must(calls == 0 || calls == 1 && (before.Action.Call == NoCall || in.Kind == CallReturned), "one call at a time")
	if in.Kind == ProbeAnswered && in.Result.Outcome == prober.Unknown && s.Ending.First.Equal(before.Ending.First) {
		must(s.Health.Probes[in.Probe].Run == before.Health.Probes[in.Probe].Run && s.Conditions.Ready.Status == before.Conditions.Ready.Status, "unknown moves nothing")
	}
}

// checkWaiting is check for holds and for restarts that have to wait.
func (sim *simulation) checkWaitingInvariants(before State, in *Input, must func(bool, string)) {
	sim.t.Helper()
	s := &sim.state
	must(!s.Lasting.Held || s.Lasting.HeldUntil.IsZero() || s.Lasting.HeldUntil.After(sim.now), "a hold ends in time")
	begins := before.Action.Stopping == NoCause && s.Action.Stopping != NoCause
	if in.Kind == Signalled && before.Action.Call == StopCall && before.Request.Run != s.Run.ID {
		begins = false // it was made for the run before, and has hit this one
	}
	must(!s.Lasting.Held || !begins, "no stop begins of what is held")
	must((s.Health.Failed == NoCause) == (s.Health.Wait == Wait{}), "a verdict that need not wait is carried out")
	must(s.Health.Failed == NoCause || s.Engine.State.Alive() && s.Action.Stopping == NoCause && !s.Lost && !s.Shutdown.Begun && !sim.c.AutoRemove, "only what may be stopped waits for it")
	must(!begins || !s.Action.Stopping.ByProbe() || sim.wait == Wait{}, "no stop begins that has to wait")
	for _, probe := range []ProbeType{Startup, Liveness} {
		y := s.Health.Probes[probe]
		must(s.Health.Failed != causeOf(probe) || s.Engine.State != runtime.Running || y.Running || !y.Due.IsZero(), "what waits is still probed")
	}
	must(!s.OperatorStopped() || !s.Engine.State.Alive(), "what runs is not stopped")
	if in.Kind == EngineRestarted {
		must(!s.Ending.MaybeEngine, "the return of the engine settles whose wish it was")
	}
}

// condemned says that a probe has given the verdict to stop the container, which
// still runs.
func (sim *simulation) stopVerdict() bool {
	s := &sim.state
	return s.Engine.State == runtime.Running && !sim.c.AutoRemove &&
		(s.Health.Probes[Liveness].Result == prober.Failure || s.Health.Probes[Startup].Result == prober.Failure)
}

var (
	sequences = flag.Int("sequences", 3000, "random sequences of TestSweep")
	sweepSeed = flag.Uint64("sweep-seed", 1, "where they begin")
)

// TestSweep is the fuzz test on scripts that are the same each time.
func TestSweep(t *testing.T) {
	random := rand.New(rand.NewPCG(*sweepSeed, 2))
	var script []byte
	defer func() {
		if t.Failed() {
			t.Logf("the script is %q", script)
		}
	}()
	for range *sequences {
		script = make([]byte, specBytes+2*random.IntN(40))
		for i := range script {
			script[i] = byte(random.Uint32())
		}
		runScript(t, script)
	}
}

// FuzzStep lets anything happen in any order, at any time, to any kind of spec.
func FuzzStep(f *testing.F) {
	f.Add([]byte{0, 0, 1, 5, 2, 9, 3, 200, 4, 7})
	f.Add([]byte("a container's life is short and full of events"))
	f.Add([]byte{255, 0, 19, 60, 10, 30, 0, 1, 12, 5, 9, 60, 9, 3, 2, 1, 17, 2})
	f.Add([]byte("P\x8e\xe0\x8a|\x9e\xfe\xa4/j\xb1\x05\xb1\xb6yI;\xbd`\xcbh\xb2\x9aZ\x13\r\xf7+\xd1r\b\x04\v\xe9\xc7ᢒ\xd6f\x1d\xa9]'D\x9a1\xb5\xf5`\xd6\xf5\x19\x94q*Vk\xbdmo\xa8\x17z(\x1ax\xfcG\xf6k\x80\x9c"))
	f.Add([]byte("p\xf0f\xf5R\xc2\xc6\xfcp\x0f\xb6\xa1\xeaS\x88\x01Mw9mV\xf5\x91\x9a{\xc78\xad\x80\xe0\xd6k\xb2\xe5\u0338\xfcBho\x06\x94\x84\t\xfc\x92\xb3\x85\x14^\x02NXI/\xb3\xa5<\x05@<\xc5\xc7"))
	f.Fuzz(func(t *testing.T, script []byte) {
		if len(script) >= specBytes && len(script) <= 120 {
			runScript(t, script)
		}
	})
}

const specBytes = 3

// live lets a container live as a script says: three bytes of spec, then pairs of an
// event and the time before it.
func runScript(t *testing.T, script []byte) {
	t.Helper()
	sim := newSimulation(t)
	sim.noTranscript = true
	sim.chooseSpec(script[0], script[1], script[2])
	at := sim.start
	for i := specBytes; i+1 < len(script); i += 2 {
		at = at.Add(fuzzedPause(script[i+1]))
		sim.advanceTo(at)
		sim.randomEvent(script[i])
	}
	sim.advanceTo(at.Add(10 * time.Minute))
}

func fuzzedPause(b byte) time.Duration {
	if b > 200 {
		return time.Duration(b-200) * 5 * time.Second
	}
	return time.Duration(b) * 100 * time.Millisecond
}

func (sim *simulation) chooseSpec(a, b, c byte) {
	for i, name := range []string{"startup", "liveness", "readiness"} {
		if a&(1<<i) != 0 {
			_ = sim.setProbe(name, []string{"0s/10s/1/1", "3s/7s/1/3"}[b>>i&1])
		}
	}
	if p := sim.spec.Probes[Readiness]; p != nil && a&8 != 0 {
		p.SuccessThreshold = 3
	}
	sim.spec.RestartPolicy = []RestartPolicy{Always, OnFailure, Never, Always}[a>>4&3]
	sim.c.AutoRemove = a>>6 == 3
	if b&8 != 0 {
		sim.c.RestartPolicy = "always"
	}
	if b&16 != 0 {
		sim.spec.Publish.Drain = 5 * time.Second
	}
	sim.stopTakes = time.Duration(b>>5) * time.Second
	for hook, takes := range [numHooks][]string{{"", "0s", "3s", "1h"}, {"", "0s", "3s", "1h"}} {
		if word := takes[c>>(2*hook)&3]; word != "" {
			_ = sim.set([]string{"post-start", "pre-stop"}[hook], word)
		}
	}
	if c&16 != 0 {
		sim.spec.ReadinessGates = []string{"warm", "ok"}
	}
	if c&32 != 0 {
		_ = sim.setRule([]RuleOperator{In, NotIn}[c>>6&1], "1,137")
	}
	if c>>6 == 3 {
		sim.c.StopTimeout = 0
	}
}

// anything lets one thing happen, possible or not.
func (sim *simulation) randomEvent(b byte) {
	alive := sim.c.State.Alive()
	answer := []string{"succeeds", "fails", "unknown", "warns"}[b>>6]
	switch b % 30 {
	case 0:
		if !alive {
			_ = sim.playEvent("runs", nil)
		}
	case 1:
		if alive {
			_ = sim.playEvent("exits", []string{[]string{"0", "1", "137", "143"}[b>>6]})
		}
	case 2:
		_ = sim.playEvent("signalled", []string{[]string{"15", "9", "1", "0"}[b>>6]})
	case 3:
		_ = sim.playEvent("stop-event", nil)
	case 4:
		if alive {
			_ = sim.playEvent("docker-stop", nil)
		}
	case 5:
		if sim.c.State == runtime.Running {
			_ = sim.playEvent("paused", nil)
		}
	case 6:
		if sim.c.State == runtime.Paused {
			_ = sim.playEvent("unpaused", nil)
		}
	case 7:
		_ = sim.playEvent("engine-lost", nil)
	case 8:
		_ = sim.playEvent("engine-back", nil)
	case 9:
		if !sim.c.AutoRemove && !sim.state.Lasting.Held {
			_ = sim.playEvent("restart-asked", nil)
		}
	case 10:
		_ = sim.playEvent("stop-fails", []string{[]string{"yes", "no"}[b>>7]})
	case 11:
		_ = sim.playEvent("start-fails", []string{[]string{"yes", "no"}[b>>7]})
	case 12:
		if !sim.state.Stale(&sim.c) {
			sim.step("an inspection", &Input{Kind: Observed})
		}
	case 13:
		sim.startRun() // its start and the end before went unseen
		sim.step("another run", &Input{Kind: Observed})
	case 14:
		sim.step("an answer nobody waits for", &Input{Kind: ProbeAnswered, Probe: ProbeType(b >> 6 % NumProbes), Result: sim.answers[0]})
	case 15:
		_ = sim.playEvent("startup", []string{answer})
	case 16:
		_ = sim.playEvent("liveness", []string{answer})
	case 17:
		_ = sim.playEvent("readiness", []string{answer})
	case 18:
		if b > 230 {
			_ = sim.playEvent("shutdown", nil)
		}
	case 19:
		_ = sim.playEvent("gate", []string{[]string{"warm", "ok"}[b>>6&1], []string{"True", "False"}[b>>7]})
	case 20:
		_ = sim.playEvent("resources", []string{[]string{"1", "2", "3", "4"}[b>>6]})
	case 21:
		_ = sim.setHookResult(PostStart, []string{"succeeds", "fails", "cannot", "falls-back"}[b>>6])
	case 22:
		_ = sim.setHookResult(PreStop, []string{"succeeds", "fails", "cannot", "falls-back"}[b>>6])
	case 23:
		_ = sim.playEvent("reload", [][]string{
			{"policy=Never"}, {"readiness=0s/2s/2/2", "liveness=none"}, {"startup=none", "backoff=1s/5s/10m"}, {"policy=Always", "startup=1s/1s/1/1", "liveness=0s/7s/1/3"},
		}[b>>6])
	default:
		sim.anythingNew(b)
	}
}

// anythingNew is anything that concerns holds, limits and daemons that come back.
func (sim *simulation) anythingNew(b byte) {
	switch b % 30 {
	case 24:
		_ = sim.playEvent("hold", [][]string{{}, {"3s"}, {"20s"}, {"5m"}}[b>>6])
	case 25:
		if b > 192 {
			_ = sim.playEvent("drained", nil)
			return
		}
		_ = sim.playEvent("resume", nil)
	case 26:
		_ = sim.playEvent("limit", []string{"another"})
	case 27:
		_ = sim.playEvent("limit-over", nil)
	case 28:
		if b > 128 {
			sim.inspectionsFail, sim.refusesConnections = !sim.inspectionsFail, b > 192
			return
		}
		_ = sim.playEvent("engine-restarts", nil)
	case 29:
		if !sim.state.Shutdown.Begun {
			_ = sim.playEvent("daemon-killed", []string{[]string{"heard", "unheard"}[b>>7]})
		}
	}
}
