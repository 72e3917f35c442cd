package core

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

var policies = []RestartPolicy{Never, OnFailure, Always}

// restartWorld is a world under a policy in which these lines have come true.
func restartWorld(t *testing.T, policy RestartPolicy, lines ...string) *world {
	t.Helper()
	return tale(t, append([]string{"policy=" + string(policy)}, lines...)...)
}

// Compose makes containers before it starts them, so that nobody has started one
// says nothing.
func TestNeverStartedIsLeftAlone(t *testing.T) {
	for policy, kubelet := range map[RestartPolicy]string{Never: "193 215", OnFailure: "193 203 218", Always: "193"} {
		t.Run(string(policy), func(t *testing.T) {
			t.Attr("kubelet", kubelet)
			w := restartWorld(t, policy)
			w.step("made", &Input{Kind: Observed})
			w.goesOn("1h")
			w.step("seen again", &Input{Kind: Observed})
			v := View{Container: &w.c, Spec: w.spec, State: w.state}
			if x := v.Waiting(); len(w.acts()) != 0 || x == nil || x.Reason != WaitCreated || !NextTick(&w.state).IsZero() {
				t.Errorf("not left alone:\n%s", w.told.String())
			}
		})
	}
}

// A start of healthd's own that comes to nothing is tried again, whatever the
// policy: the container is meant to run.
func TestFailedStartIsTriedAgain(t *testing.T) {
	for _, tt := range []struct {
		name    string
		kubelet string
		policy  RestartPolicy
		lines   []string
		begun   time.Duration // of the first try
	}{
		{"never ran, asked for under Never", "193 215", Never, []string{"1s restart-asked"}, time.Second},
		{"never ran, asked for under OnFailure", "193 203 218", OnFailure, []string{"1s restart-asked"}, time.Second},
		{"never ran, asked for under Always", "193", Always, []string{"1s restart-asked"}, time.Second},
		{"exited, asked for under Never", "193 215", Never, []string{"0s runs", "1s exits 0", "2s restart-asked"}, 2 * time.Second},
		{"exited under OnFailure", "203 218", OnFailure, []string{"0s runs", "1s exits 1"}, time.Second},
		{"exited under Always", "193", Always, []string{"0s runs", "1s exits 0"}, time.Second},
		{"stopped for a failed probe under OnFailure", "203 218", OnFailure, []string{"liveness=0s/1s/1/1", "0s liveness fails", "0s runs"}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Attr("kubelet", tt.kubelet)
			w := restartWorld(t, tt.policy, append([]string{"backoff=4s/1m/1h", "0s start-fails yes"}, tt.lines...)...)
			runs := w.state.Run.ID
			w.goTo(w.begin.Add(tt.begun + 3*time.Second))
			if n := restartStarts(w); n != 1 || w.state.Request.Error == "" || w.state.Run.ID != runs {
				t.Fatalf("%d starts, want one that failed:\n%s", n, w.told.String())
			}
			w.goTo(w.begin.Add(tt.begun + 5*time.Second))
			w.failStart = false
			if n := restartStarts(w); n != 2 {
				t.Fatalf("%d starts after the back-off, want a second:\n%s", n, w.told.String())
			}
			w.goTo(w.begin.Add(tt.begun + 13*time.Second))
			if n := restartStarts(w); n < 3 || w.state.Run.ID == runs {
				t.Errorf("not started when it could be:\n%s", w.told.String())
			}
		})
	}
}

// restartStarts returns how often healthd has made a start call.
func restartStarts(w *world) int {
	n := 0
	for _, act := range w.acts() {
		if act == "START" {
			n++
		}
	}
	return n
}

// What runs is left alone, whatever its runs before came to.
func TestRunningIsLeftAlone(t *testing.T) {
	for _, policy := range policies {
		t.Run(string(policy), func(t *testing.T) {
			t.Attr("kubelet", "194")
			w := restartWorld(t, policy, "0s runs", "1s exits 2", "2s")
			if !w.c.State.Alive() {
				w.goesOn("2s runs")
			}
			run, acts := w.state.Run.ID, len(w.acts())
			w.goesOn("1h")
			w.step("seen again", &Input{Kind: Observed})
			w.goesOn("2h")
			if len(w.acts()) != acts || w.state.Run.ID != run {
				t.Errorf("a running container was not left alone:\n%s", w.told.String())
			}
		})
	}
}

func TestExitByPolicy(t *testing.T) {
	for _, tt := range []struct {
		end     string
		kubelet string
		starts  map[RestartPolicy]bool
	}{
		{"exits 0", "195", map[RestartPolicy]bool{Always: true}},
		{"exits 1", "196", map[RestartPolicy]bool{Always: true, OnFailure: true}},
		{"exits 111", "196", map[RestartPolicy]bool{Always: true, OnFailure: true}},
		{"exits 137", "196", map[RestartPolicy]bool{Always: true, OnFailure: true}},
		{"oom 137", "196", map[RestartPolicy]bool{Always: true, OnFailure: true}},
	} {
		for _, policy := range policies {
			t.Run(fmt.Sprintf("%s under %s", tt.end, policy), func(t *testing.T) {
				t.Attr("kubelet", tt.kubelet)
				w := restartWorld(t, policy, "0s runs", "1s "+tt.end, "1h")
				if got := restartStarts(w) == 1; got != tt.starts[policy] || got != w.c.State.Alive() {
					t.Errorf("started %d times, want a start: %v\n%s", restartStarts(w), tt.starts[policy], w.told.String())
				}
			})
		}
	}
}

