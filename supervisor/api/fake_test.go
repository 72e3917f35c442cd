package api

import (
	"context"
	"flag"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"healthd/prober"
	"healthd/runtime"
	"healthd/supervisor"
	"healthd/supervisor/core"
	"healthd/supervisor/journal"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// golden compares got with a file of testdata.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("%s:\ngot  %s\nwant %s", name, got, want)
	}
}

func at(second int) time.Time { return time.Date(2026, 1, 2, 3, 4, second, 0, time.UTC) }

// readyContainer returns a container that is running, started and ready.
func readyContainer(name string) *core.View {
	id := (name + "0000000000000000000000000000000000000000000000000000000000000000")[:64]
	v := &core.View{
		Container: &runtime.Container{
			Runtime: "docker", ID: id, Name: name, Image: "web:1", Address: "172.18.0.5",
			State: runtime.Running, StartedAt: at(0), RestartPolicy: "no",
		},
		Spec: &core.Spec{
			Name: "web", MatchedBy: "match app=web (healthd.toml:3)", RestartPolicy: core.Always,
			Publish: core.Publish{Service: "shop", Port: 8080},
			Values:  []core.Value{{Path: "liveness.period", Value: `"10s"`, Origin: "default"}},
		},
		Identity: "shop/web/1", Group: "shop/web", Service: "shop",
		State: core.State{Kept: &core.Kept{Engine: core.Engine{State: runtime.Running}, Run: core.Run{ID: runtime.Run{ID: id, Started: at(0).UnixNano()}, StartedAt: at(0)}, Conditions: core.Conditions{Started: core.Condition{Status: true, Since: at(1)}, ContainerReady: core.Condition{Status: true, Since: at(2)}, Ready: core.Condition{Status: true, Since: at(2)}}}},
	}
	addProbe(v, core.Liveness, core.ProbeState{
		Result: prober.Success, Outcome: prober.Failure, Run: 2,
		Last: prober.Result{
			Outcome: prober.Failure, Cause: prober.Status, Latency: 2100 * time.Microsecond,
			Output: "HTTP probe failed with statuscode: 500 <b>",
		},
		LastAt: at(20), Due: at(30),
	})
	return v
}

func addProbe(v *core.View, t core.ProbeType, y core.ProbeState) {
	v.Spec.Probes[t] = &core.ProbeSpec{
		Handler: prober.Handler{TCPSocket: &prober.TCPSocket{Port: 80}},
		Period:  10 * time.Second, Timeout: time.Second, SuccessThreshold: 1, FailureThreshold: 3,
	}
	v.State.Health.Probes[t] = y
}

// unreadyContainer returns a container whose readiness probe has failed.
func unreadyContainer(name string) *core.View {
	v := readyContainer(name)
	v.State.Conditions.ContainerReady.Status, v.State.Conditions.Ready.Status = false, false
	addProbe(v, core.Readiness, core.ProbeState{
		Result: prober.Failure, Outcome: prober.Failure, Run: 4,
		Last: prober.Result{Outcome: prober.Failure, Output: "refused"}, LastAt: at(20), Due: at(30),
	})
	return v
}

func drainingContainer(name string) *core.View {
	v := readyContainer(name)
	v.State.Conditions.ContainerReady.Status, v.State.Conditions.Ready.Status = false, false
	v.State.Action.Stopping = core.ByLiveness
	v.State.Action.NotBefore, v.State.Action.Withdrawn = at(40), at(35)
	return v
}

// backingOffContainer returns a container that has ended and waits for its start.
func backingOffContainer(name string) *core.View {
	v := readyContainer(name)
	v.State.Engine.State, v.State.Conditions.ContainerReady.Status, v.State.Conditions.Ready.Status = runtime.Exited, false, false
	v.State.Run.Exit = core.Exit{Code: 137, Reason: core.ReasonLivenessFailed, StartedAt: at(0), FinishedAt: at(25)}
	v.State.Action.Restart, v.State.Action.NotBefore = core.ByLiveness, at(45)
	v.State.Lasting.Backoff = core.BackoffState{Active: true, Delay: 20 * time.Second}
	v.State.Lasting.Restarts[core.ByLiveness] = 2
	return v
}

