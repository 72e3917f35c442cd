package metrics

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	engine "healthd/runtime"
	"healthd/supervisor"
	"healthd/supervisor/core"
)

func TestHeldAndWaiting(t *testing.T) {
	waits := web("web-1", "c1")
	waits.State.Health.Failed = core.ByLiveness
	waits.State.Health.Wait = core.Wait{Reason: core.WaitGroupLimit, On: "web-2"}
	held := web("web-2", "c2")
	held.State.Lasting.HeldHere = true
	held.State.Action.Restart = core.ByExit
	const want = `
# HELP healthd_container_held 1 if somebody holds the container, so that healthd does not restart it, else 0.
# TYPE healthd_container_held gauge
healthd_container_held{container="web-1",project="",service="shop"} 0
healthd_container_held{container="web-2",project="",service="shop"} 1
# HELP healthd_container_waiting 1 while the container waits for something, by reason.
# TYPE healthd_container_waiting gauge
healthd_container_waiting{container="web-1",project="",reason="GroupLimit",service="shop"} 1
healthd_container_waiting{container="web-2",project="",reason="Held",service="shop"} 1
`
	if err := testutil.CollectAndCompare(New(board(waits, held), "v1"), strings.NewReader(want), "healthd_container_held", "healthd_container_waiting"); err != nil {
		t.Error(err)
	}
}

func TestJournalUp(t *testing.T) {
	for up, want := range map[bool]float64{true: 1, false: 0} {
		if got := testutil.ToFloat64(NewJournal(func() bool { return up })); got != want {
			t.Errorf("%v: got %v", up, got)
		}
	}
}

// The budget is that of the supervisor, whose limit a reload may change.
func TestBudgetRemaining(t *testing.T) {
	s := supervisor.New(supervisor.Config{
		Resolve: func(engine.Traits) (*core.Spec, error) { return nil, errors.New("no container") },
		Journal: noJournal{}, Guard: core.Guard{MaxRestarts: 7, Window: time.Minute},
	})
	ctx, end := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	defer func() {
		end()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	for _, tt := range []struct {
		limit int
		want  float64
	}{{7, 7}, {3, 3}, {0, math.Inf(1)}} {
		if err := s.Reload(ctx, func(engine.Traits) (*core.Spec, error) { return nil, nil }, core.Guard{MaxRestarts: tt.limit, Window: time.Minute}); err != nil {
			t.Fatal(err)
		}
		if got := budgetOf(t, s.Board()); got != tt.want {
			t.Errorf("limit %d: got %v", tt.limit, got)
		}
	}
}

func budgetOf(t *testing.T, b *supervisor.Board) float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(New(b, "v1"))
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "healthd_restart_budget_remaining" {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatal("there is no budget")
	return 0
}
