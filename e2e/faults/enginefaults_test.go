package faults

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"

	"healthd/e2e/harness"
	"healthd/runtime/docker/dockertest"
)

// checkReadinessFollows checks that readiness still follows the probe.
func checkReadinessFollows(d *harness.Daemon, e *dockertest.Engine, name string) {
	d.T.Helper()
	harness.Set(d.T, e, name, "status=500")
	d.Until(name, "unready, as its server says", func(s harness.Status) bool { return !s.Ready })
	harness.Set(d.T, e, name, "status=200")
	d.Until(name, "ready again, as its server says", harness.Ready)
}

// No event arrives: lists find every change, and the engine's history has the causes.
func TestAllEventsLost(t *testing.T) {
	t.Parallel()
	e := harness.Docker.Engine(t)
	p := harness.StartProxy(t, e)
	d := harness.StartBehindProxy(t, p, fmt.Sprintf(harness.SickSpec, "deafened"))
	p.DropEvents(func(harness.ProxiedEvent) bool { return true })
	run := func(name string) string {
		return e.Run(t, dockertest.RunOptions{Name: name, Labels: map[string]string{"e2e": "deafened"}})
	}
	id := run("deafened-1")
	d.Until("deafened-1", "found and ready", harness.Ready)
	d.EndProcess(e, id)
	d.Until("deafened-1", "started again and ready", func(s harness.Status) bool { return s.Ready && s.RestartCount == 1 })
	e.Pause(t, id)
	d.Until("deafened-1", "paused", func(s harness.Status) bool { return s.Condition("Ready").Reason == "Paused" })
	e.Unpause(t, id)
	d.Until("deafened-1", "ready", harness.Ready)
	if err := e.Client().ContainerStop(t.Context(), id, container.StopOptions{}); err != nil {
		t.Fatal(err)
	}
	d.Until("deafened-1", "stopped by the operator", harness.ByOperator)
	d.Stays(3*time.Second, "deafened-1", "left alone", harness.ByOperator)
	if err := e.Client().ContainerStart(t.Context(), id, container.StartOptions{}); err != nil {
		t.Fatal(err)
	}
	d.Until("deafened-1", "ready", harness.Ready)
	e.Remove(t, id)
	d.Eventually("forget what is gone", func() error { _, err := d.Status("deafened-1"); return harness.Gone(err) })
	if n := p.Count("POST /containers/.*/start"); n != 1 {
		t.Errorf("%d starts, want 1", n)
	}
}

// The event stream stalls without being closed, while requests are answered.
func TestEventStreamStalls(t *testing.T) {
	t.Parallel()
	e := harness.Docker.Engine(t)
	p := harness.StartProxy(t, e)
	d := harness.StartBehindProxy(t, p, fmt.Sprintf(harness.SickSpec, "stalled"))
	id := e.Run(t, dockertest.RunOptions{Name: "stalled", Labels: map[string]string{"e2e": "stalled"}})
	d.Until("stalled", "ready", harness.Ready)
	p.StallEvents()
	checkReadinessFollows(d, e, "stalled")
	d.EndProcess(e, id)
	d.Until("stalled", "started again", func(s harness.Status) bool { return s.Ready && s.RestartCount == 1 })
	p.ResumeEvents() // the old die and start come now
	d.Stays(2*time.Second, "stalled", "left alone", func(s harness.Status) bool { return s.Ready && s.RestartCount == 1 })
	if err := e.Client().ContainerStop(t.Context(), id, container.StopOptions{}); err != nil {
		t.Fatal(err)
	}
	d.Until("stalled", "stopped by the operator", harness.ByOperator)
}

// The engine accepts connections and does not answer. The deadline of a list, 30 s, finds
// that first. A silent stream without lists is tested by runtime's TestWatchSilence.
func TestEngineAnswersNothing(t *testing.T) {
	t.Parallel()
	e := harness.Docker.Engine(t)
	p := harness.StartProxy(t, e)
	d := harness.StartBehindProxy(t, p, fmt.Sprintf(harness.HangsSpec, "mute"))
	e.Run(t, dockertest.RunOptions{Name: "mute", Labels: map[string]string{"e2e": "mute"}})
	d.Until("mute", "ready", harness.Ready)
	p.StallEvents()
	p.On(".", harness.Hang)
	d.Eventually("notice that the engine does not answer", func() error { return d.RuntimeUp("0") })
	harness.Set(t, e, "mute", "status=500")
	d.Until("mute", "unready", func(s harness.Status) bool { return !s.Ready })
	d.Stays(time.Second, "mute", "not restarted meanwhile", func(s harness.Status) bool { return s.RestartCount == 0 && !s.Draining })
	p.ClearFaults()
	p.Refuse() // what hung before is cut
	p.Accept()
	d.Eventually("hear the engine again", func() error { return d.RuntimeUp("1") })
	d.Until("mute", "restarted, as it failed once more", func(s harness.Status) bool { return s.RestartCount == 1 && s.Ready })
	runtimeEvents(d, "RuntimeLost", "RuntimeBack")
}