// gatedContainer returns a container that two of its three gates keep from being ready.
func gatedContainer(name string) *core.View {
	v := readyContainer(name)
	v.Spec.ReadinessGates = []string{"example.com/warm", "ok", "never"}
	v.State.Gates = []core.Gate{
		{Type: "ok", At: at(7)}, {Type: "not-in-the-spec", Status: true, At: at(4)}, {Type: "example.com/warm", Status: true, At: at(5)},
	}
	v.State.Conditions.Ready.Status, v.State.Conditions.Ready.Since = false, at(7)
	return v
}

func invalidContainer(name string) *core.View {
	v := readyContainer(name)
	v.Spec, v.Service, v.State = nil, "", core.State{Kept: &core.Kept{Engine: core.Engine{State: runtime.Running}}}
	v.Invalid = `label healthd.liveness.period: must be a duration, is "x"`
	return v
}

// controller is a Controller that does what its fields say, for the container of that ID.
type controller struct {
	ping     error
	restart  func(name string) error
	setGate  func(id, gate string, status bool) error
	hold     func(id string, until time.Time) error
	resume   func(id string) error
	ask      func(id string, t core.ProbeType) (prober.Result, error)
	pingWait bool
}

func (c *controller) Ping(ctx context.Context) error {
	if c.pingWait {
		<-ctx.Done()
		return ctx.Err()
	}
	return c.ping
}

func (c *controller) Restart(_ context.Context, name string) error { return c.restart(idOf(name)) }

func (c *controller) SetGate(_ context.Context, name, gate string, status bool) error {
	return c.setGate(idOf(name), gate, status)
}

func (c *controller) Hold(_ context.Context, name string, until time.Time) error {
	return c.hold(idOf(name), until)
}

func (c *controller) Resume(_ context.Context, name string) error { return c.resume(idOf(name)) }

func (c *controller) Ask(_ context.Context, name string, t core.ProbeType) (prober.Result, error) {
	return c.ask(idOf(name), t)
}

// idOf returns the ID in a name that no other container can have.
func idOf(name string) string {
	if id, ok := strings.CutPrefix(name, runtime.IDPrefix); ok {
		return id
	}
	return "maybe another " + name
}

func synced(name string) supervisor.RuntimeView {
	return supervisor.RuntimeView{Name: name, Up: true, Synced: true}
}

// newAPI returns an API over these containers.
func newAPI(views ...*core.View) (*API, *journal.Journal, *controller) {
	j, c := journal.New(), &controller{}
	board := supervisor.NewBoard([]supervisor.RuntimeView{synced("docker")}, views...)
	return New(Config{Board: board, History: j, Controller: c}), j, c
}

// serve serves h over TCP for the time of the test and returns its URL.
func serve(t *testing.T, ln net.Listener, h http.Handler) { t.Helper(); serveMost(t, ln, h, 1000) }

func serveMost(t *testing.T, ln net.Listener, h http.Handler, most int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, ln, h, most, nil) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func serveTCP(t *testing.T, h http.Handler) (url string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	serve(t, ln, h)
	return "http://" + ln.Addr().String()
}

// ask sends a request and returns the answer with its body.
func ask(t *testing.T, client *http.Client, method, url string) (*http.Response, string) {
	t.Helper()
	return put(t, client, method, url, "")
}

// put sends a request with a body, compares the answer with openapi.json, and returns it with its body.
func put(t *testing.T, client *http.Client, method, url, text string) (*http.Response, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	checkAnswer(t, request, answer.StatusCode, answer.Header, body)
	return answer, string(body)
}
