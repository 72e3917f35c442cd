package prober

import (
	"testing"
	"testing/synctest"
	"time"
)

// closer counts how often it was closed.
type closer struct {
	closed int
	since  time.Time
}

func newCloser() *closer { return &closer{since: time.Now()} }

func (c *closer) opened() time.Time { return c.since }

func (c *closer) Close() error {
	c.closed++
	return nil
}

func newKept(most int64) *kept[*closer] {
	k := &kept[*closer]{allowance: &allowance{}}
	k.allowance.left.Store(most)
	return k
}

func wantClosedConn(t *testing.T, c *closer, want int) {
	t.Helper()
	if synctest.Wait(); c.closed != want {
		t.Errorf("closed %d times, want %d", c.closed, want)
	}
}

func TestKeptConnectionExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, c := newKept(1), newCloser()
		for range 3 { // each use gives it MaxIdle again
			k.put(c)
			time.Sleep(MaxIdle - 1)
			wantClosedConn(t, c, 0)
			if got := k.take(); got != c {
				t.Fatalf("took %v", got)
			}
		}
		time.Sleep(2 * MaxIdle) // it is in use
		wantClosedConn(t, c, 0)
		k.put(c)
		time.Sleep(MaxIdle)
		wantClosedConn(t, c, 1)
		if got := k.take(); got != nil {
			t.Errorf("took %v", got)
		}
		if n := k.allowance.left.Load(); n != 1 {
			t.Errorf("%d more may be kept, want 1", n)
		}
	})
}

// A connection that is always in use gets old, too.
func TestKeptConnectionGetsOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, c := newKept(1), newCloser()
		for age := time.Duration(0); age < MaxAge; age += MaxAge / 5 {
			if got := k.take(); age > 0 && got != c {
				t.Fatalf("took %v after %v", got, age)
			}
			k.put(c)
			time.Sleep(MaxAge / 5)
		}
		if got := k.take(); got != nil {
			t.Errorf("took %v", got)
		}
		wantClosedConn(t, c, 1)
		if n := k.allowance.left.Load(); n != 1 {
			t.Errorf("%d more may be kept, want 1", n)
		}
	})
}

func TestKeptConnectionOfAClosedProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, c := newKept(1), newCloser()
		k.put(c)
		k.close()
		k.close()
		wantClosedConn(t, c, 1)
		inUse := newCloser() // while the probe was closed
		k.put(inUse)
		wantClosedConn(t, inUse, 1)
		if got := k.take(); got != nil {
			t.Errorf("took %v", got)
		}
		if n := k.allowance.left.Load(); n != 1 {
			t.Errorf("%d more may be kept, want 1", n)
		}
	})
}

func TestKeptConnectionsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, other := newKept(1), newKept(0)
		other.allowance = one.allowance
		first, second := newCloser(), newCloser()
		one.put(first)
		other.put(second)
		wantClosedConn(t, first, 0)
		wantClosedConn(t, second, 1)
		if got := one.take(); got != first {
			t.Errorf("took %v", got)
		}
		third := newCloser()
		other.put(third)
		wantClosedConn(t, third, 0)
		other.close()
	})
}

func TestMaxKept(t *testing.T) {
	for descriptors, want := range map[uint64]int{0: 0, 8: 0, 256: 16, 1024: 64, 4096: 512, 20_000: 8464, 1 << 20: 16384, 1<<64 - 1: 16384} {
		if got := maxKept(descriptors); got != want {
			t.Errorf("%d connections of %d descriptors, want %d", got, descriptors, want)
		}
	}
}
