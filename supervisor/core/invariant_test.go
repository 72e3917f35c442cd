package core

import (
	"flag"
	"math/rand/v2"
	"testing"
	"time"

	"healthd/prober"
	"healthd/runtime"
)

// must fails the test unless a rule holds.
type must func(holds bool, rule string)

// checkInvariants checks what must be true of every step.
func (sim *simulation) checkInvariants(before State, in *Input, fx []Effect) {
	s := &sim.state
	must := func(holds bool, rule string) {
		if !holds {
			sim.t.Helper() // is slow
			sim.t.Fatalf("%v: %s\nbefore %+v\ninput %+v\nafter %+v\neffects %+v\n%s", sim.now.Sub(sim.start), rule, before, in, *s, fx, sim.transcript.String())
		}
	}
	sim.checkReady(must)
	sim.checkProgress(before, in, must)
	sim.checkHoldsAndWaits(before, in, must)
	sim.checkEffects(before, in, fx, must)
	if in.Kind == ProbeAnswered && in.Result.Outcome == prober.Unknown && s.Ending.First.Equal(before.Ending.First) {
		must(s.Health.Probes[in.Probe].Run == before.Health.Probes[in.Probe].Run && s.Conditions.Ready.Status == before.Conditions.Ready.Status, "Unknown does not count")
	}
	if in.Kind == EngineRestarted {
		must(!s.Ending.MaybeEngine, "after a restart of the engine it is clear whether its shutdown stopped the run")
	}
}

func (sim *simulation) checkReady(must must) {
	s := &sim.state
	must(!s.Conditions.Ready.Status || s.runs() && s.Conditions.Started.Status, "a ready container is running and started")
	must(!s.Conditions.Ready.Status || s.Action.Stopping == NoCause && s.Ending.First.IsZero(), "a container that is being stopped is not ready")
	must(!s.Conditions.Ready.Status || s.Conditions.ContainerReady.Status && firstUnmetGate(sim.spec, s) == "", "ready needs the readiness probe and every gate")
	must(!s.postStartPending() || !s.Conditions.Started.Status && !s.Conditions.Ready.Status, "a container is not started before its post_start hook has succeeded")
}

// checkProgress checks that what must follow is scheduled, and nothing else.
func (sim *simulation) checkProgress(before State, in *Input, must must) {
	s, next := &sim.state, NextTick(&sim.state)
	must(next.IsZero() || next.After(sim.now), "what is due is done in the same step")
	must(!sim.failureVerdict() || !next.IsZero() || s.Health.Probes[Liveness].Running || s.Health.Probes[Startup].Running || s.Action.Call != NoCall || s.Run.Hooks[PreStop] == HookRunning || s.Lost || s.Shutdown.Begun,
		"a failure verdict leads to a stop")
	must(!s.OperatorStopped() || s.Action.Restart == NoCause, "no start is due after an operator's stop")
	must(!s.OperatorStopped() || !s.Engine.State.Alive(), "a running container is not stopped")
	if s.runs() && !s.Draining() && !s.Conditions.Started.Status && !s.Shutdown.Begun && !sim.c.AutoRemove && s.Action.Call == NoCall {
		y := s.Health.Probes[Startup]
		must(s.Run.Hooks[PostStart] == HookDue || s.Run.Hooks[PostStart] == HookRunning || s.Health.Failed != NoCause || s.Lost ||
			sim.spec.Probes[Startup] != nil && (!y.Due.IsZero() || y.Running), "a container that is not started has a hook or a startup probe under way")
	}
	if s.Lasting.Backoff.Delay < before.Lasting.Backoff.Delay && in.Kind != SpecChanged && s.Engine.Resources == before.Engine.Resources {
		ended := before.Run
		if !s.Run.EndedAt.IsZero() {
			ended = s.Run
		}
		must(sim.now.Sub(ended.BeganAt) > sim.spec.Backoff.ResetAfter, "back-off shrinks only after a long run")
	}
}

