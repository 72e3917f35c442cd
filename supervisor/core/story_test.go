package core

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"healthd/prober"
	"healthd/runtime"
)

var updateFlag = flag.Bool("update", false, "rewrite the transcripts")

// A story is a file of two parts: what happens to one container, and, after a line of
// dashes, the transcript of what the core decides. The engine carries out stops and starts
// at once, unless the story says otherwise. A probe answers what the story said last.
func TestStories(t *testing.T) {
	files, err := filepath.Glob("testdata/stories/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no stories: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) { runStory(t, file) })
	}
}

const separator = "\n----\n"

func runStory(t *testing.T, file string) {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	script, want, _ := strings.Cut(string(text), separator)
	sim := newSimulation(t)
	lines := bufio.NewScanner(strings.NewReader(script))
	for n := 1; lines.Scan(); n++ {
		if line := strings.TrimSpace(lines.Text()); line != "" && line[0] != '#' {
			if err := sim.playLine(strings.Fields(line)); err != nil {
				t.Fatalf("%s:%d: %v", file, n, err)
			}
		}
	}
	if sim.state.Shutdown.Begun && !sim.state.Settled() {
		t.Errorf("%s: healthd could not end: %+v", file, sim.state)
	}
	got := sim.transcript.String()
	if *updateFlag {
		if err := os.WriteFile(file, []byte(strings.TrimRight(script, "\n")+separator+got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got != want {
		t.Errorf("%s: the transcript is\n%s\nwant\n%s", file, got, want)
	}
}

// playLine plays one line of a story: settings, or "TIME EVENT …".
func (sim *simulation) playLine(words []string) error {
	if strings.Contains(words[0], "=") {
		return sim.setAll(words)
	}
	at, err := time.ParseDuration(words[0])
	if err != nil {
		return err
	}
	sim.advanceTo(sim.start.Add(at))
	if len(words) == 1 {
		return nil
	}
	return sim.playEvent(words[1], words[2:])
}

// setAll reads settings "KEY=VALUE".
func (sim *simulation) setAll(words []string) error {
	for _, word := range words {
		key, value, _ := strings.Cut(word, "=")
		if err := sim.set(key, value); err != nil {
			return err
		}
	}
	return nil
}

// changeSettings sets settings in a spec of its own, and returns the one before.
func (sim *simulation) changeSettings(words []string) (old *Spec, err error) {
	old = sim.spec
	spec := *old
	sim.spec = &spec
	return old, sim.setAll(words)
}

func (sim *simulation) set(key, value string) (err error) {
	durations := func(places ...*time.Duration) {
		for i, part := range strings.Split(value, "/") {
			d, e := time.ParseDuration(part)
			if i >= len(places) || e != nil {
				err = fmt.Errorf("bad value %q of %s", value, key)
				return
			}
			*places[i] = d
		}
	}
	switch key {
	case "policy":
		sim.spec.RestartPolicy = RestartPolicy(value)
	case "on-failure":
		sim.spec.OnFailure = FailureAction(value)
	case "observe":
		sim.spec.Observe = value == "yes"
	case "managed":
		sim.spec.ManagedElsewhere, sim.spec.RestartPolicy, sim.spec.OnFailure = value, Never, StopFailed // as configs does
	case "give-up":
		n, within, _ := strings.Cut(value, "/")
		if sim.spec.GiveUp.Restarts, err = strconv.Atoi(n); err == nil {
			sim.spec.GiveUp.Within, err = time.ParseDuration(within)
		}
	case "backoff":
		durations(&sim.spec.Backoff.Initial, &sim.spec.Backoff.Max, &sim.spec.Backoff.ResetAfter)
	case "drain":
		durations(&sim.spec.Publish.Drain)
	case "least-drain":
		durations(&sim.spec.Publish.LeastDrain)
	case "withdraw-within":
		durations(&sim.spec.Publish.WithdrawWithin)
	case "unknown-signals":
		sim.unknownSignals = value == "yes"
	case "late-news":
		sim.lateStopSignal = value == "yes"
	case "grace":
		durations(&sim.spec.TerminationGracePeriod)
	case "container-grace":
		durations(&sim.c.StopTimeout)
	case "stop-takes":
		durations(&sim.stopTakes)
	case "clock-offset":
		durations(&sim.clockOffset)
	case "stop-signal":
		sim.c.StopSignal = value
	case "engine-policy":
		sim.c.RestartPolicy = value
	case "restarted-by-engine": // as often as it may
		sim.c.RestartsUsedUp = value == "yes"
	case "rm":
		sim.c.AutoRemove = value == "yes"
	case "startup", "liveness", "readiness":
		return sim.setProbe(key, value)
	case "post-start", "pre-stop":
		if value == "none" {
			sim.setHook(hookOf(key), nil)
			return nil
		}
		durations(&sim.hookTakes[hookOf(key)])
		sim.setHook(hookOf(key), &prober.LifecycleHandler{Sleep: &prober.Sleep{}})
	case "gates":
		sim.spec.ReadinessGates = strings.Split(value, ",")
	case "restart-on":
		return sim.setRule(In, value)
	default:
		return fmt.Errorf("unknown setting %q", key)
	}
	return err
}

// setProbe reads DELAY/PERIOD/SUCCESSES/FAILURES or none.
func (sim *simulation) setProbe(name, value string) error {
	if value == "none" {
		sim.spec.Probes[probeOf(name)] = nil
		return nil
	}
	p := &ProbeSpec{Handler: prober.Handler{TCPSocket: &prober.TCPSocket{Port: 80}}, Timeout: time.Second}
	parts := strings.Split(value, "/")
	if len(parts) != 4 {
		return fmt.Errorf("%s wants DELAY/PERIOD/SUCCESSES/FAILURES", name)
	}
	var errs [4]error
	p.InitialDelay, errs[0] = time.ParseDuration(parts[0])
	p.Period, errs[1] = time.ParseDuration(parts[1])
	p.SuccessThreshold, errs[2] = strconv.Atoi(parts[2])
	p.FailureThreshold, errs[3] = strconv.Atoi(parts[3])
	sim.spec.Probes[probeOf(name)] = p
	return errors.Join(errs[:]...)
}

// setRule reads exit codes after which the container is started again.
func (sim *simulation) setRule(operator RuleOperator, value string) error {
	rule := RestartRule{Operator: operator}
	for _, word := range strings.Split(value, ",") {
		code, err := strconv.Atoi(word)
		if err != nil {
			return err
		}
		rule.ExitCodes = append(rule.ExitCodes, code)
	}
	sim.spec.RestartRules = append(sim.spec.RestartRules, rule)
	return nil
}

func (sim *simulation) setHook(hook HookType, h *prober.LifecycleHandler) {
	if hook == PostStart {
		sim.spec.Lifecycle.PostStart = h
	} else {
		sim.spec.Lifecycle.PreStop = h
	}
}

func hookOf(name string) HookType {
	return map[string]HookType{"post-start": PostStart, "pre-stop": PreStop}[name]
}

func probeOf(name string) ProbeType {
	return map[string]ProbeType{"startup": Startup, "liveness": Liveness, "readiness": Readiness}[name]
}

// playEvent lets one event of a story happen now.
func (sim *simulation) playEvent(event string, args []string) error {
	play := storyEvents[event]
	if play == nil {
		return fmt.Errorf("unknown event %q", event)
	}
	return play(sim, strings.Join(append([]string{event}, args...), " "), args)
}

// storyEvent lets an event happen. what is its text in the transcript.
type storyEvent func(sim *simulation, what string, args []string) error

// storyEvents are the events of stories by name.
var storyEvents = map[string]storyEvent{
	// The container.
	"runs": func(sim *simulation, what string, _ []string) error { // somebody started it
		sim.startRun()
		sim.step(what, &Input{Kind: Observed})
		return nil
	},
	"found": func(sim *simulation, what string, args []string) error { // AGE [ended]: when the daemon starts
		age, err := time.ParseDuration(args[0])
		sim.startRun()
		sim.c.StartedAt = sim.now.Add(-age)
		if len(args) > 1 {
			sim.endRun(1)
		}
		sim.findRun(what, sim.lastFacts())
		return err
	},
	"exits": func(sim *simulation, what string, args []string) error { // [CODE]
		return sim.exit(what, args, runtime.Exited, false)
	},
	"lives-on": func(sim *simulation, what string, _ []string) error { // though the engine has shown its end
		sim.c.State, sim.c.ExitCode, sim.c.FinishedAt = runtime.Running, 0, time.Time{}
		sim.step(what, &Input{Kind: Observed})
		return nil
	},
	"oom": func(sim *simulation, what string, args []string) error { // [CODE]
		return sim.exit(what, args, runtime.Exited, true)
	},
	"exits-restarting": func(sim *simulation, what string, args []string) error { // and the engine's own policy is about to start it
		return sim.exit(what, args, runtime.Restarting, false)
	},
	"start-refused": func(sim *simulation, what string, _ []string) error { // by the engine's own policy, and it tries no more
		sim.c.State, sim.c.Error = runtime.Exited, "no such directory"
		sim.step(what, &Input{Kind: Observed})
		return nil
	},
	"start-given-up": func(sim *simulation, what string, _ []string) error { // by the engine, as an operator wants it
		sim.c.State = runtime.Exited
		sim.step(what, &Input{Kind: Observed})
		return nil
	},
	"signalled": func(sim *simulation, what string, args []string) error { // NUMBER
		n, err := number(args)
		sim.step(what, sim.signalled(n))
		return err
	},
	"old-signal": func(sim *simulation, what string, args []string) error { // late news of a signal before the run
		n, err := number(args)
		in := sim.signalled(n)
		in.Of = runtime.RunHint{Run: runtime.Run{ID: sim.c.ID, Started: 1}}
		sim.step(what, in)
		return err
	},
	"stop-event": func(sim *simulation, what string, _ []string) error {
		sim.step(what, sim.event(StopCarriedOut))
		return nil
	},
	"docker-stop": func(sim *simulation, _ string, _ []string) error {
		sim.step("kill 15 by an operator", sim.signalled(15))
		sim.endRun(143)
		sim.step("", sim.died(143))
		sim.step("exits 143", &Input{Kind: Observed})
		sim.step("stop event", sim.event(StopCarriedOut))
		return nil
	},
	"paused":   becomes(runtime.Paused),
	"unpaused": becomes(runtime.Running),
	"network": func(sim *simulation, what string, args []string) error { // of another container: started, stopped or gone
		sim.c.NetworkOwner, sim.c.NetworkOwnerStartedAt = "0123456789abcdef", time.Time{}
		if args[0] == "started" {
			sim.c.NetworkOwnerStartedAt = sim.engineNow()
		}
		sim.c.NetworkOwnerGone = args[0] == "gone"
		if sim.c.State != runtime.Created {
			sim.step(what, &Input{Kind: Observed})
		}
		return nil
	},
	"resources": func(sim *simulation, what string, args []string) error { // LIMITS: somebody changed them
		sim.c.Resources = args[0]
		sim.step(what, &Input{Kind: Observed})
		return nil
	},

	// Answers from now on.
	"startup":        answers(Startup),
	"liveness":       answers(Liveness),
	"readiness":      answers(Readiness),
	"post-start":     ends(PostStart),
	"pre-stop":       ends(PreStop),
	"crash-at-start": yesOrNo(func(sim *simulation) *bool { return &sim.crashesAtStart }),
	"stop-fails":     yesOrNo(func(sim *simulation) *bool { return &sim.stopFails }),
	"stop-refused":   yesOrNo(func(sim *simulation) *bool { return &sim.stopRefused }),
	"start-denied":   yesOrNo(func(sim *simulation) *bool { return &sim.startRefused }),
	"start-fails":    yesOrNo(func(sim *simulation) *bool { return &sim.startFails }),
	"start-unseen":   yesOrNo(func(sim *simulation) *bool { return &sim.startUnseen }),

	// The engine.
	"engine-lost": input(RuntimeLost),
	"engine-back": input(RuntimeBack),
	"engine-clock": func(sim *simulation, _ string, args []string) error { // DURATION: somebody sets it ahead, or back
		d, err := time.ParseDuration(args[0])
		sim.clockOffset += d
		return err
	},
	"engine-ends": func(sim *simulation, _ string, _ []string) error { // it accepts no connections from now on
		sim.refusesConnections = true
		return nil
	},
	"engine-restarts": func(sim *simulation, what string, _ []string) error { // and all its containers have ended
		sim.restartEngine(what)
		return nil
	},

	// The daemon.
	"shutdown": func(sim *simulation, what string, args []string) error { // [DURATION]: which takes no longer
		return sim.stepUntil(what, &Input{Kind: ShutdownBegun}, args)
	},
	"daemon-killed": func(sim *simulation, what string, args []string) error { // [unheard]: and the next one starts
		sim.restartDaemon(what, len(args) > 0 && args[0] == "unheard")
		return nil
	},
	"remembered": func(sim *simulation, _ string, args []string) error { // CONDITION …: of the run that is found next
		sim.remembered = args
		return nil
	},

	// Operators.
	"restart-asked": input(RestartRequested),
	"hold": func(sim *simulation, what string, args []string) error { // [DURATION]
		return sim.stepUntil(what, &Input{Kind: HoldRequested}, args)
	},
	"fleet-holds": func(sim *simulation, what string, args []string) error { // [HOLD]: which hold all hosts have of its service; none
		sim.step(what, &Input{Kind: FleetHolds, Hold: strings.Join(args, " ")})
		return nil
	},
	"resume": input(ResumeRequested),
	"gate": func(sim *simulation, what string, args []string) error { // TYPE True|False
		sim.step(what, &Input{Kind: GateSet, Gate: args[0], Status: args[1] == "True"})
		return nil
	},
	"reload": func(sim *simulation, what string, args []string) error { // KEY=VALUE …: these settings change
		old, err := sim.changeSettings(args)
		sim.step(what, &Input{Kind: SpecChanged, OldSpec: old})
		return err
	},
	"reconfigured": func(sim *simulation, what string, args []string) error { // KEY=VALUE …: they change while no daemon runs
		old, err := sim.changeSettings(args)
		sim.checkSameAsReload(old)
		sim.restartDaemon(what, false)
		return err
	},

	// Load balancers, and others of the group.
	"drained":   input(ConnectionsDrained),
	"withdrawn": input(Withdrawn),
	"last-up": func(sim *simulation, _ string, args []string) error { // BACKEND: it is the last server up there
		sim.lastUp = strings.Join(args, " ")
		return nil
	},
	"limit": func(sim *simulation, _ string, args []string) error { // NAME …: others of the group are down
		sim.wait = Wait{Reason: WaitGroupLimit, On: strings.Join(args, ", ")}
		return nil
	},
	"limit-over": func(sim *simulation, what string, _ []string) error {
		sim.wait = Wait{}
		sim.step(what, &Input{Kind: Tick})
		return nil
	},
}

// input makes the event of an input without fields.
func input(kind InputKind) storyEvent {
	return func(sim *simulation, what string, _ []string) error {
		sim.step(what, &Input{Kind: kind})
		return nil
	}
}

// becomes makes the event after which the container is in that state.
func becomes(state runtime.State) storyEvent {
	return func(sim *simulation, what string, _ []string) error {
		sim.c.State = state
		sim.step(what, &Input{Kind: Observed})
		return nil
	}
}

func answers(probe ProbeType) storyEvent {
	return func(sim *simulation, _ string, args []string) error { return sim.setAnswer(probe, args[0]) }
}

func ends(hook HookType) storyEvent {
	return func(sim *simulation, _ string, args []string) error { return sim.setHookResult(hook, args[0]) }
}

func yesOrNo(field func(*simulation) *bool) storyEvent {
	return func(sim *simulation, _ string, args []string) error {
		*field(sim) = args[0] == "yes"
		return nil
	}
}

// number reads an optional number, 0 when it is not there.
func number(args []string) (int, error) {
	if len(args) == 0 {
		return 0, nil
	}
	return strconv.Atoi(args[0])
}

// exit ends the run: first an event tells it, then an inspection shows it.
func (sim *simulation) exit(what string, args []string, state runtime.State, oom bool) error {
	code, err := number(args)
	sim.endRun(code)
	sim.c.State = state
	sim.c.OOMKilled = oom
	sim.step("", sim.died(code))
	sim.step(what, &Input{Kind: Observed})
	return err
}

func (sim *simulation) died(code int) *Input {
	in := sim.event(Died)
	in.ExitCode = code
	return in
}

// lastFacts returns what the last daemon knew of the run that is found next; the zero Facts:
// nothing.
func (sim *simulation) lastFacts() Facts {
	if sim.remembered == nil {
		return Facts{}
	}
	facts := rememberedFacts(slices.Contains(sim.remembered, "started"), slices.Contains(sim.remembered, "ready"))
	facts.Run.ID = sim.c.Run()
	return facts
}

// rememberedFacts returns the Facts of a run with these conditions.
func rememberedFacts(started, ready bool) Facts {
	return Facts{
		Kept:               &Kept{Conditions: Conditions{Started: Condition{Status: started}, ContainerReady: Condition{Status: ready}, Ready: Condition{Status: ready}}},
		ReadinessSucceeded: ready,
	}
}

// findRun lets a daemon observe the container for the first time. last is what the last
// daemon knew of its last run.
func (sim *simulation) findRun(what string, last Facts) {
	in := &Input{Kind: Observed, First: true, Unwatched: last.Kept == nil}
	if !in.Unwatched {
		m := Memory{Facts: last}
		m.Run.StartedAt, m.Engine.State = time.Unix(0, last.Run.ID.Started), runtime.Running
		sim.recall(&m)
	}
	sim.step(what, in)
}

// memory returns what the journal keeps.
func (sim *simulation) memory() *Memory {
	return &Memory{Facts: Remember(&sim.c, "web", &sim.state), Gates: sim.state.Gates, Restarted: sim.state.Restarted}
}

// recall lets a daemon begin with what the last one has stored.
func (sim *simulation) recall(m *Memory) {
	var events []Effect
	sim.state, events = m.State(sim.spec, &sim.c, sim.now, &Room{})
	if len(events) > 0 {
		sim.writeTranscript("", events)
	}
}

// restartEngine lets the engine end with all its containers, and start again.
func (sim *simulation) restartEngine(what string) {
	alive := sim.c.State.Alive()
	sim.step(what, &Input{Kind: RuntimeLost})
	sim.refusesConnections = false
	sim.step("", &Input{Kind: EngineRestarted})
	if alive {
		sim.endRun(137)
		sim.step("exits 137", &Input{Kind: Observed})
	}
	if sim.c.State == runtime.Restarting {
		sim.c.State = runtime.Exited
		sim.step("is exited", &Input{Kind: Observed})
	}
	sim.step("engine-back", &Input{Kind: RuntimeBack})
}

// restartDaemon kills the daemon and starts the next one with what the journal keeps.
// unheard: the engine does not tell it what happened meanwhile.
func (sim *simulation) restartDaemon(what string, unheard bool) {
	sim.generation++
	sim.recall(sim.memory())
	sim.step(what, &Input{Kind: Observed, First: true, Unwatched: unheard})
}

func (sim *simulation) setHookResult(hook HookType, word string) error {
	r, ok := map[string]prober.HookResult{
		"succeeds":   {},
		"falls-back": {HTTPFallback: true},
		"fails":      {Err: errors.New("command exited with code 1")},
		"cannot":     {Err: errors.New("the engine is away"), NotAsked: true},
	}[word]
	if !ok {
		return fmt.Errorf("unknown result %q", word)
	}
	sim.hookEnds[hook] = r
	return nil
}

func (sim *simulation) setAnswer(probe ProbeType, word string) error {
	r, ok := map[string]prober.Result{
		"succeeds": {Outcome: prober.Success, Latency: time.Millisecond},
		"warns":    {Outcome: prober.Success, Warning: true, Cause: prober.Redirect, Output: "Probe terminated redirects"},
		"fails":    {Outcome: prober.Failure, Cause: prober.Refused, Output: "connection refused"},
		"unknown":  {Outcome: prober.Unknown, Cause: prober.NotAsked, Output: "too many open files"},
	}[word]
	if !ok {
		return fmt.Errorf("unknown answer %q", word)
	}
	sim.answers[probe] = r
	return nil
}

// stepUntil steps with an input whose Time is a duration from now, if one is given.
func (sim *simulation) stepUntil(what string, in *Input, args []string) error {
	if len(args) > 0 {
		d, err := time.ParseDuration(args[0])
		if err != nil {
			return err
		}
		in.Time = sim.now.Add(d)
	}
	sim.step(what, in)
	return nil
}
