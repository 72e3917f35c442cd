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

// A story is a file of two parts: what happens to one container, and, after a line
// of dashes, what the core makes of it, minute by minute. The engine of a story
// carries out stops and starts at once unless the story says otherwise; its probes
// answer what the story said last.
func TestStories(t *testing.T) {
	files, err := filepath.Glob("testdata/stories/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no stories: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) { tellStory(t, file) })
	}
}

const dashes = "\n----\n"

func tellStory(t *testing.T, file string) {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	script, want, _ := strings.Cut(string(text), dashes)
	w := newWorld(t)
	lines := bufio.NewScanner(strings.NewReader(script))
	for n := 1; lines.Scan(); n++ {
		if line := strings.TrimSpace(lines.Text()); line != "" && line[0] != '#' {
			if err := w.obey(strings.Fields(line)); err != nil {
				t.Fatalf("%s:%d: %v", file, n, err)
			}
		}
	}
	if w.state.Shutdown.Begun && !w.state.Settled() {
		t.Errorf("%s: healthd could not end: %+v", file, w.state)
	}
	got := w.told.String()
	if *updateFlag {
		if err := os.WriteFile(file, []byte(strings.TrimRight(script, "\n")+dashes+got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got != want {
		t.Errorf("%s: the transcript is\n%s\nwant\n%s", file, got, want)
	}
}

// obey carries out one line of a story: a setting, or "TIME EVENT …".
func (w *world) obey(words []string) error {
	if strings.Contains(words[0], "=") {
		for _, word := range words {
			key, value, _ := strings.Cut(word, "=")
			if err := w.set(key, value); err != nil {
				return err
			}
		}
		return nil
	}
	at, err := time.ParseDuration(words[0])
	if err != nil {
		return err
	}
	w.goTo(w.begin.Add(at))
	if len(words) == 1 {
		return nil
	}
	return w.happen(words[1], words[2:])
}

func (w *world) set(key, value string) (err error) {
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
		w.spec.RestartPolicy = RestartPolicy(value)
	case "backoff":
		durations(&w.spec.Backoff.Initial, &w.spec.Backoff.Max, &w.spec.Backoff.ResetAfter)
	case "drain":
		durations(&w.spec.Publish.Drain)
	case "late-news":
		w.lateNews = value == "yes"
	case "grace":
		durations(&w.spec.TerminationGracePeriod)
	case "container-grace":
		durations(&w.c.StopTimeout)
	case "stop-takes":
		durations(&w.stopTakes)
	case "clock-behind":
		durations(&w.behind)
	case "stop-signal":
		w.c.StopSignal = value
	case "engine-policy":
		w.c.RestartPolicy = value
	case "rm":
		w.c.AutoRemove = value == "yes"
	case "startup", "liveness", "readiness":
		return w.setProbe(key, value)
	case "post-start", "pre-stop":
		durations(&w.hookTakes[hookOf(key)])
		w.setHook(hookOf(key), &prober.LifecycleHandler{Sleep: &prober.Sleep{}})
	case "gates":
		w.spec.ReadinessGates = strings.Split(value, ",")
	case "restart-on":
		return w.setRule(In, value)
	default:
		return fmt.Errorf("unknown setting %q", key)
	}
	return err
}

// setProbe reads DELAY/PERIOD/SUCCESSES/FAILURES or none.
func (w *world) setProbe(name, value string) error {
	if value == "none" {
		w.spec.Probes[probeOf(name)] = nil
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
	w.spec.Probes[probeOf(name)] = p
	return errors.Join(errs[:]...)
}

// setRule reads exit codes after which the container is started again.
func (w *world) setRule(operator RuleOperator, value string) error {
	rule := RestartRule{Operator: operator}
	for _, word := range strings.Split(value, ",") {
		code, err := strconv.Atoi(word)
		if err != nil {
			return err
		}
		rule.ExitCodes = append(rule.ExitCodes, code)
	}
	w.spec.RestartRules = append(w.spec.RestartRules, rule)
	return nil
}

func (w *world) setHook(hook HookType, h *prober.LifecycleHandler) {
	if hook == PostStart {
		w.spec.Lifecycle.PostStart = h
	} else {
		w.spec.Lifecycle.PreStop = h
	}
}

func hookOf(name string) HookType {
	return map[string]HookType{"post-start": PostStart, "pre-stop": PreStop}[name]
}

func probeOf(name string) ProbeType {
	return map[string]ProbeType{"startup": Startup, "liveness": Liveness, "readiness": Readiness}[name]
}

// happen lets one event of a story happen now.
func (w *world) happen(event string, args []string) error {
	number := func() int {
		n := 0
		if len(args) > 0 {
			n, _ = strconv.Atoi(args[0])
		}
		return n
	}
	what := strings.Join(append([]string{event}, args...), " ")
	switch event {
	case "runs": // somebody started it
		w.startRun()
		w.step(what, &Input{Kind: Observed})
	case "found": // running already, or ended already, when the daemon came
		age, _ := time.ParseDuration(args[0])
		w.startRun()
		w.c.StartedAt = w.now.Add(-age)
		if len(args) > 1 {
			w.endRun(1)
		}
		w.find(what, w.facts())
	case "exits", "oom":
		w.endRun(number())
		w.c.OOMKilled = event == "oom"
		w.step("", &Input{Kind: Died, ExitCode: number()})
		w.step(what, &Input{Kind: Observed})
	case "exits-restarting": // and the engine's own policy is about to start it again
		w.endRun(number())
		w.c.State = runtime.Restarting
		w.step("", &Input{Kind: Died, ExitCode: number()})
		w.step(what, &Input{Kind: Observed})
	case "old-signal": // its news comes late, from before the run
		w.step(what, &Input{Kind: Signalled, Signal: number(), Time: w.c.StartedAt.Add(-time.Second)})
	case "signalled":
		w.step(what, &Input{Kind: Signalled, Signal: number(), Time: w.engineNow()})
	case "stop-event":
		w.step(what, &Input{Kind: StopCarriedOut, Time: w.engineNow()})
	case "docker-stop":
		w.step("kill 15 by somebody", &Input{Kind: Signalled, Signal: 15, Time: w.engineNow()})
		w.endRun(143)
		w.step("exits 143", &Input{Kind: Observed})
		w.step("stop event", &Input{Kind: StopCarriedOut, Time: w.engineNow()})
	case "paused":
		w.c.State = runtime.Paused
		w.step(what, &Input{Kind: Observed})
	case "unpaused":
		w.c.State = runtime.Running
		w.step(what, &Input{Kind: Observed})
	case "engine-lost":
		w.step(what, &Input{Kind: RuntimeLost})
	case "engine-back":
		w.step(what, &Input{Kind: RuntimeBack})
	case "restart-asked":
		w.step(what, &Input{Kind: RestartRequested})
	case "shutdown":
		w.step(what, &Input{Kind: ShutdownBegun})
	case "gate":
		w.step(what, &Input{Kind: GateSet, Gate: args[0], Status: args[1] == "True"})
	case "network": // of another container: started now, stopped or gone
		w.c.NetworkOwner, w.c.NetworkOwnerStartedAt = "0123456789abcdef", time.Time{}
		if args[0] == "started" {
			w.c.NetworkOwnerStartedAt = w.engineNow()
		}
		w.c.NetworkOwnerGone = args[0] == "gone"
		if w.c.State != runtime.Created {
			w.step(what, &Input{Kind: Observed})
		}
	case "resources": // somebody gave it others
		w.c.Resources = args[0]
		w.step(what, &Input{Kind: Observed})
	case "reload": // with these settings changed
		old := *w.spec
		spec := old
		w.spec = &spec
		for _, word := range args {
			key, value, _ := strings.Cut(word, "=")
			if err := w.set(key, value); err != nil {
				return err
			}
		}
		w.step(what, &Input{Kind: SpecChanged, OldSpec: &old})
	case "hold": // for so long
		in := &Input{Kind: HoldRequested}
		if len(args) > 0 {
			d, _ := time.ParseDuration(args[0])
			in.Time = w.now.Add(d)
		}
		w.step(what, in)
	case "drained": // say the load balancers
		w.step(what, &Input{Kind: ConnectionsDrained})
	case "last-up": // in
		w.lastUp = strings.Join(args, " ")
	case "resume":
		w.step(what, &Input{Kind: ResumeRequested})
	case "limit": // others of the group are down
		w.wait = Wait{Reason: WaitGroupLimit, On: strings.Join(args, ", ")}
	case "limit-over":
		w.wait = Wait{}
		w.step(what, &Input{Kind: Tick})
	case "engine-ends": // it takes no connections from now on
		w.ending = true
	case "engine-restarts": // and all that it ran has ended
		w.restartEngine(what)
	case "daemon-killed": // and there is another, which hears of all that happened since
		w.restartDaemon(what, len(args) > 0 && args[0] == "unheard")
	case "remembered": // by the last daemon, of the run that is found next
		w.remembered = args
	case "post-start", "pre-stop":
		return w.setHookResult(hookOf(event), args[0])
	case "crash-at-start":
		w.crashes = args[0] == "yes"
	case "stop-fails":
		w.stopFails = args[0] == "yes"
	case "start-fails":
		w.failStart = args[0] == "yes"
	case "startup", "liveness", "readiness":
		return w.setAnswer(probeOf(event), args[0])
	default:
		return fmt.Errorf("unknown event %q", event)
	}
	return nil
}

// facts are what the last daemon knew of the run that is found; nothing where the
// story does not say that it remembers any.
func (w *world) facts() Facts {
	if w.remembered == nil {
		return Facts{}
	}
	able := slices.Contains(w.remembered, "ready")
	return Facts{Kept: Kept{Run: Run{ID: w.c.Run()}, Conditions: Conditions{Started: Condition{Status: slices.Contains(w.remembered, "started")}, ContainerReady: Condition{Status: able}, Ready: Condition{Status: able}}}, ReadinessSucceeded: able}
}

// find lets a daemon see the container for the first time, of whose last run an
// earlier one may have known something.
func (w *world) find(what string, last Facts) {
	in := &Input{Kind: Observed, First: true, Unwatched: last == Facts{}}
	if !in.Unwatched {
		m := Memory{Facts: last}
		m.Run.StartedAt, m.Engine.State = time.Unix(0, last.Run.ID.Started), runtime.Running
		w.state = m.State(w.spec, w.now)
	}
	w.step(what, in)
}

// restartEngine lets the engine end with all that it runs, and come back.
func (w *world) restartEngine(what string) {
	alive := w.c.State.Alive()
	w.step(what, &Input{Kind: RuntimeLost})
	w.ending = false
	w.step("", &Input{Kind: EngineRestarted})
	if alive {
		w.endRun(137)
		w.step("exits 137", &Input{Kind: Observed})
	}
	if w.c.State == runtime.Restarting {
		w.c.State = runtime.Exited
		w.step("is exited", &Input{Kind: Observed})
	}
	w.step("engine-back", &Input{Kind: RuntimeBack})
}

// restartDaemon kills the daemon and lets another take up what is remembered. Unheard:
// nobody can tell it what happened meanwhile.
func (w *world) restartDaemon(what string, unheard bool) {
	w.gen++
	m := Memory{Facts: Remember(&w.c, "web", &w.state), Gates: w.state.Gates}
	w.state = m.State(w.spec, w.now)
	w.step(what, &Input{Kind: Observed, First: true, Unwatched: unheard})
}

func (w *world) setHookResult(hook HookType, word string) error {
	r, ok := map[string]prober.HookResult{
		"succeeds":   {},
		"falls-back": {HTTPFallback: true},
		"fails":      {Err: errors.New("command exited with code 1")},
		"cannot":     {Err: errors.New("the engine is away"), NotAsked: true},
	}[word]
	if !ok {
		return fmt.Errorf("unknown end %q", word)
	}
	w.hookEnds[hook] = r
	return nil
}

func (w *world) setAnswer(probe ProbeType, word string) error {
	r, ok := map[string]prober.Result{
		"succeeds": {Outcome: prober.Success, Latency: time.Millisecond},
		"warns":    {Outcome: prober.Success, Warning: true, Cause: prober.Redirect, Output: "Probe terminated redirects"},
		"fails":    {Outcome: prober.Failure, Cause: prober.Refused, Output: "connection refused"},
		"unknown":  {Outcome: prober.Unknown, Cause: prober.NotAsked, Output: "too many open files"},
	}[word]
	if !ok {
		return fmt.Errorf("unknown answer %q", word)
	}
	w.answers[probe] = r
	return nil
}