// checkHoldsAndWaits checks holds, and restarts that have to wait.
func (sim *simulation) checkHoldsAndWaits(before State, in *Input, must must) {
	s := &sim.state
	must(!s.Lasting.HeldHere || s.Lasting.HeldHereUntil.IsZero() || s.Lasting.HeldHereUntil.After(sim.now), "a hold ends in time")
	begins := before.Action.Stopping == NoCause && s.Action.Stopping != NoCause
	if in.Kind == Signalled && before.Action.Call == StopCall && before.Request.Run != s.Run.ID {
		begins = false // the stop of the previous run hit this one
	}
	must(!s.Lasting.Held() || !begins, "no stop begins during a hold")
	must(s.Lasting.HeldHere == before.Lasting.HeldHere || in.Kind != FleetHolds, "the fleet begins and ends no hold of people")
	must(s.Lasting.FleetHold == before.Lasting.FleetHold || in.Kind == FleetHolds, "people begin and end no hold of the fleet")
	must(s.Action.GaveUp == before.Action.GaveUp || in.Kind != FleetHolds || s.Engine.State.Alive(), "the end of a hold ends the hold only")
	probed := s.Action.Stopping == ByLiveness || s.Action.Stopping == ByStartup
	must(!begins || !s.Run.Died || s.Action.Stopping == ByOperator, "no stop begins of a run whose end was told")
	must(!begins || !sim.spec.Observe || s.Action.Stopping == ByOperator, "no stop begins where healthd only observes")
	must(!begins || !probed || sim.spec.OnFailure != TellFailed, "no stop begins for a failure that healthd only tells")
	must(!s.Action.GaveUp || !begins, "no stop begins after healthd gave up")
	by := stepper{State: *s, spec: sim.spec, c: &sim.c}
	must(!s.Action.GaveUp || s.Health.Failed != NoCause || by.staysGivenUp(), "healthd gives up a restart")
	must(!s.Action.GaveUp || sim.spec.GiveUp.Restarts > 0, "healthd gives up only where it may")
	must(len(s.Restarted) <= max(sim.spec.GiveUp.Restarts, len(before.Restarted)), "no more restarts are counted than matter")
	must((s.Health.Failed == NoCause) == (s.Health.Wait == Wait{}), "a stop that need not wait begins")
	must(s.Health.Failed == NoCause || s.Engine.State.Alive() && s.Action.Stopping == NoCause && !s.Lost && !s.Shutdown.Begun && !sim.c.AutoRemove, "only a stop that healthd may make waits")
	must(!begins || !s.Action.Stopping.ByProbe() || sim.wait == Wait{}, "a stop that has to wait does not begin")
	for _, probe := range []ProbeType{Startup, Liveness} {
		y := s.Health.Probes[probe]
		must(s.Health.Failed != causeOf(probe) || s.Engine.State != runtime.Running || y.Running || !y.Due.IsZero(), "probes go on while a restart waits")
	}
}

func (sim *simulation) checkEffects(before State, in *Input, fx []Effect, must must) {
	s, calls := &sim.state, 0
	var probes [NumProbes]int
	for _, f := range fx {
		switch f.Kind {
		case StopContainer:
			calls++
			sim.checkStop(f, must)
		case StartContainer:
			calls++
			must(!s.Engine.State.Alive(), "only a container that does not run is started")
			must(!s.OperatorStopped(), "no start follows an operator's stop")
			by := stepper{State: *s, spec: sim.spec, c: &sim.c}
			must(by.shouldStart(s.Action.Restart) || s.Ending.By == EndedByEngine && by.startsAfterEngine(), "the policy says that it is started")
			must(!s.Lasting.Held() || s.Action.Restart != ByExit, "no start follows an exit during a hold")
			must(!sim.spec.Observe || s.Action.Restart != ByExit, "no start follows an exit where healthd only observes")
			must(!s.Action.GaveUp || s.Action.Restart != ByExit, "no start follows an exit after healthd gave up")
			must(sim.spec.OnFailure != StopFailed || s.Action.Restart != ByLiveness && s.Action.Restart != ByStartup, "a container in quarantine stays stopped")
		case RunHook:
			must(before.Run.Hooks[f.Hook] != HookRunning || before.Run.ID != s.Run.ID, "a hook does not overlap itself")
			must(s.Engine.State.Alive() && !s.Lost && f.Grace > 0, "a hook needs a running container and an engine")
			must(f.Hook == PreStop || s.Run.Hooks[PostStart] == HookRunning && s.Action.Stopping == NoCause, "post_start does not begin during a stop")
			must(f.Hook == PostStart || s.Action.Stopping != NoCause && !s.Conditions.Ready.Status, "readiness is withdrawn before pre_stop")
		case RunProbe:
			probes[f.Probe]++
			y := s.Health.Probes[f.Probe]
			must(!s.postStartPending(), "no probe before post_start has succeeded")
			must(!y.OnHold, "no probe on hold")
			must(probes[f.Probe] == 1 && y.Running, "one probe at a time")
			must(s.Engine.State == runtime.Running, "only a running container is probed")
			must(f.Probe == Startup != s.Conditions.Started.Status, "liveness and readiness wait for startup")
			must(f.Late >= 0, "no probe comes early")
		}
	}
	must(calls == 0 || calls == 1 && (before.Action.Call == NoCall || in.Kind == CallReturned), "one call at a time")
}

