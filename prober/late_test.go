package prober

import (
	"context"
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
