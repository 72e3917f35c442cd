package prober

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"
)

func mustHook(t *testing.T, c Config, h LifecycleHandler, target Target) Hook {
	t.Helper()
	hook, err := New(c).Hook(h, target)
	if err != nil {
		t.Fatal(err)
	}
	return hook
}

// runHook runs h with longTimeout.
func runHook(t *testing.T, h LifecycleHandler) HookResult {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), longTimeout)
	defer cancel()
	return mustHook(t, Config{UserAgent: "healthd/1.2"}, h, loopback).Run(ctx)
}

// wantError checks the whole text of an error, none where want is empty.
func wantError(t *testing.T, err error, want string) {
	t.Helper()
	got := ""
	if err != nil {
		got = err.Error()
	}
	if got != want {
		t.Errorf("got error %q, want %q", got, want)
	}
}

func execHookHandler(argv ...string) LifecycleHandler {
	return LifecycleHandler{Exec: &Exec{Command: argv}}
}

func TestHookErrors(t *testing.T) {
	for _, tt := range []struct {
		name    string
		h       LifecycleHandler
		want    string
		kubelet string
	}{
		{"no handler", LifecycleHandler{}, "no handler", "242"},
		{"http without port", LifecycleHandler{HTTPGet: &HTTPGet{}}, "port 0 is not between 1 and 65535", ""},
		{"http with an unknown scheme", LifecycleHandler{HTTPGet: &HTTPGet{Port: 80, Scheme: "baz"}}, `scheme is "baz", not http or https`, "243"},
		{"header", LifecycleHandler{HTTPGet: &HTTPGet{Port: 1, Headers: []Header{{"a", "secret\n"}}}}, "value of header a is invalid", ""},
		{"tcp port", LifecycleHandler{TCPSocket: &TCPSocket{Port: -1}}, "port -1 is not between 1 and 65535", ""},
		{"no command", execHookHandler(), "command is empty", ""},
		{"no engine", execHookHandler("a"), `no engine for runtime "other"`, ""},
		{"backwards in time", LifecycleHandler{Sleep: &Sleep{-time.Second}}, "cannot sleep for -1s", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			covers(t, tt.kubelet)
			h, err := New(engines(fakeEngine{})).Hook(tt.h, Target{Runtime: "other", ID: "c1", Address: "127.0.0.1"})
			if want := "cannot run a hook of container c1: " + tt.want; h != nil || err == nil || err.Error() != want {
				t.Errorf("got %v, %v, want %q", h, err, want)
			}
		})
	}
}

func TestHookNotAsked(t *testing.T) {
	for name, h := range map[string]LifecycleHandler{
		"http": {HTTPGet: &HTTPGet{Port: 80}},
		"tcp":  {TCPSocket: &TCPSocket{Port: 80}},
	} {
		r := mustHook(t, Config{}, h, Target{ID: "c1"}).Run(t.Context())
		wantError(t, r.Err, "container has no address, and healthd cannot enter the container's network namespace: its engine is on another host")
		if !r.NotAsked {
			t.Errorf("%s: NotAsked is not set", name)
		}
	}
	target := Target{Runtime: "fake", Env: []string{"A=" + strings.Repeat("x", maxCommand)}}
	r := mustHook(t, engines(fakeEngine{}), execHookHandler("a", "$(A)"), target).Run(t.Context())
	wantError(t, r.Err, "command has more than 131072 bytes with its variables")
	if !r.NotAsked {
		t.Error("NotAsked is not set for a long command")
	}
}

