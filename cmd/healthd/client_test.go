package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"healthd/prober"
	"healthd/runtime"
	"healthd/supervisor"
	"healthd/supervisor/api"
	"healthd/supervisor/core"
	"healthd/supervisor/journal"
)

// fake is a daemon without a supervisor.
type fake struct {
	mu   sync.Mutex // for what programs of their own ask for, one after the other
	held int        // how often somebody asked to hold, since takeHeld

	result prober.Result
	err    error
	gate   string // set last
	hold   string // asked for last
	refuse string // the ID that can be neither held nor resumed

	report func(service string, since time.Time) (api.Report, error)
	fleet  api.Fleet // nil: it is in none

	warnings []string
	stuck    error            // of the main loop
	starting bool             // healthd has not read the engine's first list
	left     api.Unsupervised // what its engine has besides
	records  fakeRecords
}

func (f *fake) Ping(context.Context) error            { return f.stuck }
func (f *fake) Restart(context.Context, string) error { return f.err }
func (f *fake) SetGate(_ context.Context, _, gate string, status bool) error {
	f.gate = fmt.Sprint(gate, " ", status)
	return f.err
}
func (f *fake) Hold(_ context.Context, name string, until time.Time) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.held++
	f.hold = "until a resume"
	if !until.IsZero() {
		f.hold = time.Until(until).Round(time.Minute).String()
	}
	return f.unlessRefused(name)
}
func (f *fake) Resume(_ context.Context, name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hold = ""
	return f.unlessRefused(name)
}
func (f *fake) takeHeld() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.held
	f.held = 0
	return n
}
func (f *fake) unlessRefused(name string) error {
	if f.refuse != "" && strings.HasSuffix(name, f.refuse) {
		return supervisor.ErrStopping
	}
	return f.err
}
func (f *fake) Ask(context.Context, string, core.ProbeType) (prober.Result, error) {
	return f.result, f.err
}

func container(name string, change func(*core.View)) *core.View {
	v := &core.View{
		Container: &runtime.Container{
			Runtime: "docker", ID: "0123456789abcdef" + name, Name: name, Image: "web:1", State: runtime.Running,
		},
		Spec: &core.Spec{
			Name: "web", MatchedBy: "match app=web (healthd.toml:3)", RestartPolicy: core.Always,
			Values: []core.Value{
				{Path: "liveness.period", Value: `"10s"`, Origin: "default"},
				{Path: "liveness.tcp_socket.port", Value: "80", Origin: "healthd.toml:7"},
			},
		},
		Service: "shop", Group: "shop/web", Identity: "shop/web/1",
		State: core.State{Kept: &core.Kept{Engine: core.Engine{State: runtime.Running}, Run: core.Run{ID: runtime.Run{ID: name, Started: 1}, StartedAt: clock.Add(-time.Hour)}, Conditions: core.Conditions{Started: core.Condition{Status: true}, ContainerReady: core.Condition{Status: true}, Ready: core.Condition{Status: true, Since: clock.Add(-time.Hour)}}}},
	}
	v.Spec.Probes[core.Liveness] = &core.ProbeSpec{SuccessThreshold: 1, FailureThreshold: 3}
	v.State.Health.Probes[core.Liveness] = core.ProbeState{
		Result: prober.Success, Outcome: prober.Success, Run: 7, LastAt: clock.Add(-4 * time.Second), Due: clock.Add(6 * time.Second),
		Last: prober.Result{Outcome: prober.Success, Output: "fine\x1b[2J\nreally", Latency: 2100 * time.Microsecond},
	}
	if change != nil {
		change(v)
	}
	return v
}

