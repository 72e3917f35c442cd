package prober

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// frozen is asked, and gives its result after some time.
type frozen struct {
	after  time.Duration
	result Result
}

func (f frozen) ask(context.Context, time.Duration) (Result, error) {
	time.Sleep(f.after)
	return f.result, nil
}

// A timeout that healthd saw late, because it did not run, says nothing about the container.
func TestLateTimeoutDoesNotCount(t *testing.T) {
	for _, tt := range []struct {
		name   string
		after  time.Duration
		result Result
		want   Outcome
	}{
		{"at the timeout", 2 * time.Second, Result{Outcome: Failure, Cause: Timeout}, Failure},
		{"a little later", 2*time.Second + lateBy - 1, Result{Outcome: Failure, Cause: Timeout}, Failure},
		{"much later", 2*time.Second + lateBy, Result{Outcome: Failure, Cause: Timeout}, Unknown},
		{"another failure, much later", time.Hour, Result{Outcome: Failure, Cause: Refused}, Failure},
		{"a success, much later", time.Hour, Result{Outcome: Success}, Success},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				got := probe{frozen{tt.after, tt.result}}.Ask(t.Context(), 2*time.Second)
				if got.Outcome != tt.want || (got.Cause == Late) != (tt.want == Unknown) {
					t.Errorf("got %+v, want %v", got, tt.want)
				}
			})
		})
	}
}

// The same holds for a hook: a post_start hook that failed would have the container restarted.
func TestLateHookDoesNotCount(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0") // accepts, and never replies
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	port := ln.Addr().(*net.TCPAddr).Port
	get := LifecycleHandler{HTTPGet: &HTTPGet{Scheme: "http", Path: "/", Host: "127.0.0.1", Port: port}}
	dial := LifecycleHandler{TCPSocket: &TCPSocket{Host: "127.0.0.1", Port: port}}
	for ago, want := range map[time.Duration]bool{0: false, lateBy - 500*time.Millisecond: false, lateBy: true, time.Hour: true} {
		for name, handler := range map[string]LifecycleHandler{"http_get": get, "tcp_socket": dial} {
			hook, err := New(Config{}).Hook(handler, Target{})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(-ago))
			if r := hook.Run(ctx); r.Err == nil || r.NotAsked != want {
				t.Errorf("%s, %v after its time: %+v, want NotAsked %v", name, ago, r, want)
			}
			cancel()
		}
	}
}