func TestExecHook(t *testing.T) {
	for _, tt := range []struct {
		name     string
		reply    execReply
		want     string
		notAsked bool
		kubelet  string
	}{
		{"succeeds", execReply{output: []byte("OK")}, "", false, "242"},
		{"fails", execReply{code: 3, output: []byte("no space\n")}, `command "drain --all $(PASS)" exited with code 3: no space`, false, "242"},
		{"fails without a word", execReply{code: 3}, `command "drain --all $(PASS)" exited with code 3`, false, ""},
		{"fails and tells the secret", execReply{code: 3, output: []byte("no hunter2")}, `command "drain --all $(PASS)" exited with code 3: no $(PASS)`, false, ""},
		{"engine is away", execReply{err: errors.New("bad hunter2"), output: []byte("x")}, "cannot run the command: bad $(PASS)", true, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			covers(t, tt.kubelet)
			e := fakeEngine{exec: func(_ context.Context, container string, argv []string, timeout time.Duration) execReply {
				if container != "c1" || !slices.Equal(argv, []string{"drain", "--all", "hunter2"}) || timeout != noTimeout {
					t.Errorf("Exec got %q, %q, %v", container, argv, timeout)
				}
				return tt.reply
			}}
			target := Target{Runtime: "fake", ID: "c1", Env: []string{"PASS=hunter2"}}
			r := mustHook(t, engines(e), execHookHandler("drain", "--all", "$(PASS)"), target).Run(t.Context())
			wantError(t, r.Err, tt.want)
			if r.NotAsked != tt.notAsked || r.HTTPFallback {
				t.Errorf("got %+v", r)
			}
		})
	}
}

func TestExecHookOutputIsBounded(t *testing.T) {
	e := fakeEngine{exec: func(context.Context, string, []string, time.Duration) execReply {
		return execReply{code: 1, output: []byte(strings.Repeat("a\xff", MaxOutput))}
	}}
	err := mustHook(t, engines(e), execHookHandler("a"), loopback).Run(t.Context()).Err
	if err == nil || len(err.Error()) > MaxOutput || len(err.Error()) < MaxOutput-utf8.UTFMax || !utf8.ValidString(err.Error()) {
		t.Errorf("got %.60q…", err)
	}
}

// TestExecHookBesideProbes runs a hook and a probe at once, with a single slot for commands
// of probes.
func TestExecHookBesideProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ended bool
		e := fakeEngine{exec: func(ctx context.Context, _ string, argv []string, _ time.Duration) execReply {
			if argv[0] == "drain" {
				time.Sleep(30 * time.Second)
				ended = true
			}
			return execReply{err: ctx.Err()}
		}}
		prober := New(engines(e))
		hook, err := prober.Hook(execHookHandler("drain"), loopback)
		if err != nil {
			t.Fatal(err)
		}
		probe, err := prober.Probe(execs("ask"), loopback)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		results := make(chan HookResult, 1)
		go func() { results <- hook.Run(ctx) }()
		synctest.Wait()
		r := probe.Ask(t.Context(), time.Second)
		wantResult(t, r, Success, "")
		if r.Latency != 0 {
			t.Errorf("the probe waited %v", r.Latency)
		}
		soon, cancelSoon := context.WithTimeout(t.Context(), time.Second)
		defer cancelSoon()
		wantError(t, prober.Drain(soon), "cannot end all commands of hooks: context deadline exceeded")
		if err := prober.Drain(t.Context()); err != nil || !ended {
			t.Errorf("Drain returned %v; the hook has ended: %v", err, ended)
		}
		wantError(t, (<-results).Err, "")
	})
}

func TestExecHookDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var killed bool
		e := fakeEngine{exec: func(ctx context.Context, _ string, _ []string, _ time.Duration) execReply {
			<-ctx.Done()
			time.Sleep(time.Second) // killing takes its time, but not Run's
			killed = true
			return execReply{err: ctx.Err()}
		}}
		prober := New(engines(e))
		hook, err := prober.Hook(execHookHandler("drain"), loopback)
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		r := hook.Run(ctx)
		wantError(t, r.Err, `command "drain" did not end in time: context deadline exceeded`)
		if took := time.Since(begin); took != time.Minute || r.NotAsked {
			t.Errorf("Run took %v, got %+v", took, r)
		}
		r = hook.Run(ctx)
		wantError(t, r.Err, `command "drain" was not begun: context deadline exceeded`)
		if !r.NotAsked {
			t.Error("a hook that was not begun was asked")
		}
		if err := prober.Drain(t.Context()); err != nil || !killed {
			t.Errorf("Drain returned %v; the command was killed: %v", err, killed)
		}
	})
}

