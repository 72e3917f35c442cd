// Package patience waits in tests for what must come.
//
// A test fails when healthd does something wrong, never because a machine was busy. So a test says what must come,
// and in which order, and not how soon: what must be quick is a benchmark, and what a timeout bounds runs in virtual
// time (testing/synctest).
package patience

import (
	"fmt"
	"testing"
	"time"
)

// Limit is when a test gives up: far later than any machine needs. It measures nothing.
const Limit = 2 * time.Minute

// pause is between two looks.
const pause = 20 * time.Millisecond

// Until calls try until it returns nil. It fails the test when that takes longer than Limit.
func Until(tb testing.TB, what string, try func() error) {
	tb.Helper()
	if err := Try(what, try); err != nil {
		tb.Fatal(err)
	}
}

// Try is Until for what has more to tell of a failure: it returns an error that names what did not come, and the
// last error of try.
func Try(what string, try func() error) error {
	giveUp := time.Now().Add(Limit)
	for {
		err := try()
		if err == nil {
			return nil
		}
		if time.Now().After(giveUp) {
			return fmt.Errorf("it never came that %s (gave up after %v): %w", what, Limit, err)
		}
		time.Sleep(pause)
	}
}

// Receive returns what comes over c. It fails the test when nothing comes, or c is closed.
func Receive[T any](tb testing.TB, what string, c <-chan T) T {
	tb.Helper()
	giveUp := time.NewTimer(Limit)
	defer giveUp.Stop()
	select {
	case v, ok := <-c:
		if !ok {
			tb.Fatalf("closed before it came that %s", what)
		}
		return v
	case <-giveUp.C:
		tb.Fatalf("it never came that %s (gave up after %v)", what, Limit)
	}
	var none T
	return none
}

// Closed waits until done is closed. It fails the test when that never happens.
func Closed(tb testing.TB, what string, done <-chan struct{}) {
	tb.Helper()
	giveUp := time.NewTimer(Limit)
	defer giveUp.Stop()
	select {
	case <-done:
	case <-giveUp.C:
		tb.Fatalf("it never came that %s (gave up after %v)", what, Limit)
	}
}
