package prober

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestInquire(t *testing.T) {
	for _, tt := range []struct {
		name  string
		reply execReply
		want  Answer
		err   string
	}{
		{"answers", execReply{output: []byte("main at 0x1\n")}, Answer{Output: "main at 0x1\n"}, ""},
		{"fails", execReply{output: []byte("no"), code: 3}, Answer{Output: "no", ExitCode: 3}, ""},
		{"times out", execReply{output: []byte("half"), timedOut: true}, Answer{Output: "half", TimedOut: true}, ""},
		{"is not killed", execReply{output: []byte("half"), timedOut: true, err: errors.New("cannot kill it")}, Answer{Output: "half", TimedOut: true}, ""},
		{"floods", execReply{output: []byte(strings.Repeat("x", 1<<20))}, Answer{Output: strings.Repeat("x", 20), Cut: true}, ""},
		{"prints bytes", execReply{output: []byte("a\xff")}, Answer{Output: "a\uFFFD"}, ""},
		{"prints its secret", execReply{output: []byte("pass: 's3cret'")}, Answer{Output: "pass: '$(PASS)'"}, ""},
		{"is not asked", execReply{err: errors.New("engine away, s3cret")}, Answer{}, "cannot run the command: engine away, $(PASS)"},
	} {
		e := fakeEngine{exec: func(_ context.Context, id string, argv []string, timeout time.Duration) execReply {
			if id != "c1" || strings.Join(argv, " ") != "dump s3cret" || timeout != longTimeout {
				t.Errorf("%s: asked %q in %s for %v", tt.name, argv, id, timeout)
			}
			return tt.reply
		}}
		target := Target{Runtime: "fake", ID: "c1", Env: []string{"PASS=s3cret"}}
		got := New(engines(e)).Inquire(t.Context(), Exec{Command: []string{"dump", "$(PASS)"}}, target, longTimeout, 20)
		wantError(t, got.Err, tt.err)
		if got.Err = nil; got != tt.want {
			t.Errorf("%s: got %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

func TestInquireIsNotBegun(t *testing.T) {
	p := New(engines(fakeEngine{}))
	for want, a := range map[string]Answer{
		"command is empty":           p.Inquire(t.Context(), Exec{}, Target{Runtime: "fake"}, longTimeout, 20),
		`no engine for runtime "no"`: p.Inquire(t.Context(), Exec{Command: []string{"x"}}, Target{Runtime: "no"}, longTimeout, 20),
	} {
		wantError(t, a.Err, want)
	}
}

// Whoever waits for a command that hangs waits no longer than its context. Drain waits for its end.
func TestInquireHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := fakeEngine{exec: func(context.Context, string, []string, time.Duration) execReply {
			time.Sleep(time.Minute) // the engine does not end it
			return execReply{timedOut: true}
		}}
		p := New(engines(e))
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		began := time.Now()
		a := p.Inquire(ctx, Exec{Command: []string{"x"}}, Target{Runtime: "fake", ID: "c1"}, time.Second, 20)
		if a.Err == nil || time.Since(began) != 2*time.Second {
			t.Errorf("got %+v after %v", a, time.Since(began))
		}
		if err := p.Drain(t.Context()); err != nil || time.Since(began) != time.Minute {
			t.Errorf("drained after %v: %v", time.Since(began), err)
		}
	})
}
