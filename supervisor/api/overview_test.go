package api

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"healthd/prober"
	"healthd/supervisor"
	"healthd/supervisor/core"
	"healthd/supervisor/journal"
)

// overviewOf returns the Glance of each container, by name.
func overviewOf(t *testing.T, a *API) map[string]Glance {
	t.Helper()
	var all []Glance
	if err := json.Unmarshal(get(t, a.ReadOnly(), "/v1/overview").Body.Bytes(), &all); err != nil {
		t.Fatal(err)
	}
	byName := map[string]Glance{}
	for _, g := range all {
		byName[g.Name] = g
	}
	return byName
}

func TestOverview(t *testing.T) {
	talkative := unreadyContainer("talkative")
	talkative.State.Health.Probes[core.Readiness].Last.Output = strings.Repeat("é", 5000)
	held := readyContainer("held")
	held.State.Lasting.HeldHere = true
	a, _, _ := newAPI(readyContainer("good"), talkative, backingOffContainer("crashed"), drainingContainer("drained"), gatedContainer("gated"), invalidContainer("wrong"), held)
	all := overviewOf(t, a)
	for name, want := range map[string]string{
		"good": "Ready  ", "talkative": "NotReady ReadinessFailed éé", "crashed": "Waiting CrashLoopBackOff back-off 20s restarting",
		"drained": "Draining Draining stopped by healthd: liveness probe failed", "gated": "NotReady ReadinessGatesNotReady readiness gate ok is False",
		"wrong": "Invalid Invalid label healthd.liveness.period", "held": "Ready  ",
	} {
		g := all[name]
		if got := g.Look + " " + g.Reason + " " + g.Message; !strings.HasPrefix(got, want) || g.Ready != (g.Look == "Ready") || len(g.Minutes) != 60 {
			t.Errorf("%s: got %s, want %s; %+v", name, got, want, g)
		}
	}
	unasked := readyContainer("unasked")
	unasked.State.Health.Probes[core.Liveness].Unknowns = 3
	b, _, _ := newAPI(unasked)
	if g := overviewOf(t, b)["unasked"]; len(g.Failing) != 1 || !g.Failing[0].Unknown || g.Failing[0].Run != 3 || g.Warnings != 1 {
		t.Errorf("unasked: %+v", g)
	}
	g := all["talkative"]
	if len(g.Message) > maxGlance+len("…") || len(g.Failing) != 2 || len(g.Failing[1].Output) > maxGlance+len("…") || g.Failing[0] != (Failing{"liveness", 2, 3, "HTTP probe failed with statuscode: 500 <b>", false}) {
		t.Errorf("talkative: %+v", g)
	}
	if g := all["crashed"]; g.Restarts != 2 || !g.Since.Equal(at(25)) || !g.Until.Equal(at(45)) || g.Failing != nil || g.Ended == nil || g.Ended.ExitCode != 137 {
		t.Errorf("crashed: %+v", g)
	}
	if !all["held"].Held || all["good"].Held || !all["good"].Since.Equal(at(2)) {
		t.Errorf("held: %+v, good: %+v", all["held"], all["good"])
	}
}

// An hour in which a container was started, became ready, was restarted once and is ready again.
func TestTimelineAnswer(t *testing.T) {
	v := readyContainer("web-1")
	starting, ended, again := *v, *backingOffContainer("web-1"), *v
	starting.State = v.State.Copy()
	starting.State.Conditions = core.Conditions{}
	starting.State.Health.Probes[core.Readiness] = core.ProbeState{}
	ended.State.Lasting.Restarts = core.Lasting{}.Restarts
	again.State = v.State.Copy()
	again.State.Lasting.Restarts[core.ByLiveness] = 1
	board := supervisor.NewBoard(nil, v)
	now := time.Now()
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	moments := []supervisor.Moment{{At: ago(50 * time.Minute), View: &starting}, {At: ago(45 * time.Minute), View: v}}
	for i := range 5 {
		moments = append(moments, supervisor.Moment{At: ago(30*time.Minute - time.Duration(i)*time.Millisecond), Probe: core.Liveness,
			Result: prober.Result{Outcome: prober.Outcome(i % 3), Latency: 20 * time.Millisecond}})
	}
	moments = append(moments, supervisor.Moment{At: ago(20 * time.Minute), View: &ended}, supervisor.Moment{At: ago(19*time.Minute + 50*time.Second), View: &again})
	board.Play(v.Container.ID, moments...)
	a := New(Config{Board: board, History: journal.New(), Controller: &controller{}})

	var got Timeline
	if err := json.Unmarshal(get(t, a.ReadOnly(), "/v1/containers/web-1/timeline").Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if looks := strings.Trim(got.Minutes, "r"); !strings.HasPrefix(looks, "---------") || !strings.Contains(looks, "srrrr") || strings.Count(looks, "W") != 1 {
		t.Errorf("minutes %s", got.Minutes)
	}
	last := got.Changes[len(got.Changes)-1]
	if e := got.Changes[2]; len(got.Changes) != 4 || last.Restart != "liveness" || last.Look != "Ready" || e.Ended == nil || e.Ended.ExitCode != 137 || e.Ended.Signal != 9 || e.Ended.Reason != "LivenessFailed" {
		t.Errorf("changes %+v", got.Changes)
	}
	if g := overviewOf(t, a)["web-1"]; g.LastRestart != "liveness" || g.Minutes != got.Minutes {
		t.Errorf("overview: %+v", g)
	}
	p := got.Probes["liveness"]
	sum := func(counts []int) (n int) {
		for _, c := range counts {
			n += c
		}
		return n
	}
	if p.Handler != "tcp" || p.PeriodSeconds != 10 || sum(p.Successes)+sum(p.Failures)+sum(p.Unknown) != 5 || sum(p.Unknown) != 2 || len(got.Probes) != 1 {
		t.Errorf("probes %+v", got.Probes)
	}
	if !got.Since.Equal(ago(50*time.Minute).UTC().Truncate(0)) && got.Since.Sub(ago(50*time.Minute)).Abs() > time.Second || len(got.Next) == 0 {
		t.Errorf("since %v, next %v", got.Since, got.Next)
	}
}

// A letter stands for each look, in its order.
func TestLookLetters(t *testing.T) {
	for l := supervisor.Look(1); int(l) < len(lookLetters); l++ {
		want := map[string]string{"Stopped": "x"}[l.String()]
		if want == "" {
			want = strings.ToLower(l.String()[:1])
		}
		if got := lookLetters[l : l+1]; got != want {
			t.Errorf("%s is %s", l, got)
		}
	}
}
