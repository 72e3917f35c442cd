package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"

	"healthd/runtime/docker/dockertest"
)

const sickSpec = `
[[spec]]
name = %[1]q
match = { e2e = %[1]q }
[spec.readiness]
http_get = { port = 8080, path = "/healthz" }
period = "200ms"
failure_threshold = 1
[spec.backoff]
initial = "1s"
max = "2s"
`

const hangsSpec = sickSpec + `
[spec.liveness]
http_get = { port = 8080, path = "/healthz" }
period = "200ms"
termination_grace_period = "2s"
`

// startBehindProxy starts healthd with a proxy before its engine. It lists the containers
// every second, to find within a short test what no event reported.
func startBehindProxy(t *testing.T, p *proxy, specs string) *daemon {
	t.Helper()
	d := newBehindProxy(t, p, specs)
	d.start()
	d.eventually(30*time.Second, "be synced", d.synced)
	return d
}

func newBehindProxy(t *testing.T, p *proxy, specs string) *daemon {
	t.Helper()
	d := newDaemon(t, p.endpoint(), specs)
	d.rewrite(func(text string) string { return strings.Replace(text, "[listen]", "relist = \"1s\"\n[listen]", 1) })
	return d
}

// set changes the behaviour of the test server in a container, without the proxy.
func set(t *testing.T, e engine, id, how string) {
	t.Helper()
	inside(t, e, id, "/bin/wget", "-q", "-O", "-", "--post-data=", "http://127.0.0.1:8080/set?"+how)
}

// checkReadinessFollows checks that readiness still follows the probe.
func (d *daemon) checkReadinessFollows(e *dockertest.Engine, name string) {
	d.t.Helper()
	set(d.t, e, name, "status=500")
	d.until(5*time.Second, name, "unready, as its server says", func(s status) bool { return !s.Ready })
	set(d.t, e, name, "status=200")
	d.until(5*time.Second, name, "ready again, as its server says", ready)
}

func restarted(n int) func(status) bool {
	return func(s status) bool { return s.RestartCount == n && s.State.Running != nil }
}

func gone(err error) error {
	if err == nil {
		return errors.New("it is still there")
	}
	return nil
}

// No event arrives: lists find every change, and the engine's history has the causes.
func TestAllEventsLost(t *testing.T) {
	t.Parallel()
	e := engines.Engine(t)
	p := startProxy(t, e)
	d := startBehindProxy(t, p, fmt.Sprintf(sickSpec, "deafened"))
	p.dropEvents(func(proxiedEvent) bool { return true })
	run := func(name string) string {
		return e.Run(t, dockertest.RunOptions{Name: name, Labels: map[string]string{"e2e": "deafened"}})
	}
	id := run("deafened-1")
	d.until(10*time.Second, "deafened-1", "found and ready", ready)
	d.endProcess(e, id)
	d.until(10*time.Second, "deafened-1", "started again and ready", func(s status) bool { return s.Ready && s.RestartCount == 1 })
	if err := e.Client().ContainerPause(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	d.until(10*time.Second, "deafened-1", "paused", func(s status) bool { return s.condition("Ready").Reason == "Paused" })
	if err := e.Client().ContainerUnpause(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	d.until(10*time.Second, "deafened-1", "ready", ready)
	if err := e.Client().ContainerStop(t.Context(), id, container.StopOptions{}); err != nil {
		t.Fatal(err)
	}
	d.until(10*time.Second, "deafened-1", "stopped by the operator", byOperator)
	d.stays(3*time.Second, "deafened-1", "left alone", byOperator)
	if err := e.Client().ContainerStart(t.Context(), id, container.StartOptions{}); err != nil {
		t.Fatal(err)
	}
	d.until(10*time.Second, "deafened-1", "ready", ready)
	e.Remove(t, id)
	d.eventually(10*time.Second, "forget what is gone", func() error { _, err := d.status("deafened-1"); return gone(err) })
	if n := p.count("POST /containers/.*/start"); n != 1 {
		t.Errorf("%d starts, want 1", n)
	}
}

// The event stream stalls without being closed, while requests are answered.
func TestEventStreamStalls(t *testing.T) {
	t.Parallel()
	e := engines.Engine(t)
	p := startProxy(t, e)
	d := startBehindProxy(t, p, fmt.Sprintf(sickSpec, "stalled"))
	id := e.Run(t, dockertest.RunOptions{Name: "stalled", Labels: map[string]string{"e2e": "stalled"}})
	d.until(10*time.Second, "stalled", "ready", ready)
	p.stallEvents()
	d.checkReadinessFollows(e, "stalled")
	d.endProcess(e, id)
	d.until(10*time.Second, "stalled", "started again", func(s status) bool { return s.Ready && s.RestartCount == 1 })
	p.resumeEvents() // the old die and start come now
	d.stays(2*time.Second, "stalled", "left alone", func(s status) bool { return s.Ready && s.RestartCount == 1 })
	if err := e.Client().ContainerStop(t.Context(), id, container.StopOptions{}); err != nil {
		t.Fatal(err)
	}
	d.until(5*time.Second, "stalled", "stopped by the operator", byOperator)
}

// The engine accepts connections and does not answer. The deadline of a list, 30 s, finds
// that first. A silent stream without lists is tested by runtime's TestWatchSilence.
func TestEngineAnswersNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 35 s")
	}
	t.Parallel()
	e := engines.Engine(t)
	p := startProxy(t, e)
	d := startBehindProxy(t, p, fmt.Sprintf(hangsSpec, "mute"))
	e.Run(t, dockertest.RunOptions{Name: "mute", Labels: map[string]string{"e2e": "mute"}})
	d.until(10*time.Second, "mute", "ready", ready)
	p.stallEvents()
	p.on(".", hang)
	d.eventually(45*time.Second, "notice that the engine does not answer", func() error { return d.runtimeUp("0") })
	set(t, e, "mute", "status=500")
	d.until(5*time.Second, "mute", "unready", func(s status) bool { return !s.Ready })
	d.stays(time.Second, "mute", "not restarted meanwhile", func(s status) bool { return s.RestartCount == 0 && !s.Draining })
	p.clearFaults()
	p.refuse() // what hung before is cut
	p.accept()
	d.eventually(30*time.Second, "hear the engine again", func() error { return d.runtimeUp("1") })
	d.until(20*time.Second, "mute", "restarted, as it failed once more", func(s status) bool { return s.RestartCount == 1 && s.Ready })
	d.runtimeEvents("RuntimeLost", "RuntimeBack")
}