// While the engine is unknown nothing is done, whatever is pending. When it is back
// the truth decides.
func TestUnknownWhileTheEngineIsAway(t *testing.T) {
	stopStart, start := []string{"STOP grace 30s", "START"}, []string{"START"}
	for _, tt := range []struct {
		name   string
		before []string // until the engine is back at 5m
		after  []string
		want   map[RestartPolicy][]string
	}{
		{"a restart was pending, it runs", []string{"drain=5s", "0s runs", "1s restart-asked", "2s engine-lost"}, nil,
			map[RestartPolicy][]string{Never: stopStart, OnFailure: stopStart, Always: stopStart}},
		{"a restart was asked for meanwhile, it runs", []string{"0s runs", "1s engine-lost", "2s restart-asked"}, nil,
			map[RestartPolicy][]string{Never: stopStart, OnFailure: stopStart, Always: stopStart}},
		{"a restart was pending, it has exited", []string{"drain=5s", "0s runs", "1s restart-asked", "2s engine-lost", "4m exits 0"}, nil,
			map[RestartPolicy][]string{Never: start, OnFailure: start, Always: start}},
		{"it has exited with 1", []string{"0s runs", "1s engine-lost", "4m exits 1"}, nil,
			map[RestartPolicy][]string{OnFailure: start, Always: start}},
		{"it has exited with 0", []string{"0s runs", "1s engine-lost", "4m exits 0"}, nil,
			map[RestartPolicy][]string{Always: start}},
		{"its liveness failed meanwhile", []string{"liveness=0s/10s/1/2", "0s runs", "1s engine-lost", "1s liveness fails"}, []string{"5m11s liveness succeeds", "6m"},
			map[RestartPolicy][]string{Never: {"STOP grace 30s"}, OnFailure: stopStart, Always: stopStart}},
		{"its liveness failed for a while only", []string{"liveness=0s/10s/1/2", "0s runs", "1s engine-lost", "1s liveness fails", "4m liveness succeeds"}, nil, nil},
		{"it runs as before", []string{"0s runs", "1s engine-lost"}, nil, nil},
	} {
		for _, policy := range policies {
			t.Run(fmt.Sprintf("%s, under %s", tt.name, policy), func(t *testing.T) {
				if policy == Never {
					t.Attr("kubelet", "197 214")
				} else {
					t.Attr("kubelet", "197")
				}
				w := restartWorld(t, policy, tt.before...)
				w.goesOn("5m")
				if acts := w.acts(); len(acts) != 0 {
					t.Fatalf("did %q while the engine was away:\n%s", acts, w.told.String())
				}
				w.goesOn(append([]string{"5m engine-back", "5m5s"}, tt.after...)...)
				if acts := w.acts(); !slices.Equal(acts, tt.want[policy]) {
					t.Errorf("did %q, want %q\n%s", acts, tt.want[policy], w.told.String())
				}
			})
		}
	}
}

// What the operator wants stopped is never started, in any state, under any policy.
func TestStoppedByTheOperatorStaysStopped(t *testing.T) {
	again := "2s runs" // where the policy did not
	for _, tt := range []struct {
		name   string
		before []string
		wish   []string
	}{
		{"never started", nil, []string{"1s signalled 15"}},
		{"running", []string{"0s runs"}, []string{"1s docker-stop"}},
		{"exited 0", []string{"0s runs", "1s exits 1", again, "3s exits 0"}, []string{"4s signalled 15"}},
		{"exited 1", []string{"0s runs", "1s exits 1", again, "3s exits 1"}, []string{"4s signalled 15"}},
		{"unknown", []string{"0s runs", "1s engine-lost"}, []string{"2s signalled 15", "3s exits 143", "4s engine-back"}},
	} {
		for _, policy := range policies {
			t.Run(fmt.Sprintf("%s under %s", tt.name, policy), func(t *testing.T) {
				t.Attr("kubelet", "198")
				w := restartWorld(t, policy)
				w.step("made", &Input{Kind: Observed})
				for _, line := range tt.before {
					if line != again || !w.c.State.Alive() {
						w.goesOn(line)
						w.goTo(w.now.Add(time.Millisecond))
					}
				}
				acts := len(w.acts())
				w.goesOn(append(tt.wish, "1h")...)
				w.step("seen again", &Input{Kind: Observed})
				w.goesOn("2h")
				if len(w.acts()) != acts || w.c.State.Alive() || !NextTick(&w.state).IsZero() {
					t.Errorf("not left alone:\n%s", w.told.String())
				}
			})
		}
	}
}

// A spec that changes restarts nothing: the container is the same.
func TestChangedSpecRestartsNothing(t *testing.T) {
	for _, change := range []string{"policy=Never", "grace=7s", "liveness=1s/2s/1/1", "startup=0s/5s/1/1", "drain=9s", "backoff=1s/2s/3m"} {
		t.Run(change, func(t *testing.T) {
			t.Attr("kubelet", "208")
			w := tale(t, "readiness=0s/10s/1/1", "0s runs", "25s")
			before := w.state
			w.goesOn("25s reload "+change, "10m")
			if acts := w.acts(); len(acts) != 0 || w.state.Run.ID != before.Run.ID || !w.state.Conditions.Ready.Status || w.state.Conditions.Ready.Since != before.Conditions.Ready.Since {
				t.Errorf("did %q:\n%s", acts, w.told.String())
			}
		})
	}
}
