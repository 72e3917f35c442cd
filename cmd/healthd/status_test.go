package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"healthd/supervisor/api"
	"healthd/supervisor/core"
)

// statuses are containers in all the states that look different.
func statuses() []api.Status {
	running := func(ago time.Duration) api.ContainerState {
		return api.ContainerState{Running: &api.Running{StartedAt: clock.Add(-ago)}}
	}
	probe := func(result, outcome string, run, threshold int) api.ProbeStatus {
		return api.ProbeStatus{Result: result, Outcome: outcome, Run: run, Threshold: threshold}
	}
	return []api.Status{
		{
			Name: "web-1", ID: "0123456789abcdef", Service: "web", Phase: "Running", Ready: true, RestartPolicy: "Always",
			Spec: "web", Group: "shop/web", Runtime: "docker", Image: "web:1", State: running(26 * time.Hour),
			Probes: map[string]api.ProbeStatus{"startup": probe("Success", "Success", 1, 1), "liveness": probe("Success", "Failure", 2, 3)},
		},
		{
			Name: "a-container-with-a-name-that-is-much-longer-than-others", Service: "and-a-service-with-a-long-name",
			Phase: "Running", RestartCount: 12, State: api.ContainerState{Waiting: &api.Waiting{Reason: "CrashLoopBackOff"}},
			Probes: map[string]api.ProbeStatus{"liveness": probe("Failure", "Failure", 30, 30)},
		},
		{
			Name: "web-2", Service: "web", Phase: "Running", State: running(50 * time.Second),
			Probes: map[string]api.ProbeStatus{
				"startup": probe("Unknown", "Unknown", 0, 1), "readiness": probe("Failure", "Success", 1, 2), "liveness": probe("Success", "Unknown", 0, 1),
			},
		},
		{
			Name: "web-3", Phase: "Failed", RestartPolicy: "Always", EnginePolicy: "on-failure",
			State: api.ContainerState{Terminated: &api.Terminated{ExitCode: 1, Reason: "Error", FinishedAt: clock.Add(-5 * time.Minute)}},
		},
		{Name: "web-4", Phase: "Running", State: running(time.Minute), Conditions: notReady("Paused"), EnginePolicy: "unless-stopped"},
		{
			Name: "gated", Phase: "Running", Why: "Readiness gate b is False.", State: running(time.Minute),
			Probes: map[string]api.ProbeStatus{"readiness": probe("Success", "Success", 9, 1)},
			Conditions: append(notReady("ReadinessGatesNotReady"),
				api.Condition{Type: "a", Status: "True"}, api.Condition{Type: "b", Status: "False"}),
		},
		{
			Name: "hooked", Phase: "Running", State: running(3 * time.Second), Conditions: notReady("PostStartPending"),
			Probes: map[string]api.ProbeStatus{"liveness": probe("Success", "Unknown", 0, 1), "readiness": probe("Failure", "Unknown", 0, 1)},
		},
		{ // every probe of a container that does not run has failed
			Name: "stopped", Service: "and-a-service-with-a-long-name", Phase: "Failed", Conditions: notReady("NotRunning"), EnginePolicy: "always",
			State: api.ContainerState{Terminated: &api.Terminated{ExitCode: 143, Reason: "StoppedByOperator", FinishedAt: clock.Add(-5 * time.Minute)}},
			Probes: map[string]api.ProbeStatus{
				"startup":  {Result: "Failure", Outcome: "Success", Threshold: 1, OnHold: true},
				"liveness": probe("Failure", "Success", 70, 1), "readiness": probe("Failure", "Failure", 5, 3),
			},
		},
		{
			Name: "never-run", Phase: "Pending", State: api.ContainerState{Waiting: &api.Waiting{Reason: "Created"}},
			Probes: map[string]api.ProbeStatus{"startup": probe("Failure", "Unknown", 0, 1), "liveness": probe("Failure", "Unknown", 0, 1)},
		},
		{
			Name: "draining", Phase: "Running", Draining: true, EnginePolicy: "always", State: api.ContainerState{Waiting: &api.Waiting{Reason: "Draining"}},
			Probes: map[string]api.ProbeStatus{"readiness": probe("Success", "Success", 5, 1)},
		},
		{
			Name: "held", Phase: "Running", Ready: true, State: running(time.Minute), Held: true, HeldUntil: clock.Add(10*time.Minute + 400*time.Millisecond),
			Probes: map[string]api.ProbeStatus{"liveness": probe("Success", "Success", 1, 1)},
		},
		{
			Name: "held-ended", Phase: "Running", Held: true, Conditions: notReady("NotRunning"),
			State:  api.ContainerState{Waiting: &api.Waiting{Reason: "Held", Message: "has ended and is held: healthd does not start it"}},
			Probes: map[string]api.ProbeStatus{"liveness": probe("Failure", "Success", 1, 1)},
		},
		{
			Name: "held-failed", Phase: "Running", Ready: true, Held: true,
			State:  api.ContainerState{Waiting: &api.Waiting{Reason: "Held", Message: "failed liveness probe, its restart waits"}},
			Probes: map[string]api.ProbeStatus{"liveness": probe("Failure", "Failure", 4, 3), "readiness": probe("Success", "Success", 1, 1)},
		},
		{
			Name: "group", Phase: "Running", Ready: true,
			Why: "Failed liveness probe, its restart waits for a-container-with-a-name-that-is-much-longer-than-others, web-2.",
			State: api.ContainerState{Waiting: &api.Waiting{
				Reason: "GroupLimit", Message: "failed liveness probe, its restart waits for a-container-with-a-name-that-is-much-longer-than-others, web-2",
			}},
			Probes: map[string]api.ProbeStatus{"liveness": probe("Failure", "Success", 1, 2), "readiness": probe("Success", "Success", 1, 1)},
		},
		{
			Name: "budget", Phase: "Running", Why: "Failed startup probe, its restart waits for the host's budget of 10 restarts in 1m0s.", Conditions: notReady("StartupPending"),
			State: api.ContainerState{Waiting: &api.Waiting{
				Reason: "RestartBudget", Message: "failed startup probe, its restart waits for the host's budget of 10 restarts in 1m0s",
			}},
			Probes: map[string]api.ProbeStatus{"startup": probe("Failure", "Failure", 30, 30), "readiness": probe("Failure", "Unknown", 0, 1)},
		},
		{ // asked each second, and cannot be asked
			Name: "unasked", Phase: "Running", State: running(time.Minute),
			Probes: map[string]api.ProbeStatus{
				"liveness":  {Result: "Success", Outcome: "Unknown", Threshold: 1, LastProbeTime: &clock},
				"readiness": {Result: "Failure", Outcome: "Unknown", Threshold: 1, LastProbeTime: &clock},
			},
		},
		{ // known from before a restart of healthd
			Name: "remembered", Phase: "Running", Ready: true, State: running(time.Minute),
			Probes: map[string]api.ProbeStatus{
				"startup":   {Result: "Success", Outcome: "Unknown", Threshold: 1, OnHold: true},
				"readiness": probe("Success", "Unknown", 0, 1),
			},
		},
		{Name: "engine-away", Phase: "Unknown", Ready: true, State: running(time.Minute)},
		{
			Name: "condemned", Phase: "Running", Draining: true, State: api.ContainerState{Waiting: &api.Waiting{Reason: "Draining"}},
			Probes: map[string]api.ProbeStatus{"liveness": {Result: "Failure", Outcome: "Unknown", Threshold: 1, OnHold: true}},
		},
		{
			Name: "wrong", Phase: "Running", State: running(time.Minute), EnginePolicy: "always",
			Invalid: "label healthd.liveness.period: must be a duration such as \"10s\", is \"\x1b[2J\"; label healthd.nope: unknown key",
		},
	}
}