// runtimeEvents checks the events about the engine itself.
func (d *daemon) runtimeEvents(want ...string) {
	d.t.Helper()
	var got []string
	for _, reason := range d.reasons("") {
		if strings.HasPrefix(reason, "Runtime") {
			got = append(got, reason)
		}
	}
	if !slices.Equal(got, want) {
		d.t.Errorf("events of the engine %v, want %v", got, want)
	}
}

// The socket refuses connections. Changes meanwhile are found afterwards, and a stop by the
// operator is recognized.
func TestEngineRefuses(t *testing.T) {
	t.Parallel()
	e := engines.Engine(t)
	p := startProxy(t, e)
	p.refuse()
	d := newBehindProxy(t, p, fmt.Sprintf(hangsSpec, "refused"))
	d.start()
	d.eventually(20*time.Second, "say that it waits for the engine", func() error {
		if err := d.synced(); err == nil || !strings.Contains(err.Error(), "docker (cannot connect") {
			return fmt.Errorf("/readyz says %v", err)
		}
		return nil
	})
	p.accept()
	d.eventually(30*time.Second, "be synced", d.synced)
	ids := map[string]string{}
	for _, name := range []string{"refused-runs", "refused-crashes", "refused-stopped", "refused-hangs"} {
		ids[name] = e.Run(t, dockertest.RunOptions{Name: name, Labels: map[string]string{"e2e": "refused"}})
		d.until(10*time.Second, name, "ready", ready)
	}
	p.refuse()
	d.eventually(5*time.Second, "notice that the engine is gone", func() error { return d.runtimeUp("0") })
	d.checkReadinessFollows(e, "refused-runs")
	set(t, e, "refused-hangs", "status=500")
	d.endProcess(e, ids["refused-crashes"])
	if err := e.Client().ContainerStop(t.Context(), ids["refused-stopped"], container.StopOptions{}); err != nil {
		t.Fatal(err)
	}
	d.stays(2*time.Second, "refused-hangs", "not restarted meanwhile", func(s status) bool { return !s.Draining && s.RestartCount == 0 })
	p.accept()
	d.eventually(20*time.Second, "hear the engine again", func() error { return d.runtimeUp("1") })
	d.until(10*time.Second, "refused-crashes", "started again", restarted(1))
	d.until(10*time.Second, "refused-stopped", "stopped by the operator", byOperator)
	d.until(10*time.Second, "refused-hangs", "restarted", restarted(1))
	d.until(10*time.Second, "refused-runs", "ready all the time", restarted(0))
	d.stays(time.Second, "refused-stopped", "stopped", byOperator)
	d.runtimeEvents("RuntimeLost", "RuntimeBack", "RuntimeLost", "RuntimeBack")
}

const wrongSpec = sickSpec + `
[spec.liveness]
exec = { command = ["true"] }
period = "200ms"
timeout = "5s"
failure_threshold = 1
`

