package supervisor

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"healthd/prober"
	"healthd/supervisor/core"
)

// commandEngine runs the commands of exec probes in virtual time.
type commandEngine struct {
	mu    sync.Mutex
	begun map[string]int // by container
	exits map[string]int // exit code; -1: the command hangs
}

func (e *commandEngine) Exec(ctx context.Context, container string, _ []string, timeout time.Duration, _ int, started func()) ([]byte, int, bool, error) {
	e.mu.Lock()
	e.begun[container]++
	code := e.exits[container]
	e.mu.Unlock()
	started()
	if code >= 0 {
		return nil, code, false, nil
	}
	select {
	case <-ctx.Done():
		return nil, 0, false, ctx.Err()
	case <-time.After(timeout):
	}
	return nil, 0, true, nil
}

func (e *commandEngine) Health(context.Context, string) (status, output string, err error) {
	return "none", "", nil
}

func (e *commandEngine) times(container string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.begun[container]
}

// newCommandHarness is a harness with real exec probes.
func newCommandHarness(t *testing.T, exits map[string]int) (*harness, *commandEngine) {
	t.Helper()
	e := &commandEngine{begun: map[string]int{}, exits: exits}
	h := newHarnessWith(t, execSpec(10*time.Second, 10*time.Second), func(c *Config) {
		c.Prober = prober.New(prober.Config{Engines: map[string]prober.Engine{"docker": e}, MaxStarts: 8})
	})
	h.sendSynced()
	return h, e
}

func execSpec(period, timeout time.Duration) *core.Spec {
	return &core.Spec{
		Name: "exec", RestartPolicy: core.Always,
		Probes: [core.NumProbes]*core.ProbeSpec{core.Liveness: {
			Handler: prober.Handler{Exec: &prober.Exec{Command: []string{"ask"}}}, Period: period, Timeout: timeout,
			SuccessThreshold: 1, FailureThreshold: 3,
		}},
		Backoff: core.Backoff{Initial: time.Second, Max: time.Second, ResetAfter: core.DefaultBackoffReset},
	}
}

// Commands that hang keep nobody else from being asked and restarted.
func TestHangingCommandsDelayNobodysRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		exits := map[string]int{"healthy": 0, "dead": 1}
		for i := range 32 {
			exits[fmt.Sprint("hung-", i)] = -1
		}
		h, e := newCommandHarness(t, exits)
		defer h.close(t)
		h.specs["n-healthy"], h.specs["n-dead"] = execSpec(time.Second, time.Second), execSpec(time.Second, time.Second)
		for id := range exits {
			h.engine.run(id)
		}
		time.Sleep(14500 * time.Millisecond)
		synctest.Wait()
		if n := e.times("healthy"); n != 15 {
			t.Errorf("the healthy container was asked %d times of 15", n)
		}
		if n := h.view(t, "dead").State.RestartCount(); n == 0 {
			t.Error("the dead container was not restarted")
		}
	})
}
