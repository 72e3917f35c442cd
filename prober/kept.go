package prober

import (
	"io"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// forListeners is how many descriptors healthd's listeners take at most, and seven eighths where there are few.
	forListeners = 3 * 1024
	// mostKept bounds what kept connections cost in memory: one of HTTPS takes 28 kB and two goroutines.
	mostKept = 1 << 14
)

// defaultMaxKept returns how many connections may be kept: half of the process's descriptors that listeners leave.
// Probes under way need the rest.
func defaultMaxKept() int {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil {
		return 0
	}
	return maxKept(limit.Cur)
}

func maxKept(descriptors uint64) int {
	listened := min(descriptors/8*7, forListeners)
	return int(min((descriptors-listened)/2, mostKept))
}

// allowance is how many more connections all probes may keep.
type allowance struct{ left atomic.Int64 }

func (a *allowance) take() bool {
	if a.left.Add(-1) >= 0 {
		return true
	}
	a.left.Add(1)
	return false
}

func (a *allowance) giveBack() { a.left.Add(1) }

// kept is where one probe keeps its connection while it does not use it. A probe asks one run of
// a container at one address, so the connection is never another's. Its methods may be
// called from any goroutine.
type kept[C interface {
	comparable
	io.Closer // without waiting
	opened() time.Time
}] struct {
	allowance *allowance

	mu     sync.Mutex
	conn   C // zero: none
	since  time.Time
	expiry *time.Timer // of conn
	closed bool
}

// take returns the connection, which is the caller's now, and the zero C without one that is young enough.
func (k *kept[C]) take() C {
	k.mu.Lock()
	defer k.mu.Unlock()
	var none C
	conn := k.takeLocked()
	if conn != none && time.Since(conn.opened()) >= MaxAge {
		_ = conn.Close()
		return none
	}
	return conn
}

func (k *kept[C]) takeLocked() C {
	var none C
	conn := k.conn
	if conn != none {
		k.conn = none
		k.allowance.giveBack()
	}
	return conn
}

// put keeps conn for the next take, or closes it.
func (k *kept[C]) put(conn C) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed || !k.allowance.take() {
		_ = conn.Close()
		return
	}
	k.conn, k.since = conn, time.Now()
	if k.expiry == nil {
		k.expiry = time.AfterFunc(MaxIdle, k.expire)
	} else {
		k.expiry.Reset(MaxIdle)
	}
}

// expire closes the connection, unless another one came while the timer fired.
func (k *kept[C]) expire() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if time.Since(k.since) >= MaxIdle {
		k.closeLocked()
	}
}

// close closes the connection, and each one that comes later.
func (k *kept[C]) close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.closed = true
	if k.expiry != nil {
		k.expiry.Stop()
	}
	k.closeLocked()
}

func (k *kept[C]) closeLocked() {
	var none C
	if conn := k.takeLocked(); conn != none {
		_ = conn.Close()
	}
}
