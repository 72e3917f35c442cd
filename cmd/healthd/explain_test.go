package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"healthd/prober"
	"healthd/runtime"
	"healthd/supervisor/api"
	"healthd/supervisor/core"
)

func TestExplanation(t *testing.T) {
	for file, change := range map[string]func(*core.View){
		"explain.txt": nil, "explain-gated.txt": gated, "explain-long.txt": longTexts,
		"explain-invalid.txt": func(v *core.View) { // which no label is to blame for
			v.Spec, v.Service, v.Invalid = nil, "", "healthd.toml:30: spec[web].publish.haproxy.backend: needs publish.port"
		},
		"explain-held.txt": func(v *core.View) {
			v.State.Lasting.HeldHere, v.State.Lasting.HeldHereUntil = true, clock.Add(10*time.Minute)
			v.State.Health.Failed, v.State.Health.Wait = core.ByLiveness, core.Wait{Reason: core.WaitHeld, Until: clock.Add(10 * time.Minute)}
			v.State.Health.Probes[core.Liveness].Result, v.State.Health.Probes[core.Liveness].Outcome = prober.Failure, prober.Failure
		},
		"explain-unknown.txt": func(v *core.View) { // which succeeded before
			y := &v.State.Health.Probes[core.Liveness]
			y.Unknowns, y.UnknownSince = 51, clock.Add(-500*time.Second)
			y.Last = prober.Result{Outcome: prober.Unknown, Cause: prober.NotAsked, Output: "too many open files"}
		},
		"explain-lost.txt": func(v *core.View) { v.State.Lost = true },
		"explain-stopped.txt": func(v *core.View) {
			v.Spec.RestartPolicy = core.Never
			v.Spec.RestartRules = []core.RestartRule{{Operator: core.In, ExitCodes: []int{42}}}
			v.Spec.Probes[core.Startup] = &core.ProbeSpec{SuccessThreshold: 1, FailureThreshold: 3}
			v.State.Engine.State, v.State.Conditions.ContainerReady.Status, v.State.Conditions.Ready.Status = runtime.Exited, false, false
			v.State.Health.Probes[core.Liveness].Result = prober.Failure
			v.State.Health.Probes[core.Startup] = core.ProbeState{
				Result: prober.Failure, Outcome: prober.Success, OnHold: true, LastAt: clock.Add(-50 * time.Minute),
			}
			v.State.Run.Exit = core.Exit{Code: 1, Reason: core.ReasonError, FinishedAt: clock.Add(-2 * time.Second)}
		},
	} {
		socket, j := daemonWith(t, &fake{}, container("web-1", change))
		j.Record(core.Event{Time: clock.Add(-time.Hour), Container: "web-1", Reason: "Started", Message: "Started container web-1"})
		if file == "explain-long.txt" {
			j.Record(longEvent)
		}
		var e api.Explanation
		c, err := (&app{socket: socket}).client()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.get(t.Context(), containerPath("0123456789abcdefweb-1", "explain"), nil, &e); err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := writeExplanation(&b, e, 100, clock); err != nil {
			t.Fatal(err)
		}
		golden(t, file, b.String())
		for _, columns := range []int{80, 100, 250} {
			b.Reset()
			if err := writeExplanation(&b, e, columns, clock); err != nil {
				t.Fatal(err)
			}
			fits(t, b.String(), columns)
		}
	}
}

// fits checks that no line of a text is wider, or ends in blanks.
func fits(t *testing.T, text string, columns int) {
	t.Helper()
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if n := utf8.RuneCountInString(line); n > columns || line != strings.TrimRight(line, " ") {
			t.Errorf("%d columns, want %d at most and no blanks in the end: %q", n, columns, line)
		}
	}
}

// longTexts are those that are wider than a line in all places where that may be.
func longTexts(v *core.View) {
	gated(v)
	const file = "/etc/healthd/conf.d/20-a-file-with-a-name-that-is-longer-than-most.toml:21"
	v.Spec.ReadinessGates = append(v.Spec.ReadinessGates, "example.com/"+strings.Repeat("long-", 40))
	v.Spec.MatchedBy = "match com.docker.compose.project=shop and com.docker.compose.service=web (" + file + ")"
	v.Spec.Values = []core.Value{
		{Path: "liveness.exec.command", Value: `["sh", "-c", "curl --fail --silent --show-error --max-time 3 http://127.0.0.1:8080/healthz"]`, Origin: file},
		{Path: "liveness.termination_grace_period", Value: "the spec's, else the container's own stop timeout, else 30s", Origin: "label healthd.liveness.termination_grace_period"},
		{Path: "group.name", Value: "the Compose project and service, else the container alone", Origin: "default"},
		{Path: "readiness_gates", Value: `["` + strings.Repeat("x", 300) + `"]`, Origin: file},
	}
	v.Container.AutoRemove, v.Container.RestartPolicy = true, "unless-stopped"
	v.State.Run.LastExit = core.Exit{Code: 137, Reason: core.ReasonLivenessFailed, FinishedAt: clock.Add(-time.Hour)}
	v.State.Health.Probes[core.Liveness].Last.Output = "  two blanks before\n\tand a tab, " + strings.Repeat("0123456789", 25)
	v.Container.Name, v.Container.Image = v.Container.Name+strings.Repeat("-web", 30), "registry.example.com/"+strings.Repeat("web/", 30)+":1"
}

var longEvent = core.Event{
	Time: clock.Add(-time.Minute), Container: "web-1" + strings.Repeat("-web", 30), Reason: "Invalid",
	Message: strings.Repeat("label healthd.liveness.period: must be a duration such as \"10s\", is \"soon\"; ", 3) + strings.Repeat("x", 200),
}

func TestEventsFit(t *testing.T) {
	socket, j := daemonWith(t, &fake{}, container("web-1", nil))
	j.Record(core.Event{Time: clock, Container: "web-1", Reason: "LifecycleHTTPFallback", Message: longEvent.Message})
	j.Record(longEvent)
	if got := inside("events", "--socket", socket); !strings.Contains(got.stdout, longEvent.Message) || !strings.Contains(got.stdout, longEvent.Container) {
		t.Errorf("cut without a terminal: %s", got.stdout)
	}
	got := insideTerminal(100, "events", "--socket", socket)
	fits(t, got.stdout, 100)
	golden(t, "events.txt", got.stdout)
	for _, columns := range []int{80, 100, 250} {
		var b bytes.Buffer
		a := &app{stdout: &b, size: func() (int, int, bool) { return columns, 24, true }}
		for _, ev := range []core.Event{longEvent, {Time: clock, Reason: "LifecycleHTTPFallback", Message: longEvent.Message}, {Time: clock, Reason: "Ready"}} {
			data, err := json.Marshal(ev)
			if err == nil {
				err = a.printEvent(string(data), asTable)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		fits(t, b.String(), columns)
		if columns == 100 {
			golden(t, "events-followed.txt", b.String())
		}
	}
}

// Why a container has no address nothing else says.
func TestReadyText(t *testing.T) {
	for want, c := range map[string]api.Condition{
		"no: NoAddress (its engine is rootless)": {Reason: core.NotReadyNoAddress, Message: "its engine is rootless"},
		"no: ReadinessFailed":                    {Reason: core.NotReadyReadiness, Message: "status 500"},
		"no: Draining":                           {Reason: core.NotReadyDraining},
	} {
		c.Type = "Ready"
		s := api.Status{Conditions: []api.Condition{c}, Probes: map[string]api.ProbeStatus{"readiness": {Output: "status 500"}}}
		if got := readyText(s); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
