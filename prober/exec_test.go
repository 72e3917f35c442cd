package prober

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// fakeEngine is an Engine of functions. It respects the output limit.
type fakeEngine struct {
	exec   func(ctx context.Context, container string, argv []string, timeout time.Duration) execReply
	health func(ctx context.Context, container string) (status, output string, err error)
}

func (e fakeEngine) Exec(ctx context.Context, container string, argv []string, timeout time.Duration, limit int, started func()) ([]byte, int, bool, error) {
	started()
	r := e.exec(ctx, container, argv, timeout)
	return r.output[:min(limit, len(r.output))], r.code, r.timedOut, r.err
}

func (e fakeEngine) Health(ctx context.Context, container string) (status, output string, err error) {
	return e.health(ctx, container)
}

func engines(e Engine) Config { return Config{Engines: map[string]Engine{"fake": e}, MaxStarts: 1} }

func execs(argv ...string) Handler { return Handler{Exec: &Exec{Command: argv}} }

func TestExec(t *testing.T) {
	for _, tt := range []struct {
		name    string
		reply   execReply
		outcome Outcome
		cause   Cause
		output  string
		kubelet string
	}{
		// 88: an engine has no error for exit code 0.
		{"succeeds", execReply{output: []byte("OK")}, Success, "", "OK", "87 88 99"},
		{"engine is away", execReply{err: errors.New("bad"), output: []byte("x")}, Unknown, NotAsked, "cannot run the command: bad", "90 102"},
		{"fails", execReply{code: 1, output: []byte("no")}, Failure, ExitCode, "no", "91 98"},
		{"fails without a word", execReply{code: 3}, Failure, ExitCode, "command exited with code 3", ""},
		{"timed out", execReply{timedOut: true, output: []byte("x")}, Failure, Timeout, `command timed out: "a -b" timed out after 1m0s`, "92"},
		{"timed out and not killed", execReply{timedOut: true, err: errors.New("cannot kill it")}, Failure, Timeout, `command timed out: "a -b" timed out after 1m0s: cannot kill it`, ""},
		{"not UTF-8", execReply{output: []byte("a\xff")}, Success, "", "a\uFFFD", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			covers(t, tt.kubelet)
			e := fakeEngine{exec: func(context.Context, string, []string, time.Duration) execReply { return tt.reply }}
			r := mustProbe(t, engines(e), execs("a", "-b"), loopback).Ask(t.Context(), longTimeout)
			wantResult(t, r, tt.outcome, tt.cause)
			if r.Output != tt.output || r.Warning {
				t.Errorf("got %+v, want output %q", r, tt.output)
			}
		})
	}
}

func TestExecArguments(t *testing.T) {
	covers(t, "93 104")
	argv := []string{"/bin/sh", "-c", "echo $HOME; exit $?", "", "a b"}
	e := fakeEngine{exec: func(_ context.Context, container string, got []string, timeout time.Duration) execReply {
		if container != "c1" || !slices.Equal(got, argv) || timeout != longTimeout {
			t.Errorf("Exec got %q, %q, %v", container, got, timeout)
		}
		return execReply{output: []byte("foo")}
	}}
	r := mustProbe(t, engines(e), execs(argv...), Target{Runtime: "fake", ID: "c1", Env: []string{"HOME=/"}}).Ask(t.Context(), longTimeout)
	if r.Outcome != Success || r.Output != "foo" {
		t.Errorf("got %+v", r)
	}
}

// verboseEngine is an engine whose commands write more than the limit.
type verboseEngine struct {
	fakeEngine
	keeps bool // the limit that it is given
}

func (w verboseEngine) Exec(_ context.Context, _ string, _ []string, _ time.Duration, limit int, _ func()) ([]byte, int, bool, error) {
	if w.keeps {
		return bytes.Repeat([]byte("x"), limit), 0, false, nil
	}
	return bytes.Repeat([]byte("x"), 2*MaxOutput), 0, false, nil
}

func TestExecOutputIsBounded(t *testing.T) {
	for _, tt := range []struct {
		name    string
		keeps   bool
		kubelet string
	}{
		{"by the engine", true, "94"},
		{"by us", false, "89"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			covers(t, tt.kubelet)
			r := mustProbe(t, engines(verboseEngine{keeps: tt.keeps}), execs("a"), loopback).Ask(t.Context(), longTimeout)
			wantResult(t, r, Success, "")
			if r.Output != strings.Repeat("x", MaxOutput) {
				t.Errorf("output has %d bytes, want %d", len(r.Output), MaxOutput)
			}
		})
	}
}