func (sim *simulation) checkStop(f Effect, must must) {
	s := &sim.state
	must(!s.Conditions.Ready.Status, "readiness is withdrawn before a stop")
	must(!s.Lost && s.Run.ID != (runtime.Run{}), "a stop needs an engine and a known run")
	must(s.Engine.State.Alive(), "only a running container is stopped")
	must(!sim.c.AutoRemove, "--rm containers are never stopped")
	if p := sim.spec.Publish; s.Action.StopCalls == 1 && !s.Action.Withdrawn.IsZero() && sim.spec.Lifecycle.PreStop == nil {
		known := earlier(s.Action.Withdrawn, s.Conditions.Ready.Since.Add(p.WithdrawWithin)) // then at the latest
		must(!sim.now.Before(known.Add(p.LeastDrain)), "load balancers that know of the withdrawal have had their time")
	}
	must(f.Grace >= MinGrace, "the stop signal gets its minimum time")
	must(s.Run.Hooks[PreStop] != HookRunning, "pre_stop ends before the stop")
	must(sim.spec.Lifecycle.PreStop == nil || s.Run.Hooks[PreStop] == HookDone || sim.c.StopTimeout == 0, "pre_stop comes before the stop")
}

// failureVerdict says that a probe has failed a run that goes on, and that healthd may stop
// it.
func (sim *simulation) failureVerdict() bool {
	s := &sim.state
	return s.runs() && !sim.c.AutoRemove &&
		(s.Health.Probes[Liveness].Result == prober.Failure || s.Health.Probes[Startup].Result == prober.Failure)
}

var (
	scripts = flag.Int("scripts", 0, "number of random scripts in TestRandomScripts; 0: 3000, with -short 500")
	seed    = flag.Uint64("seed", 1, "seed of the random scripts")
)

// TestRandomScripts is FuzzStep with the same scripts each time.
func TestRandomScripts(t *testing.T) {
	n := *scripts
	if n == 0 {
		n = 3000
		if testing.Short() {
			n = 500
		}
	}
	random := rand.New(rand.NewPCG(*seed, 2))
	var script []byte
	defer func() {
		if t.Failed() {
			t.Logf("the script is %q", script)
		}
	}()
	for range n {
		script = make([]byte, specBytes+2*random.IntN(40))
		for i := range script {
			script[i] = byte(random.Uint32())
		}
		runScript(t, script)
	}
}