func notReady(reason string) []api.Condition {
	return []api.Condition{{Type: "Started", Status: "True"}, {Type: "ContainerReady"}, {Type: "Ready", Status: "False", Reason: reason}}
}

// A program that reads rows gets nothing else on stdout.
func TestRowsOnly(t *testing.T) {
	held := container("web-2", func(v *core.View) { v.State.Lasting.HeldHere = true })
	socket, _ := daemonWith(t, &fake{left: bystanders()}, container("web-1", nil), held)
	got := inside("status", "--no-headers", "--socket", socket)
	if got.code != 0 || strings.Count(got.stdout, "\n") != 2 || !strings.HasPrefix(got.stdout, "web-1 ") || got.stderr != "web-2 is held until a resume\n" {
		t.Errorf("%+v", got)
	}
	if got := inside("status", "--no-headers", "--all", "--socket", socket); strings.Count(got.stdout, "\n") != 7 || !strings.Contains(got.stderr, "db is not supervised: ") {
		t.Errorf("%+v", got)
	}
	none, _ := daemonWith(t, &fake{})
	for _, args := range []string{"--no-headers", "-oname"} {
		if got := inside("status", args, "--socket", none); got.stdout != "" || got.stderr != "no container matches a spec or has a healthd label\n" {
			t.Errorf("%s: %+v", args, got)
		}
	}
}