func TestTCPHook(t *testing.T) {
	accepted := make(chan struct{}, 9)
	open := rawServer(t, false, func(net.Conn, <-chan struct{}) { accepted <- struct{}{} })
	closed := closedPort(t)
	for _, host := range []string{"", "localhost"} {
		r := runHook(t, LifecycleHandler{TCPSocket: &TCPSocket{Host: host, Port: open}})
		wantError(t, r.Err, "")
		<-accepted
		r = runHook(t, LifecycleHandler{TCPSocket: &TCPSocket{Host: host, Port: closed}})
		if r.Err == nil || !strings.Contains(r.Err.Error(), "connection refused") || r.NotAsked {
			t.Errorf("host %q: got %+v of a closed port", host, r)
		}
	}
}

func TestTCPHookDeadline(t *testing.T) {
	deaf := fullBacklogPort(t)
	for _, host := range []string{"", "localhost"} {
		hook := mustHook(t, Config{}, LifecycleHandler{TCPSocket: &TCPSocket{Host: host, Port: deaf}}, loopback)
		ctx, cancel := context.WithTimeout(t.Context(), shortTimeout)
		defer cancel()
		r := hook.Run(ctx)
		wantError(t, r.Err, fmt.Sprintf("dial tcp %s:%d: no connection in time", cmp.Or(host, "127.0.0.1"), deaf))
		if r.NotAsked {
			t.Error("a hook that nobody answered was not asked")
		}
	}
	waitForNoGoroutine(t, "prober.cutOff")
}

func TestSleepHook(t *testing.T) {
	for _, tt := range []struct {
		name               string
		sleep, grace, took time.Duration
		want               string
		kubelet            string
	}{
		{"within the grace", 5 * time.Second, 30 * time.Second, 5 * time.Second, "", "245"},
		{"longer than the grace", 3 * time.Second, 2 * time.Second, 2 * time.Second, "container terminated before sleep hook finished", "245"},
		{"not at all", 0, time.Second, 0, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			covers(t, tt.kubelet)
			synctest.Test(t, func(t *testing.T) {
				hook := mustHook(t, Config{}, LifecycleHandler{Sleep: &Sleep{tt.sleep}}, Target{})
				ctx, cancel := context.WithTimeout(t.Context(), tt.grace)
				defer cancel()
				begin := time.Now()
				r := hook.Run(ctx)
				wantError(t, r.Err, tt.want)
				if took := time.Since(begin); took != tt.took || r.NotAsked {
					t.Errorf("took %v, got %+v", took, r)
				}
				cancel()
				wantError(t, hook.Run(ctx).Err, "container terminated before sleep hook finished")
			})
		})
	}
}

// notStartedError is an engine's error for a container that has no such command.
type notStartedError struct{ error }

func (notStartedError) NotStarted() bool { return true }

func TestHookCommandNotFound(t *testing.T) {
	for err, notAsked := range map[error]bool{
		fmt.Errorf("exec: %w", notStartedError{errors.New("no such file")}): false,
		errors.New("the engine is away"):                                    true,
	} {
		e := fakeEngine{exec: func(context.Context, string, []string, time.Duration) execReply { return execReply{err: err} }}
		h, buildErr := New(Config{Engines: map[string]Engine{"docker": e}}).Hook(
			LifecycleHandler{Exec: &Exec{Command: []string{"/drain.sh"}}}, Target{Runtime: "docker", ID: "c1"})
		if buildErr != nil {
			t.Fatal(buildErr)
		}
		if r := h.Run(t.Context()); r.Err == nil || r.NotAsked != notAsked {
			t.Errorf("%v: %+v, want NotAsked %v", err, r, notAsked)
		}
	}
}