// The output that a command wrote before its engine failed is not shown: only the error is.
func TestExecErrorHasOutput(t *testing.T) {
	covers(t, "95")
	e := fakeEngine{exec: func(context.Context, string, []string, time.Duration) execReply {
		return execReply{output: []byte("foo"), err: errors.New("bad")}
	}}
	c, err := New(engines(e)).command(&Exec{Command: []string{"a"}}, loopback, func(e *engine) *commands { return e.probes })
	if err != nil {
		t.Fatal(err)
	}
	turn, err := c.commands.begin(t.Context(), c.container, longTimeout)
	if err != nil {
		t.Fatal(err)
	}
	r := <-c.start(t.Context(), turn, longTimeout, func() {}).replies
	if string(r.output) != "foo" || r.err == nil || r.err.Error() != "bad" {
		t.Errorf("got %q, %v", r.output, r.err)
	}
}

func TestExecVariables(t *testing.T) {
	for _, tt := range []struct {
		name    string
		reply   execReply
		outcome Outcome
		cause   Cause
		output  string
		kubelet string
	}{
		{"succeeds", execReply{output: []byte("OK")}, Success, "", "OK", "105"},
		{"tells the secret", execReply{code: 1, output: []byte("no hunter2 here")}, Failure, ExitCode, "no $(PASS) here", ""},
		{"engine tells the secret", execReply{err: errors.New(`exec: "hunter2": not found`)}, Unknown, NotAsked, `cannot run the command: exec: "$(PASS)": not found`, ""},
		{"timed out", execReply{timedOut: true, err: errors.New("cannot kill hunter2")}, Failure, Timeout,
			`command timed out: "login $(PASS) $(B) $$(PASS)" timed out after 1m0s: cannot kill $(PASS)`, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			covers(t, tt.kubelet)
			e := fakeEngine{exec: func(_ context.Context, _ string, argv []string, _ time.Duration) execReply {
				if want := []string{"login", "hunter2", "$(B)", "$(PASS)"}; !slices.Equal(argv, want) {
					t.Errorf("Exec got %q, want %q", argv, want)
				}
				return tt.reply
			}}
			target := Target{Runtime: "fake", ID: "c1", Env: []string{"A=1", "PASS=hunter2"}}
			r := mustProbe(t, engines(e), execs("login", "$(PASS)", "$(B)", "$$(PASS)"), target).Ask(t.Context(), longTimeout)
			wantResult(t, r, tt.outcome, tt.cause)
			if r.Output != tt.output {
				t.Errorf("output is %q, want %q", r.Output, tt.output)
			}
		})
	}
	target := Target{Runtime: "fake", Env: []string{"A=" + strings.Repeat("x", maxCommand)}}
	r := mustProbe(t, engines(fakeEngine{}), execs("a", "$(A)"), target).Ask(t.Context(), longTimeout)
	wantResult(t, r, Unknown, NotAsked)
	wantOutput(t, r, "command has more than 131072 bytes")
}

func TestExecThatCannotBeKilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dead := make(chan struct{})
		var runs int
		e := fakeEngine{exec: func(context.Context, string, []string, time.Duration) execReply {
			runs++
			<-dead
			return execReply{}
		}}
		prober := New(engines(e))
		p, err := prober.Probe(execs("a"), loopback)
		if err != nil {
			t.Fatal(err)
		}
		r := p.Ask(t.Context(), time.Second)
		wantResult(t, r, Unknown, NotAsked)
		if want := time.Second + engineGrace; r.Latency != want {
			t.Errorf("Ask took %v, want %v", r.Latency, want)
		}
		r = p.Ask(t.Context(), time.Second)
		wantResult(t, r, Unknown, NotAsked)
		wantOutput(t, r, "previous command still running")

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := prober.Drain(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Drain returned %v with a command running", err)
		}
		close(dead)
		if err := prober.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		wantResult(t, p.Ask(t.Context(), time.Second), Success, "")
		if runs != 2 {
			t.Errorf("the command ran %d times, want 2", runs)
		}
	})
}

func TestExecCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		killed := make(chan struct{})
		e := fakeEngine{exec: func(ctx context.Context, _ string, _ []string, _ time.Duration) execReply {
			defer close(killed)
			<-ctx.Done()
			time.Sleep(time.Second) // killing takes its time, but not Ask's
			return execReply{err: ctx.Err()}
		}}
		prober := New(engines(e))
		p, err := prober.Probe(execs("a"), loopback)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		r := p.Ask(ctx, time.Hour)
		wantResult(t, r, Unknown, NotAsked)
		if r.Latency != time.Minute {
			t.Errorf("Ask took %v", r.Latency)
		}
		if err := prober.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		<-killed
	})
}

// A reload makes a new probe while the command of the old one is still being killed.
func TestExecReplacedProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var begun atomic.Int32
		e := fakeEngine{exec: func(ctx context.Context, _ string, _ []string, _ time.Duration) execReply {
			if begun.Add(1) > 1 {
				return execReply{}
			}
			<-ctx.Done()
			time.Sleep(time.Second)
			return execReply{err: ctx.Err()}
		}}
		prober := New(engines(e))
		ask := func(ctx context.Context, word string) Result {
			p, err := prober.Probe(execs(word), loopback)
			if err != nil {
				t.Fatal(err)
			}
			return p.Ask(ctx, time.Hour)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		wantResult(t, ask(ctx, "a"), Unknown, NotAsked)
		r := ask(t.Context(), "a")
		wantResult(t, r, Unknown, NotAsked)
		wantOutput(t, r, "previous command is still being ended")
		wantResult(t, ask(t.Context(), "b"), Success, "") // other words do no harm
		time.Sleep(2 * time.Second)
		wantResult(t, ask(t.Context(), "a"), Success, "")
		if n := begun.Load(); n != 3 {
			t.Errorf("%d commands, want 3", n)
		}
	})
}