// clock is now for the tests of what is printed.
var clock = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// daemonWith serves a control socket for these containers and returns its path.
func daemonWith(t *testing.T, f *fake, views ...*core.View) (socket string, j *journal.Journal) {
	t.Helper()
	j = journal.New()
	engine := supervisor.RuntimeView{Name: "docker", Synced: !f.starting}
	if f.starting { // commands wait for one that may answer soon
		engine.Err = errors.New("nobody answers")
	}
	a := api.New(api.Config{
		Board:   supervisor.NewBoard([]supervisor.RuntimeView{engine}, views...),
		History: j, Controller: f, Records: f.records, Warnings: func() []string { return f.warnings },
		Unsupervised: func(context.Context) api.Unsupervised { return f.left }, Report: f.report, Fleet: f.fleet,
	})
	socket = filepath.Join(t.TempDir(), "control.sock")
	ln, err := api.ListenControl(socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- api.Serve(ctx, ln, a.Control(), 10, nil) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return socket, j
}

func TestStatusOfADaemon(t *testing.T) {
	socket, _ := daemonWith(t, &fake{}, container("web-1", nil), container("web-2", nil))
	if got := inside("status", "--socket", socket); got.code != 0 || !strings.Contains(got.stdout, "\nweb-2 ") || got.stderr != "" {
		t.Errorf("%+v", got)
	}
	got := inside("status", "web-2", "wbe-1", "--socket", socket)
	const want = "healthd: cannot show wbe-1: no supervised container has that name or ID, and no service or project: did you mean web-1?\n"
	if got.code != 1 || got.stderr != want || strings.Contains(got.stdout, "web-1") || !strings.Contains(got.stdout, "web-2") {
		t.Errorf("%+v, want %q", got, want)
	}
	json := inside("status", "-o", "json", "web-1", "--socket", socket)
	if !strings.HasPrefix(json.stdout, "[\n") || !strings.Contains(json.stdout, `"name": "web-1"`) {
		t.Errorf("%+v", json)
	}
}

func TestStatusOfNothing(t *testing.T) {
	socket, _ := daemonWith(t, &fake{})
	if got := inside("status", "--socket", socket); got.code != 0 || got.stdout != "no container matches a spec or has a healthd label\n" {
		t.Errorf("%+v", got)
	}
	if got := inside("status", "-o", "json", "--socket", socket); got.stdout != "[]\n" {
		t.Errorf("%+v", got)
	}
}

func TestProbe(t *testing.T) {
	f := &fake{result: prober.Result{Outcome: prober.Success, Output: "fine\n", Latency: 2100 * time.Microsecond}}
	socket, _ := daemonWith(t, f, container("web-1", nil))
	if got := inside("probe", "web-1", "--socket", socket); got.code != 0 ||
		got.stdout != "liveness probe of web-1: Success in 2.1ms\n  | fine\n" {
		t.Errorf("%+v", got)
	}
	f.result = prober.Result{Outcome: prober.Failure, Cause: prober.Refused, Output: "\x1b[31mno"}
	if got := inside("probe", "web-1", "liveness", "--socket", socket); got.code != 1 ||
		got.stdout != "liveness probe of web-1: Failure (refused) in 0s\n  | ?[31mno\n" || got.stderr != "" {
		t.Errorf("%+v", got)
	}
	if got := inside("probe", "web-1", "startup", "--socket", socket); got.code != 1 ||
		got.stderr != "healthd: cannot probe web-1: the container has no such probe: startup\n" {
		t.Errorf("%+v", got)
	}
	f.err = errors.New("the container is not running: it is paused")
	if got := inside("probe", "web-1", "--socket", socket); got.code != 1 ||
		got.stderr != "healthd: cannot probe web-1: the container is not running: it is paused\n" {
		t.Errorf("%+v", got)
	}
}

func TestUnknownContainer(t *testing.T) {
	socket, _ := daemonWith(t, &fake{}, container("web-1", nil), container("db", nil))
	for _, command := range []string{"probe", "restart", "events", "events --follow", "gate"} {
		args := append(strings.Fields(command), "web", "--socket", socket)
		if command == "gate" {
			args = append(args, "a", "True")
		}
		got := inside(args...)
		if got.code != 1 || !strings.HasSuffix(got.stderr, " web: no supervised container has that name or ID: did you mean web-1?\n") {
			t.Errorf("%s: %+v", command, got)
		}
	}
}

func TestRestartRefused(t *testing.T) {
	socket, _ := daemonWith(t, &fake{err: supervisor.ErrAutoRemove}, container("web-1", nil))
	got := inside("restart", "web-1", "--socket", socket)
	if want := "healthd: cannot restart web-1: " + supervisor.ErrAutoRemove.Error() + "\n"; got.code != 1 || got.stderr != want {
		t.Errorf("%+v, want %q", got, want)
	}
}

func TestRestartThatDoesNotCome(t *testing.T) {
	t.Parallel()
	socket, _ := daemonWith(t, &fake{}, container("web-1", nil))
	got := inside("restart", "web-1", "--timeout", "5s", "--socket", socket)
	const want = "healthd: cannot see the new run of web-1: it has not begun after 5s; the restart goes on\n"
	if got.code != 1 || got.stderr != want || got.stdout != "web-1: restart requested\n" {
		t.Errorf("%+v, want %q", got, want)
	}
}

// Somebody stops the container while it drains: no new run will come.
func TestRestartOfAContainerThatStaysStopped(t *testing.T) {
	socket, _ := daemonWith(t, &fake{}, container("web-1", func(v *core.View) {
		v.State.Engine.State, v.State.Conditions.ContainerReady.Status, v.State.Conditions.Ready.Status, v.State.Ending.By = runtime.Exited, false, false, core.EndedByOperator
		v.State.Run.Exit = core.Exit{Reason: core.ReasonStoppedByOperator, FinishedAt: clock}
	}))
	got := inside("restart", "web-1", "--timeout", "1m", "--socket", socket)
	const want = "healthd: cannot restart web-1: it has ended (StoppedByOperator), and healthd does not start it again: see healthd events web-1\n"
	if got.code != 1 || got.stderr != want {
		t.Errorf("%+v, want %q", got, want)
	}
}

// A restart that was not confirmed is not said to go on.
func TestRestartThatNobodyConfirms(t *testing.T) {
	t.Parallel()
	silent := filepath.Join(t.TempDir(), "s")
	ln, err := net.Listen("unix", silent)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	waits, _ := daemonWith(t, &fake{}, container("web-1", nil))
	for socket, want := range map[string]string{
		silent: "healthd: cannot restart web-1: the daemon did not answer within 5s\n",
		waits:  "healthd: cannot see the new run of web-1: it has not begun after 5s; the restart goes on\n",
	} {
		if got := inside("restart", "web-1", "--timeout", "5s", "--socket", socket); got.code != 1 || got.stderr != want {
			t.Errorf("%+v, want %q", got, want)
		}
	}
}

func TestEventsOfADaemon(t *testing.T) {
	socket, j := daemonWith(t, &fake{}, container("web-1", nil))
	j.Record(core.Event{Time: clock, Container: "gone", Reason: "Killing", Message: "a\nb\x1b"})
	got := inside("events", "--socket", socket)
	if got.code != 0 || !strings.Contains(got.stdout, "gone       Killing  a b?\n") {
		t.Errorf("%+v", got)
	}
	if got := inside("events", "gone", "-o", "json", "--socket", socket); !strings.Contains(got.stdout, `"message": "a\nb\u001b"`) {
		t.Errorf("%+v", got)
	}
	for _, since := range []string{formatTime(time.Now().Add(-time.Hour)), "1d"} {
		if got := inside("events", "--since", since, "-n", "1", "-o", "json", "--socket", socket); got.code != 0 || strings.Count(got.stdout, `"reason"`) > 1 {
			t.Errorf("since %s: %+v", since, got)
		}
	}
	if got := inside("events", "-n", "-1", "--socket", socket); got.code != 2 {
		t.Errorf("a negative number: %+v", got)
	}
	if got := inside("events", "--since", "1ns", "-o", "json", "--socket", socket); got.stdout != "[]\n" {
		t.Errorf("%+v", got)
	}
}

func TestFollowedEvents(t *testing.T) {
	socket, j := daemonWith(t, &fake{}, container("web-1", nil))
	j.Record(core.Event{Time: clock, Container: "web-1", Reason: "Ready"})
	ctx, cancel := context.WithCancel(t.Context())
	lines := make(chan string, 10)
	a := &app{stdout: lineWriter(lines), socket: socket, size: func() (int, int, bool) { return 0, 0, false }}
	c, err := a.client()
	if err != nil {
		t.Fatal(err)
	}
	query, err := eventsQuery("", []string{"web-1"})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- a.followEvents(ctx, c, query, asTable) }()
	if got := <-lines; !strings.Contains(got, "web-1                 Ready") {
		t.Errorf("kept: %q", got)
	}
	j.Record(core.Event{Time: clock, Container: "web-1", Reason: "NotReady", Message: "2/2"})
	if got := <-lines; !strings.HasSuffix(got, "NotReady               2/2\n") {
		t.Errorf("live: %q", got)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

type lineWriter chan string

func (w lineWriter) Write(p []byte) (int, error) {
	w <- string(p)
	return len(p), nil
}

func TestNearNames(t *testing.T) {
	names := []string{"web-1", "web-2", "db", "shop-web-1", "cache"}
	for wrong, want := range map[string]string{
		"web": "shop-web-1 web-1 web-2", "wbe-1": "web-1", "dbb": "db", "zzz": "", "x": "", "": "",
	} {
		if got := strings.Join(nearNames(wrong, names), " "); got != want {
			t.Errorf("%q: %q, want %q", wrong, got, want)
		}
	}
}

// The daemon is stopped or its machine is choking: nobody accepts.
func TestDaemonThatDoesNotAnswer(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	ln, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	a := &app{socket: socket}
	c, err := a.client()
	if err != nil {
		t.Fatal(err)
	}
	c.timeout = 50 * time.Millisecond
	want := "cannot reach the daemon at " + socket + ": it does not answer within 50ms"
	if err := c.get(t.Context(), "/v1/containers", nil, &[]api.Status{}); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if _, err := c.stream(t.Context(), "/v1/events", nil, "text/event-stream"); err == nil || err.Error() != want {
		t.Errorf("a stream: got %v, want %s", err, want)
	}
	if got := c.explainNone(t.Context()); got != "no container is known: "+want {
		t.Errorf("no containers: %s", got)
	}
}

// A name may stand for something else than a supervised container.
func TestOtherMeaning(t *testing.T) {
	member := func(id string) *core.View {
		return container(id, func(v *core.View) { v.Service = "shop/web" })
	}
	left := api.Unsupervised{Containers: []api.Bystander{{Name: "cache", ID: "c0ffee", Runtime: "docker", Why: []string{"it has no label that begins with healthd."}}}}
	socket, _ := daemonWith(t, &fake{left: left}, member("shop-web-1"), member("shop-web-2"), container("db", nil))
	for _, tt := range []struct{ args, want string }{
		{"probe web", "cannot probe web: that is a service or project; name one of its containers: shop-web-1, shop-web-2"},
		{"restart shop/web", "cannot restart shop/web: that is a service or project; name one of its containers: shop-web-1, shop-web-2"},
		{"explain web", "cannot explain web: that is a service or project; name one of its containers: shop-web-1, shop-web-2"},
		{"events cache", "cannot show the events of cache: healthd leaves that container alone; healthd explain cache says why"},
		{"gate cache a True", "cannot set a gate of cache: healthd leaves that container alone; healthd explain cache says why"},
		{"hold cache", "cannot hold cache: healthd leaves that container alone; healthd explain cache says why"},
	} {
		if got := inside(append(strings.Fields(tt.args), "--socket", socket)...); got.code != 1 || got.stderr != "healthd: "+tt.want+"\n" {
			t.Errorf("%s: %+v", tt.args, got)
		}
	}
}
