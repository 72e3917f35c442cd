package prober

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestCommandsThatCannotBeKilledDoNotPileUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := newCommandHost()
		host.behave("hung", behaviour{runs: forever, immune: true})
		hung := &askedProbe{container: "hung", period: 10 * time.Second, timeout: time.Second}
		askAll(t, New(Config{Engines: map[string]Engine{"fake": host}}), time.Minute, hung)
		if n := host.count(host.begun, "hung"); n != 1 {
			t.Errorf("%d commands were begun, want 1", n)
		}
		hung.want(t, 0, 6, 0)
		wantResult(t, hung.last, Failure, Timeout)
		wantOutput(t, hung.last, `command timed out: "ask" timed out after 1s and still runs after 50s: cannot kill the command: there is no such process here`)
	})
}

// leftHost has a container c whose command runs for a minute and cannot be killed. The
// probe asked it for a second.
func leftHost(t *testing.T) (*commandHost, *Prober, Probe) {
	t.Helper()
	host := newCommandHost()
	host.behave("c", behaviour{runs: time.Minute, immune: true})
	prober := New(Config{Engines: map[string]Engine{"fake": host}})
	p := probeOf(t, prober, "c", "ask")
	r := p.Ask(t.Context(), time.Second)
	wantResult(t, r, Failure, Timeout)
	wantOutput(t, r, "cannot kill the command: there is no such process here")
	synctest.Wait()
	return host, prober, p
}

func wantBegun(t *testing.T, host *commandHost, want int) {
	t.Helper()
	if n := host.count(host.begun, "c"); n != want {
		t.Errorf("%d commands were begun, want %d", n, want)
	}
}

// When the command has ended after all, the probe asks again.
func TestLeftCommandEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host, _, p := leftHost(t)
		time.Sleep(50 * time.Second)
		wantResult(t, p.Ask(t.Context(), time.Second), Failure, Timeout)
		wantBegun(t, host, 1)
		time.Sleep(10 * time.Second)
		host.behave("c", behaviour{})
		wantResult(t, p.Ask(t.Context(), time.Second), Success, "")
		wantBegun(t, host, 2)
	})
}

// Nothing is known about the container while its engine does not say what runs.
func TestLeftCommandOfAnEngineThatIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host, _, p := leftHost(t)
		host.away = true
		time.Sleep(leftPollMin)
		r := p.Ask(t.Context(), time.Second)
		wantResult(t, r, Unknown, NotAsked)
		wantOutput(t, r, "healthd does not know whether the previous command still runs: the engine is away")
		host.away = false
		wantResult(t, p.Ask(t.Context(), time.Second), Failure, Timeout)
		wantBegun(t, host, 1)
	})
}

// However often a probe asks, the engine is not asked more often than once a second.
func TestLeftCommandIsSeldomLookedAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host, _, p := leftHost(t)
		for range 550 {
			wantResult(t, p.Ask(t.Context(), time.Second), Failure, Timeout)
			time.Sleep(100 * time.Millisecond)
		}
		if host.looks < 20 || host.looks > 60 {
			t.Errorf("the engine was asked %d times in 55 s", host.looks)
		}
	})
}

// After a reload the same run has other Probes, and an operator's probe is another one, too.
func TestLeftCommandOfAnotherProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host, prober, _ := leftHost(t)
		for range 10 {
			wantResult(t, probeOf(t, prober, "c", "ask").Ask(t.Context(), time.Second), Failure, Timeout)
		}
		wantBegun(t, host, 1)
		wantResult(t, probeOf(t, prober, "other", "ask").Ask(t.Context(), time.Second), Success, "")
		host.behave("c", behaviour{})
		wantResult(t, probeOf(t, prober, "c", "ask", "otherwise").Ask(t.Context(), time.Second), Success, "")
		wantBegun(t, host, 2)
	})
}

// The first probe of a run takes nothing for granted that was true a moment ago.
func TestLeftCommandOfAnOlderRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host, prober, p := leftHost(t)
		time.Sleep(58 * time.Second)
		wantResult(t, p.Ask(t.Context(), time.Second), Failure, Timeout)
		time.Sleep(2 * time.Second)
		host.behave("c", behaviour{})
		wantResult(t, probeOf(t, prober, "c", "ask").Ask(t.Context(), time.Second), Success, "")
	})
}

// A probe with a longer timeout gives the command of another probe that time.
func TestLeftCommandThatMayEndInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host, prober, _ := leftHost(t)
		begin := time.Now()
		r := probeOf(t, prober, "c", "ask").Ask(t.Context(), 30*time.Second)
		wantResult(t, r, Failure, Timeout)
		if took := time.Since(begin); took != 29*time.Second {
			t.Errorf("took %v, want the rest of the 30 s", took)
		}
		wantBegun(t, host, 1)
		host.behave("c", behaviour{})
		wantResult(t, probeOf(t, prober, "c", "ask").Ask(t.Context(), 90*time.Second), Success, "")
		wantBegun(t, host, 2)
	})
}

func TestAskOfLeftCommandIsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, prober, _ := leftHost(t)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		begin := time.Now()
		r := probeOf(t, prober, "c", "ask").Ask(ctx, time.Hour)
		wantResult(t, r, Unknown, NotAsked)
		if took := time.Since(begin); took != 5*time.Second {
			t.Errorf("took %v", took)
		}
	})
}

