package metrics

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"healthd/prober"
)

func TestCommands(t *testing.T) {
	probes := prober.Waits{Runtime: "docker", Kind: "probes", Counts: make([]uint64, len(prober.WaitBuckets)+1), Sum: 91.5, Missed: 4}
	probes.Counts[0], probes.Counts[6], probes.Counts[len(prober.WaitBuckets)] = 5, 2, 1
	const want = `
# HELP healthd_exec_turns_missed_total Commands in containers that had no turn to start before their timeout.
# TYPE healthd_exec_turns_missed_total counter
healthd_exec_turns_missed_total{kind="probes",runtime="docker"} 4
# HELP healthd_exec_wait_seconds How long commands in containers waited for their turn to start, of those that had one.
# TYPE healthd_exec_wait_seconds histogram
healthd_exec_wait_seconds_bucket{kind="probes",runtime="docker",le="0.001"} 5
healthd_exec_wait_seconds_bucket{kind="probes",runtime="docker",le="0.01"} 5
healthd_exec_wait_seconds_bucket{kind="probes",runtime="docker",le="0.025"} 5
healthd_exec_wait_seconds_bucket{kind="probes",runtime="docker",le="0.05"} 5
healthd_exec_wait_seconds_bucket{kind="probes",runtime="docker",le="0.1"} 5
healthd_exec_wait_seconds_bucket{kind="probes",runtime="docker",le="0.25"} 5
healthd_exec_wait_seconds_bucket{kind="probes",runtime="docker",le="0.5"} 7
healthd_exec_wait_seconds_bucket{kind="probes",runtime="docker",le="1"} 7
healthd_exec_wait_seconds_bucket{kind="probes",runtime="docker",le="2.5"} 7
healthd_exec_wait_seconds_bucket{kind="probes",runtime="docker",le="5"} 7
healthd_exec_wait_seconds_bucket{kind="probes",runtime="docker",le="10"} 7
healthd_exec_wait_seconds_bucket{kind="probes",runtime="docker",le="30"} 7
healthd_exec_wait_seconds_bucket{kind="probes",runtime="docker",le="+Inf"} 8
healthd_exec_wait_seconds_sum{kind="probes",runtime="docker"} 91.5
healthd_exec_wait_seconds_count{kind="probes",runtime="docker"} 8
`
	c := NewCommands(func() []prober.Waits { return []prober.Waits{probes} })
	if err := testutil.CollectAndCompare(c, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}

// Both kinds of each engine have their series before the first command.
func TestCommandsBeforeTheFirst(t *testing.T) {
	p := prober.New(prober.Config{Engines: map[string]prober.Engine{"docker": nil, "containerd": nil}})
	const want = `
# HELP healthd_exec_turns_missed_total Commands in containers that had no turn to start before their timeout.
# TYPE healthd_exec_turns_missed_total counter
healthd_exec_turns_missed_total{kind="hooks",runtime="containerd"} 0
healthd_exec_turns_missed_total{kind="hooks",runtime="docker"} 0
healthd_exec_turns_missed_total{kind="probes",runtime="containerd"} 0
healthd_exec_turns_missed_total{kind="probes",runtime="docker"} 0
`
	c := NewCommands(p.Waits)
	if err := testutil.CollectAndCompare(c, strings.NewReader(want), "healthd_exec_turns_missed_total"); err != nil {
		t.Error(err)
	}
	if n := testutil.CollectAndCount(c, "healthd_exec_wait_seconds"); n != 4 {
		t.Errorf("%d histograms, want 4", n)
	}
}