// FuzzStep lets events happen in any order, at any time, with any kind of spec.
func FuzzStep(f *testing.F) {
	f.Add([]byte{0, 0, 1, 0, 5, 2, 9, 3, 200, 4, 7})
	f.Add([]byte("a c\x00ontainer's life is short and full of events"))
	f.Add([]byte{255, 0, 19, 0, 60, 10, 30, 0, 1, 12, 5, 9, 60, 9, 3, 2, 1, 17, 2})
	f.Add([]byte("P\x8e\xe0\x00\x8a|\x9e\xfe\xa4/j\xb1\x05\xb1\xb6yI;\xbd`\xcbh\xb2\x9aZ\x13\r\xf7+\xd1r\b\x04\v\xe9\xc7ᢒ\xd6f\x1d\xa9]'D\x9a1\xb5\xf5`\xd6\xf5\x19\x94q*Vk\xbdmo\xa8\x17z(\x1ax\xfcG\xf6k\x80\x9c"))
	f.Add([]byte("p\xf0f\x00\xf5R\xc2\xc6\xfcp\x0f\xb6\xa1\xeaS\x88\x01Mw9mV\xf5\x91\x9a{\xc78\xad\x80\xe0\xd6k\xb2\xe5\u0338\xfcBho\x06\x94\x84\t\xfc\x92\xb3\x85\x14^\x02NXI/\xb3\xa5<\x05@<\xc5\xc7"))
	f.Fuzz(func(t *testing.T, script []byte) {
		if len(script) >= specBytes && len(script) <= 120 {
			runScript(t, script)
		}
	})
}

const specBytes = 4 // of a script

