package core

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"healthd/runtime"
)

var policies = []RestartPolicy{Never, OnFailure, Always}

// simulatePolicy is simulate with a restart policy.
func simulatePolicy(t *testing.T, policy RestartPolicy, lines ...string) *simulation {
	t.Helper()
	return simulate(t, append([]string{"policy=" + string(policy)}, lines...)...)
}

// Compose creates containers before it starts them, so healthd must not start a created one.
func TestNeverStartedIsLeftAlone(t *testing.T) {
	for policy, kubelet := range map[RestartPolicy]string{Never: "193 215", OnFailure: "193 203 218", Always: "193"} {
		t.Run(string(policy), func(t *testing.T) {
			t.Attr("kubelet", kubelet)
			sim := simulatePolicy(t, policy)
			sim.step("made", &Input{Kind: Observed})
			sim.play("1h")
			sim.step("seen again", &Input{Kind: Observed})
			v := sim.view()
			if x := v.Waiting(); len(sim.actions()) != 0 || x == nil || x.Reason != WaitCreated || !NextTick(&sim.state).IsZero() {
				t.Errorf("not left alone:\n%s", sim.transcript.String())
			}
		})
	}
}

// healthd tries a failed start again under every policy, because the container is meant to
// run.
func TestFailedStartIsRetried(t *testing.T) {
	for _, tt := range []struct {
		name    string
		kubelet string
		policy  RestartPolicy
		lines   []string
		begun   time.Duration // of the first try
	}{
		{"never ran, requested under Never", "193 215", Never, []string{"1s restart-asked"}, time.Second},
		{"never ran, requested under OnFailure", "193 203 218", OnFailure, []string{"1s restart-asked"}, time.Second},
		{"never ran, requested under Always", "193", Always, []string{"1s restart-asked"}, time.Second},
		{"exited, requested under Never", "193 215", Never, []string{"0s runs", "1s exits 0", "2s restart-asked"}, 2 * time.Second},
		{"exited under OnFailure", "203 218", OnFailure, []string{"0s runs", "1s exits 1"}, time.Second},
		{"exited under Always", "193", Always, []string{"0s runs", "1s exits 0"}, time.Second},
		{"stopped for a failed probe under OnFailure", "203 218", OnFailure, []string{"liveness=0s/1s/1/1", "0s liveness fails", "0s runs"}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Attr("kubelet", tt.kubelet)
			sim := simulatePolicy(t, tt.policy, append([]string{"backoff=4s/1m/1h", "0s start-fails yes"}, tt.lines...)...)
			runs := sim.state.Run.ID
			sim.advanceTo(sim.start.Add(tt.begun + 3*time.Second))
			if n := startCalls(sim); n != 1 || sim.state.Request.Error == "" || sim.state.Run.ID != runs {
				t.Fatalf("%d starts, want one that failed:\n%s", n, sim.transcript.String())
			}
			sim.advanceTo(sim.start.Add(tt.begun + 5*time.Second))
			sim.startFails = false
			if n := startCalls(sim); n != 2 {
				t.Fatalf("%d starts after the back-off, want a second:\n%s", n, sim.transcript.String())
			}
			sim.advanceTo(sim.start.Add(tt.begun + 13*time.Second))
			if n := startCalls(sim); n < 3 || sim.state.Run.ID == runs {
				t.Errorf("not started when it could be:\n%s", sim.transcript.String())
			}
		})
	}
}

// An engine tries no more to start a container by its own policy when a start is refused, or when a client has sent the
// run any signal, or has failed to stop it (moby#41302). It tells of neither. Some engines are late: Podman starts a
// container when it has tidied up, containerd's plugin looks every ten seconds.
func TestEngineGivesUp(t *testing.T) {
	ends := []string{"engine-policy=always", "backoff=4s/1m/1h", "0s runs", "100s exits-restarting 1"}
	for _, tt := range []struct {
		name   string
		policy RestartPolicy
		lines  []string
		starts int
		told   int
	}{
		{"it restarts the container", Always, append(ends, "101s runs"), 0, 0},
		{"a start is refused", Always, append(ends, "160s start-refused"), 1, 1},
		{"and shown again", Always, append(ends, "160s start-refused", "160s start-refused"), 1, 1},
		{"the end is shown with it", Always, append(ends[:3:3], "100s start-refused"), 1, 1},
		{"a signal has switched it off", Always, append(ends[:3:3], "100s exits 1"), 1, 1},
		{"a signal has switched it off, exit 0", Always, append(ends[:3:3], "100s exits 0"), 1, 1},
		{"the engine is late, it restarts the container", Always, append(ends[:3:3], "100s exits 1", "112s runs"), 0, 0},
		{"an operator kills it while the engine waits to start it, which no event tells", Always, append(ends, "101s start-given-up"), 0, 1},
		{"an operator kills it so, and the engine restarts", Always, append(ends, "101s start-given-up", "200s engine-restarts"), 0, 1},
		{"an operator kills it so, and healthd and the engine restart", Always, append(ends, "101s start-given-up", "150s daemon-killed", "200s engine-restarts"), 0, 1},
		{"on-failure, switched off", Always, append(ends[:3:3], "engine-policy=on-failure", "100s exits 1"), 1, 1},
		{"on-failure, exit 0", Always, append(ends[:3:3], "engine-policy=on-failure", "100s exits 0"), 0, 0},
		{"on-failure:1, restarted as often", Always, append(ends[:3:3], "engine-policy=on-failure:1", "restarted-by-engine=yes", "100s exits 1"), 0, 0},
		{"switched off, and an operator stops it", Always, append(ends[:3:3], "100s docker-stop"), 0, 0},
		{"under Never", Never, append(ends, "160s start-refused"), 0, 1},
		{"healthd only observes", Always, append(ends, "observe=yes", "160s start-refused"), 0, 1},
		{"an operator stopped it before", Always, append(ends[:3:3], "100s docker-stop", "160s start-refused"), 0, 0},
		{"healthd's own starts are refused, too", Always, append(ends, "160s start-fails yes", "160s start-refused", "161s start-refused", "170s start-fails no"), 3, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			sim := simulatePolicy(t, tt.policy, tt.lines...)
			sim.play("600s")
			if n := startCalls(sim); n != tt.starts || strings.Count(sim.transcript.String(), EventEngineGaveUp) != tt.told {
				t.Errorf("%d starts, want %d, told %d times:\n%s", n, tt.starts, tt.told, sim.transcript.String())
			}
			if runs := sim.c.State == runtime.Running; runs != (tt.starts > 0 || strings.Contains(tt.name, "restarts the container")) {
				t.Errorf("it runs: %v\n%s", runs, sim.transcript.String())
			}
		})
	}
}