// runtimeEvents checks the events about the engine itself.
func runtimeEvents(d *harness.Daemon, want ...string) {
	d.T.Helper()
	var got []string
	for _, reason := range d.Reasons("") {
		if strings.HasPrefix(reason, "Runtime") {
			got = append(got, reason)
		}
	}
	if !slices.Equal(got, want) {
		d.T.Errorf("events of the engine %v, want %v", got, want)
	}
}

// The socket refuses connections. Changes meanwhile are found afterwards, and a stop by the
// operator is recognized.
func TestEngineRefuses(t *testing.T) {
	t.Parallel()
	e := harness.Docker.Engine(t)
	p := harness.StartProxy(t, e)
	p.Refuse()
	d := harness.NewBehindProxy(t, p, fmt.Sprintf(harness.HangsSpec, "refused"))
	d.Start()
	d.Eventually("say that it waits for the engine", func() error {
		if err := d.Synced(); err == nil || !strings.Contains(err.Error(), "docker (cannot connect") {
			return fmt.Errorf("/readyz says %v", err)
		}
		return nil
	})
	p.Accept()
	d.Eventually("be synced", d.Synced)
	ids := map[string]string{}
	for _, name := range []string{"refused-runs", "refused-crashes", "refused-stopped", "refused-hangs"} {
		ids[name] = e.Run(t, dockertest.RunOptions{Name: name, Labels: map[string]string{"e2e": "refused"}})
		d.Until(name, "ready", harness.Ready)
	}
	p.Refuse()
	d.Eventually("notice that the engine is gone", func() error { return d.RuntimeUp("0") })
	checkReadinessFollows(d, e, "refused-runs")
	harness.Set(t, e, "refused-hangs", "status=500")
	d.EndProcess(e, ids["refused-crashes"])
	if err := e.Client().ContainerStop(t.Context(), ids["refused-stopped"], container.StopOptions{}); err != nil {
		t.Fatal(err)
	}
	d.Stays(2*time.Second, "refused-hangs", "not restarted meanwhile", func(s harness.Status) bool { return !s.Draining && s.RestartCount == 0 })
	p.Accept()
	d.Eventually("hear the engine again", func() error { return d.RuntimeUp("1") })
	d.Until("refused-crashes", "started again", harness.Restarted(1))
	d.Until("refused-stopped", "stopped by the operator", harness.ByOperator)
	d.Until("refused-hangs", "restarted", harness.Restarted(1))
	d.Until("refused-runs", "ready all the time", harness.Restarted(0))
	d.Stays(time.Second, "refused-stopped", "stopped", harness.ByOperator)
	runtimeEvents(d, "RuntimeLost", "RuntimeBack", "RuntimeLost", "RuntimeBack")
}

const wrongSpec = harness.SickSpec + `
[spec.liveness]
exec = { command = ["true"] }
period = "200ms"
timeout = "30s"
failure_threshold = 1
`

// Wrong answers of the engine never count as a container's failure, and the real state is
// found when the answers are right again.
func TestWrongAnswers(t *testing.T) {
	t.Parallel()
	e := harness.Docker.Engine(t)
	const html, js = "text/html", "application/json"
	page := "<html><body>502 Bad Gateway</body></html>\n"
	for _, tt := range []struct {
		name string
		act  http.HandlerFunc
	}{
		{"500", harness.Fails},
		{"html", harness.Respond(http.StatusOK, html, page)},
		{"html-502", harness.Respond(http.StatusBadGateway, html, page)},
		{"empty", harness.Respond(http.StatusOK, js, "")},
		{"object", harness.Respond(http.StatusOK, js, "{}\n")},
		{"null", harness.Respond(http.StatusOK, js, "null\n")},
		{"list", harness.Respond(http.StatusOK, js, "[{}]\n")},
		{"truncated", harness.Respond(http.StatusOK, js, `{"Id":"0123456789ab`)},
		{"types", harness.Respond(http.StatusOK, js, `{"Id":7,"State":"running","Running":"no","ExitCode":"1"}`)},
		{"half", harness.Respond(http.StatusOK, js, `{"Id":"0123456789ab","Name":"/x"}`)},
		{"404", harness.Respond(http.StatusNotFound, html, page)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			wrongAnswers(t, e, "wrong-"+tt.name, tt.act)
		})
	}
}