func TestTable(t *testing.T) {
	for _, tt := range []struct {
		name string
		wide bool
	}{{"table.txt", false}, {"wide.txt", true}} {
		var b bytes.Buffer
		if err := writeStatuses(&b, &b, statuses(), form(tt.wide), false, 100, clock); err != nil {
			t.Fatal(err)
		}
		golden(t, tt.name, b.String())
		if strings.Contains(b.String(), "\x1b") {
			t.Errorf("%s: escape sequences", tt.name)
		}
		for line := range strings.SplitSeq(b.String(), "\n") {
			if n := utf8.RuneCountInString(line); n > 100 && !tt.wide {
				t.Errorf("%d columns: %s", n, line)
			}
		}
	}
}

func TestColours(t *testing.T) {
	var with, without bytes.Buffer
	if err := writeStatuses(&with, &with, statuses(), form(false), true, 100, clock); err != nil {
		t.Fatal(err)
	}
	if err := writeStatuses(&without, &without, statuses(), form(false), false, 100, clock); err != nil {
		t.Fatal(err)
	}
	bare := strings.NewReplacer(red, "", green, "", yellow, "", plain, "").Replace(with.String())
	if bare != without.String() || with.Len() == without.Len() {
		t.Errorf("colours change more than colours:\n%s", with.String())
	}
}

func TestNoColoursInAPipe(t *testing.T) {
	socket, _ := daemonWith(t, &fake{}, container("web-1", nil))
	if got := healthd(t, "status", "--socket", socket); got.code != 0 || strings.Contains(got.stdout, "\x1b") {
		t.Errorf("%+v", got)
	}
}

// inBubble has a test watch in virtual time. What waits for signals must be there before.
func inBubble(t *testing.T, test func(*testing.T)) {
	t.Helper()
	resized := make(chan os.Signal, 1)
	signal.Notify(resized, syscall.SIGWINCH)
	defer signal.Stop(resized)
	synctest.Test(t, test)
}

func TestWatch(t *testing.T) { inBubble(t, testWatch) }

func testWatch(t *testing.T) {
	const height = 4
	for _, onTerminal := range []bool{true, false} {
		ctx, cancel := context.WithCancel(t.Context())
		var out bytes.Buffer
		a := &app{stdout: &out, size: func() (int, int, bool) { return 80, height, onTerminal }}
		shown := 0
		err := a.watch(ctx, func(w io.Writer) error {
			if shown++; shown > 1 {
				cancel()
				return ctx.Err()
			}
			_, err := io.WriteString(w, "one\ntwo\nthree\nfour\nfive\n")
			return err
		})
		if err != nil {
			t.Error(err)
		}
		want := "one\ntwo\nthree\nfour\nfive\n"
		if onTerminal {
			want = hideCursor + clearScreen + cursorHome + "one\x1b[K\r\ntwo\x1b[K\r\nthree\x1b[K\r\n… 2 more lines\x1b[K\x1b[J" + showCursor
		}
		if out.String() != want {
			t.Errorf("terminal %v: %q, want %q", onTerminal, out.String(), want)
		}
		cancel()
	}
}