// restartStarts returns how often healthd has made a start call.
func startCalls(sim *simulation) int {
	n := 0
	for _, act := range sim.actions() {
		if act == "START" {
			n++
		}
	}
	return n
}

// healthd leaves a running container alone, however its previous runs ended.
func TestRunningIsLeftAlone(t *testing.T) {
	for _, policy := range policies {
		t.Run(string(policy), func(t *testing.T) {
			t.Attr("kubelet", "194")
			sim := simulatePolicy(t, policy, "0s runs", "1s exits 2", "2s")
			if !sim.c.State.Alive() {
				sim.play("2s runs")
			}
			run, acts := sim.state.Run.ID, len(sim.actions())
			sim.play("1h")
			sim.step("seen again", &Input{Kind: Observed})
			sim.play("2h")
			if len(sim.actions()) != acts || sim.state.Run.ID != run {
				t.Errorf("a running container was not left alone:\n%s", sim.transcript.String())
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
				sim := simulatePolicy(t, policy, "0s runs", "1s "+tt.end, "1h")
				if got := startCalls(sim) == 1; got != tt.starts[policy] || got != sim.c.State.Alive() {
					t.Errorf("started %d times, want a start: %v\n%s", startCalls(sim), tt.starts[policy], sim.transcript.String())
				}
			})
		}
	}
}

// While healthd cannot reach the engine it stops and starts nothing. When the engine is back,
// the container's present state decides.
func TestEngineAway(t *testing.T) {
	stopStart, start := []string{"STOP grace 30s", "START"}, []string{"START"}
	for _, tt := range []struct {
		name   string
		before []string // until the engine is back at 5m
		after  []string
		want   map[RestartPolicy][]string
	}{
		{"a restart was pending, it runs", []string{"drain=5s", "0s runs", "1s restart-asked", "2s engine-lost"}, nil,
			map[RestartPolicy][]string{Never: stopStart, OnFailure: stopStart, Always: stopStart}},
		{"a restart was requested meanwhile, it runs", []string{"0s runs", "1s engine-lost", "2s restart-asked"}, nil,
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
				sim := simulatePolicy(t, policy, tt.before...)
				sim.play("5m")
				if acts := sim.actions(); len(acts) != 0 {
					t.Fatalf("actions %q while the engine was away:\n%s", acts, sim.transcript.String())
				}
				sim.play(append([]string{"5m engine-back", "5m5s"}, tt.after...)...)
				if acts := sim.actions(); !slices.Equal(acts, tt.want[policy]) {
					t.Errorf("actions %q, want %q\n%s", acts, tt.want[policy], sim.transcript.String())
				}
			})
		}
	}
}

// What an operator stopped stays stopped, in every state and under every policy.
func TestOperatorStoppedStaysStopped(t *testing.T) {
	again := "2s runs" // needed only if healthd has not started it by its policy
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
				sim := simulatePolicy(t, policy)
				sim.step("made", &Input{Kind: Observed})
				for _, line := range tt.before {
					if line != again || !sim.c.State.Alive() {
						sim.play(line)
						sim.advanceTo(sim.now.Add(time.Millisecond))
					}
				}
				acts := len(sim.actions())
				sim.play(append(tt.wish, "1h")...)
				sim.step("seen again", &Input{Kind: Observed})
				sim.play("2h")
				if len(sim.actions()) != acts || sim.c.State.Alive() || !NextTick(&sim.state).IsZero() {
					t.Errorf("not left alone:\n%s", sim.transcript.String())
				}
			})
		}
	}
}

// A changed spec restarts nothing, because the container is the same.
func TestChangedSpecRestartsNothing(t *testing.T) {
	for _, change := range []string{"policy=Never", "grace=7s", "liveness=1s/2s/1/1", "startup=0s/5s/1/1", "drain=9s", "backoff=1s/2s/3m"} {
		t.Run(change, func(t *testing.T) {
			t.Attr("kubelet", "208")
			sim := simulate(t, "readiness=0s/10s/1/1", "0s runs", "25s")
			before := sim.state
			sim.play("25s reload "+change, "10m")
			if acts := sim.actions(); len(acts) != 0 || sim.state.Run.ID != before.Run.ID || !sim.state.Conditions.Ready.Status || sim.state.Conditions.Ready.Since != before.Conditions.Ready.Since {
				t.Errorf("actions %q:\n%s", acts, sim.transcript.String())
			}
		})
	}
}