// Wrong answers of the engine never count as a container's failure, and the real state is
// found when the answers are right again.
func TestWrongAnswers(t *testing.T) {
	t.Parallel()
	e := engines.Engine(t)
	const html, js = "text/html", "application/json"
	page := "<html><body>502 Bad Gateway</body></html>\n"
	for _, tt := range []struct {
		name string
		act  http.HandlerFunc
	}{
		{"500", fails},
		{"html", respond(http.StatusOK, html, page)},
		{"html-502", respond(http.StatusBadGateway, html, page)},
		{"empty", respond(http.StatusOK, js, "")},
		{"object", respond(http.StatusOK, js, "{}\n")},
		{"null", respond(http.StatusOK, js, "null\n")},
		{"list", respond(http.StatusOK, js, "[{}]\n")},
		{"truncated", respond(http.StatusOK, js, `{"Id":"0123456789ab`)},
		{"types", respond(http.StatusOK, js, `{"Id":7,"State":"running","Running":"no","ExitCode":"1"}`)},
		{"half", respond(http.StatusOK, js, `{"Id":"0123456789ab","Name":"/x"}`)},
		{"404", respond(http.StatusNotFound, html, page)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			wrongAnswers(t, e, "wrong-"+tt.name, tt.act)
		})
	}
}

func wrongAnswers(t *testing.T, e *dockertest.Engine, name string, act http.HandlerFunc) {
	p := startProxy(t, e)
	d := startBehindProxy(t, p, fmt.Sprintf(wrongSpec, name))
	id := e.Run(t, dockertest.RunOptions{Name: name, Labels: map[string]string{"e2e": name}})
	healthy := func(s status) bool { return s.Ready && s.Probes["liveness"].Outcome == "Success" }
	d.until(20*time.Second, name, "healthy", healthy)
	before := startedAt(t, e, id)
	for _, call := range []string{"exec", "GET /containers/[0-9a-f]+/json", "GET /containers/json", "."} {
		p.on(call, act)
		if call == "GET /containers/[0-9a-f]+/json" { // which makes healthd look
			if err := e.Client().ContainerRename(t.Context(), id, name+"-x"); err != nil {
				t.Fatal(err)
			}
			if err := e.Client().ContainerRename(t.Context(), id, name); err != nil {
				t.Fatal(err)
			}
		}
		d.staysReady(name, 1500*time.Millisecond)
		p.clearFaults()
	}
	d.eventually(20*time.Second, "hear the engine again", func() error { return d.runtimeUp("1") })
	d.until(20*time.Second, name, "healthy again", healthy)
	if after := startedAt(t, e, id); !after.Equal(before) {
		t.Errorf("started again at %v: events %v", after, d.reasons(name))
	}
	if n := p.count("POST /containers/.*/(stop|start)"); n != 0 {
		t.Errorf("%d calls to stop or start it", n)
	}
	d.endProcess(e, id)
	d.until(20*time.Second, name, "started again after a crash", restarted(1))
}

// staysReady checks that a healthy container stays known and ready.
func (d *daemon) staysReady(name string, during time.Duration) {
	d.t.Helper()
	d.stays(during, name, "known, ready and not restarted", func(s status) bool {
		return s.Ready && s.RestartCount == 0 && !s.Draining
	})
}

// A stop by an operator right after the engine's restart, before healthd is connected again,
// is not taken for the engine's own.
func TestStopRightAfterEngineRestart(t *testing.T) {
	t.Parallel()
	e := dockertest.Start(t)
	p := startProxy(t, e)
	d := startBehindProxy(t, p, fmt.Sprintf(sickSpec, "reopened"))
	for _, name := range []string{"reopened-kill", "reopened-stop", "reopened-runs"} {
		e.Run(t, dockertest.RunOptions{Name: name, Labels: map[string]string{"e2e": "reopened"}})
		d.until(10*time.Second, name, "ready", ready)
	}
	p.refuse()
	e.Kill(t)
	e.Up(t)
	if err := e.Client().ContainerKill(t.Context(), "reopened-kill", "KILL"); err != nil {
		t.Fatal(err)
	}
	if err := e.Client().ContainerStop(t.Context(), "reopened-stop", container.StopOptions{}); err != nil {
		t.Fatal(err)
	}
	p.accept()
	d.eventually(20*time.Second, "hear the engine again", func() error { return d.runtimeUp("1") })
	for _, name := range []string{"reopened-kill", "reopened-stop"} {
		d.until(5*time.Second, name, "stopped by the operator", byOperator)
		d.stays(time.Second, name, "stopped by the operator", byOperator)
	}
	d.until(5*time.Second, "reopened-runs", "ready all the time", func(s status) bool { return s.Ready && s.RestartCount == 0 })
}