// What cannot be shown at all is not watched; what was shown once is waited for.
func TestWatchThatFails(t *testing.T) { inBubble(t, testWatchThatFails) }

func testWatchThatFails(t *testing.T) {
	for _, onTerminal := range []bool{true, false} {
		ctx, cancel := context.WithCancel(t.Context())
		var out, complaints bytes.Buffer
		a := &app{stdout: &out, stderr: &complaints, size: func() (int, int, bool) { return 80, 24, onTerminal }}
		away := errors.New("cannot reach the daemon")
		if err := a.watch(ctx, func(io.Writer) error { return away }); err != away || out.Len() > 0 || complaints.Len() > 0 {
			t.Errorf("terminal %v: %v after %q and %q, want %v", onTerminal, err, out.String(), complaints.String(), away)
		}
		answers := []error{nil, away, away, nil, away}
		err := a.watch(ctx, func(w io.Writer) error {
			if len(answers) == 0 {
				cancel()
				return ctx.Err()
			}
			err := answers[0]
			answers = answers[1:]
			if err == nil {
				io.WriteString(w, "table\n")
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
		table, gone := "table\n", "healthd: cannot reach the daemon\n"
		want, complaint := table+table, gone+gone
		if onTerminal {
			table, gone = cursorHome+"table\x1b[K\x1b[J", cursorHome+"healthd: cannot reach the daemon\x1b[K\x1b[J"
			want, complaint = hideCursor+clearScreen+table+gone+gone+table+gone+showCursor, ""
		}
		if out.String() != want || complaints.String() != complaint {
			t.Errorf("terminal %v: %q and %q, want %q and %q", onTerminal, out.String(), complaints.String(), want, complaint)
		}
		cancel()
	}
}

// The table has no column for why a container is not ready or waits, nor for what to do about it.
func TestRemarkOfAWait(t *testing.T) {
	for reason, want := range map[string]string{
		"CrashLoopBackOff": "web: Why. Next start in 4m36s. (healthd why web)", "Restarting": "web: Why. (healthd explain web)", "Created": "",
		"GroupLimit": "web: Why. (healthd explain web)", "GaveUp": "web: Why. (healthd resume web)",
	} {
		s := api.Status{Name: "web", Why: "Why.", State: api.ContainerState{Waiting: &api.Waiting{Reason: reason, Until: clock.Add(276 * time.Second)}}}
		if got := remark(s, clock); got != want {
			t.Errorf("%s: %q, want %q", reason, got, want)
		}
	}
}

func TestRemarkOfWhatIsNotReady(t *testing.T) {
	for _, tt := range []struct {
		name string
		s    api.Status
		want string
	}{
		{"ready, and failing", api.Status{Ready: true, Why: "Why."}, ""},
		{"starting", api.Status{}, ""},
		{"not ready", api.Status{Why: "Readiness probe fails (4 in a row): a\nb"}, "web: Readiness probe fails (4 in a row): a b (healthd explain web)"},
		{"a gate", api.Status{Why: "Why.", Conditions: append(notReady("ReadinessGatesNotReady"), api.Condition{Type: "a", Status: "True"}, api.Condition{Type: "b", Status: "False"})},
			"web: Why. (healthd gate web b True)"},
		{"ended", api.Status{Why: "Why.", RestartPolicy: core.Never, State: api.ContainerState{Terminated: &api.Terminated{ExitCode: 3, Reason: "Error"}}}, "web: Why. (healthd why web)"},
		{"stopped", api.Status{Why: "Why.", State: api.ContainerState{Terminated: &api.Terminated{Reason: "StoppedByOperator"}}}, ""},
		{"its back-off is over", api.Status{Why: "Why.", State: api.ContainerState{Waiting: &api.Waiting{Reason: "CrashLoopBackOff"}}}, "web: Why. Starts now. (healthd why web)"},
	} {
		tt.s.Name, tt.s.State.Running = "web", nil
		if got := remark(tt.s, clock); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
	var many []api.Status
	for range 14 {
		many = append(many, api.Status{Name: "web", Why: "Why."})
	}
	if got := remarks(many, 100, clock); len(got) != 11 || got[10] != "and 4 more: healthd explain NAME" || len(remarks(many, unlimited, clock)) != 14 {
		t.Errorf("of many: %q", got)
	}
}

func TestWatchOfWhatIsNotThere(t *testing.T) {
	socket, _ := daemonWith(t, &fake{}, container("web-1", nil))
	got := inside("status", "wbe-1", "--watch", "--socket", socket)
	const want = "healthd: cannot show wbe-1: no supervised container has that name or ID, and no service or project: did you mean web-1?\n"
	if got.code != 1 || got.stderr != want || got.stdout != "" {
		t.Errorf("%+v, want %q", got, want)
	}
}

func TestAges(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 0: "0s", 59 * time.Second: "59s", time.Minute: "1m", 25 * time.Hour: "1d", 90 * time.Minute: "1h",
	} {
		if got := formatAge(d); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
	got := fmt.Sprint(formatLatency(0.0000214), formatLatency(0.0021234), formatLatency(1.23456))
	if want := fmt.Sprint("21µs", "2.12ms", "1.23s"); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestFit(t *testing.T) {
	for _, tt := range []struct{ line, want string }{
		{"abc", "abc"}, {"abcde", "abcd"}, {"ab" + red + "cde" + plain + "f", "ab" + red + "cd" + plain}, {"äöüßx", "äöüß"}, {"", ""},
	} {
		if got := fit(tt.line, 4); got != tt.want {
			t.Errorf("%q: %q, want %q", tt.line, got, tt.want)
		}
	}
}

func form(wide bool) statusForm {
	if wide {
		return statusForm{output: asWide}
	}
	return statusForm{output: asTable}
}

// The table fits an ordinary terminal, whatever its texts are; a pipe gets all of them.
func TestTableFits(t *testing.T) {
	all := statuses()
	all[0].Name, all[0].Service = strings.Repeat("a-long-name-", 10), "a-long-project/with-a-long-service"
	for columns, want := range map[int]string{80: "…", 100: "…", unlimited: all[0].Name + "  " + all[0].Service} {
		var b bytes.Buffer
		if err := writeStatuses(&b, &b, all, form(false), false, columns, clock); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(b.String(), want) {
			t.Errorf("%d columns: there is no %q in\n%s", columns, want, b.String())
		}
		for line := range strings.SplitSeq(b.String(), "\n") {
			if n := utf8.RuneCountInString(line); n > columns {
				t.Errorf("%d columns: %d are in %s", columns, n, line)
			}
		}
	}
}

func TestStatusForOtherPrograms(t *testing.T) {
	socket, _ := daemonWith(t, &fake{warnings: []string{"autoheal runs, too"}}, container("web-1", nil), container("web-2", nil))
	if got := inside("status", "-o", "name", "--socket", socket); got.code != 0 || got.stdout != "web-1\nweb-2\n" || got.stderr != "" {
		t.Errorf("names: %+v", got)
	}
	if got := inside("status", "--no-headers", "--socket", socket); got.code != 0 || !strings.HasPrefix(got.stdout, "web-1 ") || strings.Count(got.stdout, "\n") != 2 ||
		got.stderr != "warning: autoheal runs, too\n" {
		t.Errorf("without headers: %+v", got)
	}
	socket, _ = daemonWith(t, &fake{warnings: []string{"autoheal runs, too"}})
	if got := inside("status", "--socket", socket); got.code != 0 || got.stderr != "warning: autoheal runs, too\n" {
		t.Errorf("without containers: %+v", got)
	}
}

// What reads a pipe has every container that the engine looks after.
func TestEngineNoteInAPipe(t *testing.T) {
	var all []api.Status
	for _, name := range strings.Split("abcde", "") {
		all = append(all, api.Status{Name: name, EnginePolicy: "always"})
	}
	for columns, want := range map[int]string{100: "a (always), b (always), c (always) and 2 more (-o wide)", unlimited: "a (always), b (always), c (always), d (always) and e (always)"} {
		if got := engineNote(all, columns); !strings.Contains(got, " exits of "+want+";") {
			t.Errorf("%d columns: %s, want %s", columns, got, want)
		}
	}
}
