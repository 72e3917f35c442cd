package supervisor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"healthd/prober"
	"healthd/runtime"
	"healthd/supervisor/core"
)

// commandEngine runs the commands of exec probes in virtual time.
type commandEngine struct {
	mu     sync.Mutex
	begun  map[string]int // by container
	exits  map[string]int // exit code; -1: the command hangs
	immune bool           // commands cannot be killed, as with a remote engine
	run    func(container string) int
}

var errCannotBeKilled = errors.New("cannot kill the command: its process is elsewhere")

func (e *commandEngine) Exec(ctx context.Context, container string, _ []string, timeout time.Duration, _ int, started func()) ([]byte, int, bool, error) {
	e.mu.Lock()
	e.begun[container]++
	code, run := e.exits[container], e.run(container)
	e.mu.Unlock()
	started()
	if code >= 0 {
		return nil, code, false, nil
	}
	var left error
	if e.immune {
		left = immuneCommand{e, container, run}
	}
	select {
	case <-ctx.Done():
		return nil, 0, false, errors.Join(ctx.Err(), left)
	case <-time.After(timeout):
		return nil, 0, true, left
	}
}

func (e *commandEngine) Health(context.Context, string) (status, output string, err error) {
	return "none", "", nil
}

func (e *commandEngine) times(container string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.begun[container]
}

// immuneCommand runs until its container's run ends.
type immuneCommand struct {
	engine    *commandEngine
	container string
	run       int
}

func (immuneCommand) Error() string { return errCannotBeKilled.Error() }

func (c immuneCommand) StillRuns(context.Context) (bool, error) {
	if c.engine.run(c.container) == c.run {
		return true, c
	}
	return false, nil
}

// newCommandHarness is a harness with real exec probes.
func newCommandHarness(t *testing.T, exits map[string]int, immune bool) (*harness, *commandEngine) {
	t.Helper()
	e := &commandEngine{begun: map[string]int{}, exits: exits, immune: immune}
	h := newHarnessWith(t, execSpec(10*time.Second, 10*time.Second), func(c *Config) {
		c.Prober = prober.New(prober.Config{Engines: map[string]prober.Engine{"docker": e}, MaxStarts: 8})
	})
	e.run = func(container string) int {
		c, err := h.engine.Inspect(t.Context(), container)
		if err != nil {
			return 0
		}
		return int(c.StartedAt.UnixNano())
	}
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
		h, e := newCommandHarness(t, exits, false)
		defer h.close()
		h.specs["n-healthy"], h.specs["n-dead"] = execSpec(time.Second, time.Second), execSpec(time.Second, time.Second)
		for id := range exits {
			h.engine.run(id)
		}
		pass(14500 * time.Millisecond)
		if n := e.times("healthy"); n != 15 {
			t.Errorf("the healthy container was asked %d times of 15", n)
		}
		if n := h.view("dead").State.RestartCount(); n == 0 {
			t.Error("the dead container was not restarted")
		}
	})
}

// A command that hangs and cannot be killed fails its probe at each period, until the
// restart ends it. No other command joins it.
func TestRestartEndsACommandThatCannotBeKilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, e := newCommandHarness(t, map[string]int{"c": -1}, true)
		defer h.close()
		h.specs["n-c"] = execSpec(10*time.Second, time.Second)
		h.engine.run("c")
		pass(5 * time.Minute)
		v := h.view("c")
		if v.State.RestartCount() < 5 {
			t.Errorf("%d restarts", v.State.RestartCount())
		}
		if n := e.times("c"); n != v.State.RestartCount()+1 {
			t.Errorf("%d commands in %d runs", n, v.State.RestartCount()+1)
		}
		const timedOut = `(1/3): command timed out: "ask" timed out after 1s: cannot kill`
		h.journal.mu.Lock()
		defer h.journal.mu.Unlock()
		first := 0
		for _, event := range h.journal.events {
			if strings.Contains(event.Message, timedOut) {
				first++
			}
		}
		if first != e.times("c") {
			t.Errorf("%d runs began with a command of their own, want %d", first, e.times("c"))
		}
	})
}

// A reload with another threshold makes a new probe. It starts no second command beside the
// one that hangs.
func TestReloadStartsNoSecondCommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, e := newCommandHarness(t, map[string]int{"c": -1}, true)
		defer h.close()
		h.engine.run("c")
		for failures := range 10 {
			s := execSpec(10*time.Second, time.Second)
			s.Probes[core.Liveness].FailureThreshold = 1000 + failures
			if err := h.Reload(t.Context(), func(runtime.Traits) (*core.Spec, error) { return s, nil }, core.Guard{}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
		}
		if n := e.times("c"); n != 1 {
			t.Errorf("%d commands", n)
		}
		if y := h.view("c").State.Health.Probes[core.Liveness]; y.Last.Outcome != prober.Failure {
			t.Errorf("got %+v", y.Last)
		}
	})
}