// runScript simulates a container as a script says: four bytes of spec, then pairs of an
// event and the pause before it.
func runScript(t *testing.T, script []byte) {
	t.Helper()
	sim := newSimulation(t)
	sim.noTranscript = true
	sim.chooseSpec(script[0], script[1], script[2])
	sim.chooseActions(script[3])
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
	if b&24 == 24 {
		sim.spec.Publish.LeastDrain, sim.spec.Publish.WithdrawWithin = 2*time.Second, 10*time.Second
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

// chooseActions chooses what is done about failures.
func (sim *simulation) chooseActions(b byte) {
	sim.spec.OnFailure = []FailureAction{"", RestartFailed, StopFailed, TellFailed}[b&3]
	sim.spec.Observe = b>>2&3 == 3
	if b&16 != 0 {
		sim.spec.GiveUp = GiveUp{Restarts: 1 + int(b>>5), Within: time.Minute}
	}
}

// randomEvent lets the event of a byte happen, also if it cannot happen to a real container.
// The byte's upper bits choose the event's arguments.
func (sim *simulation) randomEvent(b byte) {
	randomEvents[int(b)%len(randomEvents)](sim, b)
}

// randomEvents are the events of random scripts. The scripts of FuzzStep know them by
// number.
var randomEvents = []func(sim *simulation, b byte){
	func(sim *simulation, _ byte) {
		if !sim.c.State.Alive() {
			sim.playNow("runs")
		}
	},
	func(sim *simulation, b byte) {
		if sim.c.State.Alive() {
			sim.playNow("exits " + oneOf(b, "0", "1", "137", "143"))
		}
	},
	func(sim *simulation, b byte) { sim.playNow("signalled " + oneOf(b, "15", "9", "1", "0")) },
	func(sim *simulation, _ byte) { sim.playNow("stop-event") },
	func(sim *simulation, _ byte) {
		if sim.c.State.Alive() {
			sim.playNow("docker-stop")
		}
	},
	func(sim *simulation, _ byte) {
		if sim.c.State == runtime.Running {
			sim.playNow("paused")
		}
	},
	func(sim *simulation, _ byte) {
		if sim.c.State == runtime.Paused {
			sim.playNow("unpaused")
		}
	},
	func(sim *simulation, _ byte) { sim.playNow("engine-lost") },
	func(sim *simulation, _ byte) { sim.playNow("engine-back") },
	func(sim *simulation, _ byte) {
		if !sim.c.AutoRemove && !sim.state.Lasting.Held() {
			sim.playNow("restart-asked")
		}
	},
	func(sim *simulation, b byte) { sim.playNow("stop-fails " + oneOf(b, "yes", "yes", "no", "no")) },
	func(sim *simulation, b byte) { sim.playNow("stop-refused " + oneOf(b, "yes", "yes", "no", "no")) },
	func(sim *simulation, b byte) { sim.playNow("start-fails " + oneOf(b, "yes", "yes", "no", "no")) },
	func(sim *simulation, _ byte) {
		if !sim.state.Stale(&sim.c, sim.now) {
			sim.step("an inspection", &Input{Kind: Observed})
		}
	},
	func(sim *simulation, _ byte) {
		sim.startRun() // healthd sees neither the end of the previous run nor the start
		sim.step("another run", &Input{Kind: Observed})
	},
	func(sim *simulation, b byte) {
		sim.step("an unexpected answer", &Input{Kind: ProbeAnswered, Probe: ProbeType(b >> 6 % NumProbes), Result: sim.answers[0]})
	},
	func(sim *simulation, b byte) {
		sim.playNow("startup " + oneOf(b, "succeeds", "fails", "unknown", "warns"))
	},
	func(sim *simulation, b byte) {
		sim.playNow("liveness " + oneOf(b, "succeeds", "fails", "unknown", "warns"))
	},
	func(sim *simulation, b byte) {
		sim.playNow("readiness " + oneOf(b, "succeeds", "fails", "unknown", "warns"))
	},
	func(sim *simulation, b byte) {
		if b > 230 {
			sim.playNow("shutdown")
		}
	},
	func(sim *simulation, b byte) {
		sim.playNow("gate " + oneOf(b, "warm True", "ok True", "warm False", "ok False"))
	},
	func(sim *simulation, b byte) { sim.playNow("resources " + oneOf(b, "1", "2", "3", "4")) },
	func(sim *simulation, b byte) {
		sim.playNow("post-start " + oneOf(b, "succeeds", "fails", "cannot", "falls-back"))
	},
	func(sim *simulation, b byte) {
		sim.playNow("pre-stop " + oneOf(b, "succeeds", "fails", "cannot", "falls-back"))
	},
	func(sim *simulation, b byte) { sim.playNow("reload " + sim.nextChange(b)) },
	func(sim *simulation, b byte) {
		sim.playNow([]string{"hold", "hold 3s", "hold 20s", "hold 5m", "fleet-holds a", "fleet-holds b", "fleet-holds", "fleet-holds"}[b>>5])
	},
	func(sim *simulation, b byte) {
		if b > 192 {
			sim.playNow("drained")
			return
		}
		sim.playNow("resume")
	},
	func(sim *simulation, _ byte) { sim.playNow("limit another") },
	func(sim *simulation, b byte) {
		if b > 128 {
			sim.playNow("withdrawn")
			return
		}
		sim.playNow("limit-over")
	},
	func(sim *simulation, b byte) {
		if b > 128 {
			sim.inspectionsFail, sim.refusesConnections = !sim.inspectionsFail, b > 192
			return
		}
		sim.playNow("engine-restarts")
	},
	func(sim *simulation, b byte) {
		if !sim.state.Shutdown.Begun {
			sim.playNow(oneOf(b, "daemon-killed heard", "daemon-killed unheard", "reconfigured "+sim.nextChange(b), "reconfigured "+sim.nextChange(b)))
		}
	},
	func(sim *simulation, b byte) {
		sim.playNow("engine-clock " + oneOf(b, "-200ms", "-10m", "10m", "-20000h"))
	},
}

// randomChanges are what random scripts change of the spec, by a reload or while no daemon runs.
var randomChanges = []string{
	"policy=Never", "readiness=0s/2s/2/2 liveness=none", "startup=none backoff=1s/5s/10m", "policy=Always startup=1s/1s/1/1 liveness=0s/7s/1/3",
	"give-up=0/0s", "give-up=1/1m", "give-up=3/20s on-failure=stop", "observe=yes", "observe=no on-failure=none", "on-failure=restart policy=OnFailure",
	"post-start=none", "post-start=3s pre-stop=none", "withdraw-within=0s least-drain=0s drain=1s", "startup=none post-start=none give-up=0/0s observe=no policy=Always",
}

// nextChange chooses one by the byte, another each time.
func (sim *simulation) nextChange(b byte) string {
	sim.changed++
	return randomChanges[(int(b)+sim.changed)%len(randomChanges)]
}

// oneOf returns the text that the upper two bits of a byte choose.
func oneOf(b byte, texts ...string) string { return texts[b>>6] }