// Each reload ends the command under way, which runs on. The next probe waits for it.
func TestReloadsWhileACommandRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := newCommandHost()
		host.behave("c", behaviour{runs: time.Minute, immune: true})
		prober := New(Config{Engines: map[string]Engine{"fake": host}})
		for range 4 {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			wantResult(t, probeOf(t, prober, "c", "ask").Ask(ctx, 10*time.Second), Unknown, NotAsked)
			cancel()
			synctest.Wait()
		}
		for range 20 {
			wantResult(t, probeOf(t, prober, "c", "ask").Ask(t.Context(), 10*time.Second), Failure, Timeout)
		}
		wantBegun(t, host, 1)
	})
}

func TestLeftCommandHidesSecrets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := &secretHost{newCommandHost()}
		p := mustProbe(t, Config{Engines: map[string]Engine{"fake": host}}, execs("login", "$(PASS)"),
			Target{Runtime: "fake", ID: "c", Env: []string{"PASS=hunter2"}})
		for range 3 {
			r := p.Ask(t.Context(), time.Second)
			wantResult(t, r, Failure, Timeout)
			if wantOutput(t, r, "$(PASS)"); strings.Contains(r.Output, "hunter2") {
				t.Errorf("tells the secret: %s", r.Output)
			}
			time.Sleep(10 * time.Second)
		}
	})
}

// secretHost has commands that cannot be killed, and tells their words.
type secretHost struct{ *commandHost }

type secretError struct{ error }

func (e secretError) StillRuns(context.Context) (bool, error) { return true, e.error }

func (h *secretHost) Exec(_ context.Context, _ string, argv []string, timeout time.Duration, _ int, started func()) ([]byte, int, bool, error) {
	started()
	time.Sleep(timeout)
	return nil, 0, true, secretError{fmt.Errorf("cannot kill %q", argv)}
}

// A hook is run again, as the engine may have lost the first one, but not without an end.
func TestLeftCommandsOfHooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := newCommandHost()
		host.behave("c", behaviour{runs: forever, immune: true})
		prober := New(Config{Engines: map[string]Engine{"fake": host}})
		var last HookResult
		for range 10 {
			hook, err := prober.Hook(execHookHandler("drain"), Target{Runtime: "fake", ID: "c"})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			last = hook.Run(ctx)
			cancel()
			synctest.Wait()
		}
		wantBegun(t, host, maxPerContainer)
		wantError(t, last.Err, `command "drain" was not begun: 4 commands of hooks run in the container already, and no more may; `+
			`healthd cannot kill 4 of them, but a restart of the container ends them`)
		if !last.NotAsked {
			t.Error("a hook that was not begun was asked")
		}
		wantResult(t, probeOf(t, prober, "c", "ask").Ask(t.Context(), time.Second), Failure, Timeout) // probes have a bound of their own
	})
}

// Nobody asks about containers that are gone. What is known of their commands goes, too.
func TestLeftCommandsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := newCommandHost()
		prober := New(Config{Engines: map[string]Engine{"fake": host}})
		most := 0
		for i := range 2000 {
			id := fmt.Sprint("c", i)
			host.behave(id, behaviour{runs: 30 * time.Second, immune: true})
			wantResult(t, probeOf(t, prober, id, "ask").Ask(t.Context(), time.Second), Failure, Timeout)
			synctest.Wait()
			most = max(most, len(prober.engines["fake"].probes.left))
		}
		if most > 200 { // about 30 run at a time
			t.Errorf("%d commands are remembered", most)
		}
		if n := len(prober.engines["fake"].probes.begun); n > 0 {
			t.Errorf("%d containers are remembered", n)
		}
	})
}

// A command that was not seen to start has no age before it is first seen running.
func TestLeftCommandThatStartsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := &lateHost{commandHost: newCommandHost()}
		p := mustProbe(t, Config{Engines: map[string]Engine{"fake": host}}, execs("a"), Target{Runtime: "fake", ID: "c"})
		wantResult(t, p.Ask(t.Context(), 5*time.Second), Unknown, NotAsked)
		time.Sleep(time.Minute)
		wantResult(t, p.Ask(t.Context(), 5*time.Second), Unknown, NotAsked)
		host.runs = true
		begin := time.Now()
		wantResult(t, p.Ask(t.Context(), 5*time.Second), Failure, Timeout)
		if took := time.Since(begin); took != 5*time.Second {
			t.Errorf("a Failure after %v of a command with a timeout of 5s", took)
		}
		if host.execs != 1 {
			t.Errorf("%d commands were begun", host.execs)
		}
	})
}

// lateHost loses its engine at the start of a command.
type lateHost struct {
	*commandHost
	execs int
	runs  bool
}

func (h *lateHost) Exec(context.Context, string, []string, time.Duration, int, func()) ([]byte, int, bool, error) {
	h.execs++
	return nil, 0, false, lateCommand{h}
}

type lateCommand struct{ host *lateHost }

func (lateCommand) Error() string { return "the engine is away" }

func (c lateCommand) StillRuns(context.Context) (bool, error) {
	if c.host.runs {
		return true, errNoProcess
	}
	return false, errors.New("not known yet")
}
