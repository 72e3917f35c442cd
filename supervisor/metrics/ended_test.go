package metrics

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	engine "healthd/runtime"
	"healthd/supervisor/core"
)

// Who reads the metrics can tell a container that an operator stopped, or a job that is done, from one
// that healthd starts again.
func TestTerminated(t *testing.T) {
	ended := func(name, id, reason string, change func(*core.State)) *core.View {
		v := web(name, id)
		v.State.Engine.State, v.State.Run.ID = engine.Exited, engine.Run{ID: id}
		v.State.Run.Exit = core.Exit{Reason: reason}
		v.State.Lasting.Backoff = core.BackoffState{}
		change(&v.State)
		return v
	}
	const want = `
# HELP healthd_container_terminated 1 while the container has ended and healthd does not start it again, by why it ended.
# TYPE healthd_container_terminated gauge
healthd_container_terminated{container="job",project="",reason="Completed",service="shop"} 1
healthd_container_terminated{container="stopped",project="",reason="StoppedByOperator",service="shop"} 1
`
	c := New(board(
		web("runs", "a"),
		ended("job", "b", core.ReasonCompleted, func(*core.State) {}),
		ended("stopped", "c", core.ReasonStoppedByOperator, func(*core.State) {}),
		ended("waits", "d", core.ReasonError, func(s *core.State) { s.Action.Restart = core.ByExit }),
		ended("unknown", "e", "", func(*core.State) {}),
	), "v1")
	if err := testutil.CollectAndCompare(c, strings.NewReader(want), "healthd_container_terminated"); err != nil {
		t.Error(err)
	}
}

// One histogram of a service is enough for all of its containers, and names that are not UTF-8 do not
// make two of one name.
func TestLatencyOfServices(t *testing.T) {
	eu, odd := web("web-3", "c"), web("web-5", "e")
	eu.Container.Labels = map[string]string{core.ComposeProject: "eu"}
	odd.Service = "x\xfe"
	same := web("web-6", "f")
	same.Service = "x\xff"
	unprobed := web("web-4", "d")
	unprobed.Service, unprobed.Spec.Probes[core.Liveness] = "idle", nil
	c := New(board(web("web-1", "a"), web("web-2", "b"), eu, unprobed, odd, same), "v1")
	if n := testutil.CollectAndCount(c, "healthd_probe_duration_seconds"); n != 3 {
		t.Errorf("%d histograms, want those of shop, of shop in the project eu, and of x", n)
	}
	var text strings.Builder
	for line := range strings.Lines(scrape(t, board(web("web-1", "a"), web("web-2", "b"), eu))) {
		if strings.HasPrefix(line, "healthd_probe_duration_seconds_count") {
			text.WriteString(line)
		}
	}
	const want = `healthd_probe_duration_seconds_count{probe_type="Liveness",project="",service="shop"} 8
healthd_probe_duration_seconds_count{probe_type="Liveness",project="eu",service="shop"} 4
`
	if text.String() != want {
		t.Errorf("got\n%swant\n%s", text.String(), want)
	}
}