func wrongAnswers(t *testing.T, e *dockertest.Engine, name string, act http.HandlerFunc) {
	p := harness.StartProxy(t, e)
	d := harness.StartBehindProxy(t, p, fmt.Sprintf(wrongSpec, name))
	id := e.Run(t, dockertest.RunOptions{Name: name, Labels: map[string]string{"e2e": name}})
	healthy := func(s harness.Status) bool { return s.Ready && s.Probes["liveness"].Outcome == "Success" }
	d.Until(name, "healthy", healthy)
	before := harness.StartedAt(t, e, id)
	for _, call := range []string{"exec", "GET /containers/[0-9a-f]+/json", "GET /containers/json", "."} {
		p.On(call, act)
		if call == "GET /containers/[0-9a-f]+/json" { // which makes healthd look
			if err := e.Client().ContainerRename(t.Context(), id, name+"-x"); err != nil {
				t.Fatal(err)
			}
			if err := e.Client().ContainerRename(t.Context(), id, name); err != nil {
				t.Fatal(err)
			}
		}
		staysReady(d, name, 1500*time.Millisecond)
		p.ClearFaults()
	}
	d.Eventually("hear the engine again", func() error { return d.RuntimeUp("1") })
	d.Until(name, "healthy again", healthy)
	if after := harness.StartedAt(t, e, id); !after.Equal(before) {
		t.Errorf("started again at %v: events %v", after, d.Reasons(name))
	}
	if n := p.Count("POST /containers/.*/(stop|start)"); n != 0 {
		t.Errorf("%d calls to stop or start it", n)
	}
	d.EndProcess(e, id)
	d.Until(name, "started again after a crash", harness.Restarted(1))
}

// staysReady checks that a healthy container stays known and ready.
func staysReady(d *harness.Daemon, name string, during time.Duration) {
	d.T.Helper()
	d.Stays(during, name, "known, ready and not restarted", func(s harness.Status) bool {
		return s.Ready && s.RestartCount == 0 && !s.Draining
	})
}

// A stop by an operator right after the engine's restart, before healthd is connected again,
// is not taken for the engine's own.
func TestStopRightAfterEngineRestart(t *testing.T) {
	t.Parallel()
	e := dockertest.Start(t)
	p := harness.StartProxy(t, e)
	d := harness.StartBehindProxy(t, p, fmt.Sprintf(harness.SickSpec, "reopened"))
	for _, name := range []string{"reopened-kill", "reopened-stop", "reopened-runs"} {
		e.Run(t, dockertest.RunOptions{Name: name, Labels: map[string]string{"e2e": "reopened"}})
		d.Until(name, "ready", harness.Ready)
	}
	p.Refuse()
	e.Kill(t)
	e.Up(t)
	if err := e.Client().ContainerKill(t.Context(), "reopened-kill", "KILL"); err != nil {
		t.Fatal(err)
	}
	if err := e.Client().ContainerStop(t.Context(), "reopened-stop", container.StopOptions{}); err != nil {
		t.Fatal(err)
	}
	p.Accept()
	d.Eventually("hear the engine again", func() error { return d.RuntimeUp("1") })
	for _, name := range []string{"reopened-kill", "reopened-stop"} {
		d.Until(name, "stopped by the operator", harness.ByOperator)
		d.Stays(time.Second, name, "stopped by the operator", harness.ByOperator)
	}
	d.Until("reopened-runs", "ready all the time", func(s harness.Status) bool { return s.Ready && s.RestartCount == 0 })
}

// A job has done its work, but the engine is slow to tell: its liveness probe fails meanwhile. It is not run again.
func TestSlowEngineTellsTheEndOfAJob(t *testing.T) {
	t.Parallel()
	e := harness.Docker.Engine(t)
	p := harness.StartProxy(t, e)
	d := harness.StartBehindProxy(t, p, strings.Replace(fmt.Sprintf(harness.HangsSpec, "job"), "[spec.readiness]", "restart_policy = \"OnFailure\"\n[spec.readiness]", 1))
	id := e.Run(t, dockertest.RunOptions{Name: "job", Labels: map[string]string{"e2e": "job"}})
	d.Until("job", "ready", harness.Ready)

	answers := make(chan struct{})
	slowly := func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-answers:
		case <-r.Context().Done():
		}
		p.PassOn(w, r)
	}
	p.StallEvents()
	p.On("GET /containers/.*json", slowly)
	if err := syscall.Kill(e.Inspect(t, id).Pid, syscall.SIGTERM); err != nil { // it exits with 0
		t.Fatal(err)
	}
	d.Eventually("see its liveness probe fail", func() error {
		if n := d.CountEvents("job", "Killing"); n != 1 {
			return fmt.Errorf("%d events Killing", n)
		}
		return nil
	})
	p.ResumeEvents()
	close(answers)
	completed := func(s harness.Status) bool {
		return s.State.Terminated != nil && s.State.Terminated.Reason == "Completed" && s.RestartCount == 0
	}
	d.Until("job", "completed", completed)
	d.Stays(2*time.Second, "job", "left alone", completed)
	if n := p.Count("POST /containers/.*/start"); n != 0 {
		t.Errorf("%d starts, want none", n)
	}
}
