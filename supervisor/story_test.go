package supervisor

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
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
	if w.state.ShuttingDown && !w.state.settled() {
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

// world is one container with its engine, told of as a story.
type world struct {
	t     *testing.T
	spec  *Spec
	c     runtime.Container
	state State
	now   time.Time
	begin time.Time
	told  strings.Builder

	answers   [NumProbes]prober.Result
	stopFails bool
	failStart bool
	crashes   bool
	stopTakes time.Duration
	lateNews  bool          // of our own stop: after the call has returned
	behind    time.Duration // the engine's clock
	pending   map[time.Time]func()
	last      string
	silent    bool
}

func newWorld(t *testing.T) *world {
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	w := &world{
		t: t, now: begin, begin: begin, pending: make(map[time.Time]func()),
		spec: &Spec{
			Name: "web", RestartPolicy: Always,
			Backoff: Backoff{Initial: DefaultBackoffInitial, Max: DefaultBackoffMax, ResetAfter: DefaultBackoffReset},
		},
		c: runtime.Container{ID: "c1", Name: "web", Runtime: "docker", State: runtime.Created, StopTimeout: -1, RestartPolicy: "no"},
	}
	for i := range w.answers {
		w.answers[i] = prober.Result{Outcome: prober.Success, Latency: time.Millisecond}
	}
	return w
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
	default:
		return fmt.Errorf("unknown setting %q", key)
	}
	return err
}

// setProbe reads DELAY/PERIOD/SUCCESSES/FAILURES.
func (w *world) setProbe(name, value string) error {
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
		w.step(what, &input{kind: observed})
	case "found": // running already, or ended already, when the daemon came
		age, _ := time.ParseDuration(args[0])
		w.startRun()
		w.c.StartedAt = w.now.Add(-age)
		if len(args) > 1 {
			w.endRun(1)
		}
		w.step(what, &input{kind: observed, found: true})
	case "exits", "oom":
		w.endRun(number())
		w.c.OOMKilled = event == "oom"
		w.step("", &input{kind: died, code: number()})
		w.step(what, &input{kind: observed})
	case "old-signal": // its news comes late, from before the run
		w.step(what, &input{kind: killed, signal: number(), time: w.c.StartedAt.Add(-time.Second)})
	case "signalled":
		w.step(what, &input{kind: killed, signal: number(), time: w.engineNow()})
	case "stop-event":
		w.step(what, &input{kind: stopCarriedOut})
	case "docker-stop":
		w.step("kill 15 by somebody", &input{kind: killed, signal: 15, time: w.engineNow()})
		w.endRun(143)
		w.step("exits 143", &input{kind: observed})
		w.step("stop event", &input{kind: stopCarriedOut})
	case "paused":
		w.c.State = runtime.Paused
		w.step(what, &input{kind: observed})
	case "unpaused":
		w.c.State = runtime.Running
		w.step(what, &input{kind: observed})
	case "engine-lost":
		w.step(what, &input{kind: runtimeLost})
	case "engine-back":
		w.step(what, &input{kind: runtimeBack})
	case "restart-asked":
		w.step(what, &input{kind: restartAsked})
	case "shutdown":
		w.step(what, &input{kind: shutdown})
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

func (w *world) startRun() {
	w.c.State, w.c.StartedAt, w.c.OOMKilled = runtime.Running, w.engineNow(), false
}

func (w *world) engineNow() time.Time { return w.now.Add(-w.behind) }

func (w *world) endRun(code int) {
	w.c.State, w.c.ExitCode, w.c.FinishedAt = runtime.Exited, code, w.engineNow()
}

// goTo lets time go by, with everything that falls due on the way.
func (w *world) goTo(at time.Time) {
	for range 100_000 {
		next := wake(&w.state)
		for due := range w.pending {
			if next.IsZero() || due.Before(next) {
				next = due
			}
		}
		if next.IsZero() || next.After(at) {
			w.now = at
			return
		}
		w.now = later(w.now, next)
		if f := w.pending[next]; f != nil {
			delete(w.pending, next)
			f()
			continue
		}
		w.step("", &input{kind: tick})
	}
	w.t.Fatal("time stands still: a tick is due for ever")
}

// step does what the loop does: decide, publish, carry out.
func (w *world) step(what string, in *input) {
	c := w.c
	if in.kind == observed || in.kind == called {
		in.container = &c
	}
	before := w.state
	state, fx := step(w.spec, &c, w.state, in, w.now, nil)
	w.state = state
	w.check(before, in, fx)
	w.tell(what, fx)
	for _, f := range fx {
		switch f.do {
		case doAsk:
			w.step("", &input{kind: answered, probe: f.probe, result: w.answers[f.probe]})
		case doStop:
			if !w.lateNews {
				w.step("", w.stopSignal())
			}
			w.pending[w.now.Add(w.stopTakes+time.Nanosecond)] = w.stopped
		case doStart:
			w.pending[w.now.Add(time.Nanosecond)] = w.started
		}
	}
}

func (w *world) stopped() {
	if w.stopFails {
		w.step("", &input{kind: called, call: StopCall, err: errors.New("cannot stop container c1: engine is sick")})
		return
	}
	w.endRun(0)
	news := w.stopSignal()
	w.step("", &input{kind: called, call: StopCall})
	if w.lateNews {
		w.step("late news of our stop", news)
	}
}

// stopSignal is the news of the signal that a stop begins with.
func (w *world) stopSignal() *input {
	return &input{kind: killed, signal: w.c.StopSignalNumber(), time: w.engineNow()}
}

func (w *world) started() {
	if w.c.State.Alive() { // somebody was faster
		w.step("", &input{kind: called, call: StartCall})
		return
	}
	if w.failStart {
		w.step("", &input{kind: called, call: StartCall, err: errors.New("cannot start container c1: port is taken")})
		return
	}
	w.startRun()
	if w.crashes { // before anybody could look
		w.now = w.now.Add(time.Millisecond)
		w.endRun(1)
	}
	w.step("", &input{kind: called, call: StartCall})
}

// tell writes down what changed, if anything a reader would care for did.
func (w *world) tell(what string, fx []effect) {
	if w.silent {
		return
	}
	v := View{Container: &w.c, Spec: w.spec, State: w.state}
	ready, reason, _ := v.Readiness()
	status := string(v.Phase())
	if waiting := v.Waiting(); waiting != nil {
		status += " " + waiting.Reason
	}
	if ready {
		status += " ready"
	} else {
		status += " not-ready:" + reason
	}
	if n := w.state.RestartCount(); n > 0 {
		status += fmt.Sprintf(" restarts:%d", n)
	}
	var notes []string
	for _, f := range fx {
		switch f.do {
		case doStop:
			notes = append(notes, fmt.Sprintf("STOP grace %v", f.grace))
		case doStart:
			notes = append(notes, "START")
		case doRecord:
			notes = append(notes, fmt.Sprintf("%s %q", f.reason, f.message))
		}
	}
	if what == "" && len(notes) == 0 && status == w.last {
		return
	}
	w.last = status
	fmt.Fprintf(&w.told, "%-8s %-22s -> %s\n", w.now.Sub(w.begin).Truncate(time.Microsecond), what, status)
	for _, n := range notes {
		fmt.Fprintf(&w.told, "%8s    %s\n", "", n)
	}
}