func TestEngineHealth(t *testing.T) {
	for _, tt := range []struct {
		status  string
		err     error
		outcome Outcome
		cause   Cause
		output  string
		calls   int
		log     string
	}{
		{"healthy", nil, Success, "", "log", 1, "log"},
		{"healthy", nil, Success, "", "", 1, ""},
		{"unhealthy", nil, Failure, Status, "log", 1, "log"},
		{"unhealthy", nil, Failure, Status, "HEALTHCHECK failed and printed nothing", 1, "\n"},
		{"starting", nil, Unknown, Pending, "log", 1, "log"},
		{"none", nil, Unknown, NotAsked, "container has no HEALTHCHECK", 1, "log"},
		{"odd", nil, Unknown, NotAsked, `engine reports unknown health status "odd"`, 1, "log"},
		{"", errors.New("away"), Unknown, NotAsked, "cannot read the engine's health check: away", maxAttempts, "log"},
	} {
		t.Run(tt.status, func(t *testing.T) {
			calls := 0
			e := fakeEngine{health: func(_ context.Context, container string) (string, string, error) {
				calls++
				if container != "c1" {
					t.Errorf("asked for %q", container)
				}
				return tt.status, tt.log, tt.err
			}}
			r := mustProbe(t, engines(e), Handler{EngineHealth: &EngineHealth{}}, loopback).Ask(t.Context(), longTimeout)
			wantResult(t, r, tt.outcome, tt.cause)
			if r.Output != tt.output || calls != tt.calls {
				t.Errorf("output is %q after %d calls, want %q after %d", r.Output, calls, tt.output, tt.calls)
			}
		})
	}
}

func TestEngineHealthTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		e := fakeEngine{health: func(ctx context.Context, _ string) (string, string, error) {
			calls++
			<-ctx.Done()
			return "", "", ctx.Err()
		}}
		r := mustProbe(t, engines(e), Handler{EngineHealth: &EngineHealth{}}, loopback).Ask(t.Context(), time.Second)
		wantResult(t, r, Unknown, NotAsked)
		if r.Latency != time.Second || calls != 1 {
			t.Errorf("Ask took %v and %d calls", r.Latency, calls)
		}
	})
}

// A value at the end of the shown output must not be cut in two: half of it would show.
func TestOutputLimitCutsNoSecret(t *testing.T) {
	const secret = "correct-horse-battery"
	e := fakeEngine{exec: func(context.Context, string, []string, time.Duration) execReply {
		return execReply{output: []byte(strings.Repeat("x", MaxOutput-5) + secret), code: 1}
	}}
	p, err := New(Config{Engines: map[string]Engine{"docker": e}}).Probe(
		Handler{Exec: &Exec{Command: []string{"login", "$(PASS)"}}}, Target{Runtime: "docker", ID: "c1", Env: []string{"PASS=" + secret}})
	if err != nil {
		t.Fatal(err)
	}
	if r := p.Ask(t.Context(), longTimeout); strings.Contains(r.Output, "c") || len(r.Output) > MaxOutput {
		t.Errorf("the output ends in %q", r.Output[len(r.Output)-20:])
	}
}

// Exit codes that are a warning count as a success, as in Consul.
func TestWarningExitCodes(t *testing.T) {
	for _, tt := range []struct {
		reply   execReply
		outcome Outcome
		cause   Cause
		output  string
	}{
		{execReply{code: 1, output: []byte("disk 90%")}, Success, Warned, "disk 90%"},
		{execReply{code: 3}, Success, Warned, "command exited with code 3"},
		{execReply{code: 2, output: []byte("no")}, Failure, ExitCode, "no"},
		{execReply{output: []byte("OK")}, Success, "", "OK"},
		{execReply{code: 1, timedOut: true}, Failure, Timeout, `command timed out: "a" timed out after 1m0s`},
		{execReply{code: 1, err: errors.New("bad")}, Unknown, NotAsked, "cannot run the command: bad"},
	} {
		e := fakeEngine{exec: func(context.Context, string, []string, time.Duration) execReply { return tt.reply }}
		h := Handler{Exec: &Exec{Command: []string{"a"}, WarningExitCodes: []int{1, 3}}}
		r := mustProbe(t, engines(e), h, loopback).Ask(t.Context(), longTimeout)
		if wantResult(t, r, tt.outcome, tt.cause); r.Output != tt.output || r.Warning != (tt.cause == Warned) {
			t.Errorf("%+v: got %+v, want output %q", tt.reply, r, tt.output)
		}
	}
}
