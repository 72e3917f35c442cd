package containerd

import (
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"healthd/runtime/hostproc"
)

// clock is a clock that nobody sets: the time since the boot, on top of what the wall clock
// said of the moment of the boot when it was first asked. All times of an Engine are by it,
// so that a run keeps its start when the wall clock is set. For people it shows the wall
// clock's time, as long as that is not set.
type clock struct {
	boot   string // the kernel's ID of the present boot
	anchor int64  // the moment of the boot, in nanoseconds since the Unix epoch
}

// bootID returns the kernel's ID of the present boot; empty when it does not tell.
func bootID() string {
	b, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(b))
}

// sinceBoot returns the time since the boot, including the time that the host slept.
func sinceBoot() time.Duration {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}

// newAnchor returns what the wall clock says of the moment of the boot. With two looks at
// the wall clock it notices a pause between them.
func newAnchor() int64 {
	for {
		before, boot, after := time.Now(), sinceBoot(), time.Now()
		if after.Sub(before) < time.Millisecond {
			return before.UnixNano() - int64(boot)
		}
	}
}

func (c clock) now() time.Time { return time.Unix(0, c.anchor+int64(sinceBoot())) }

// began returns the moment of the boot.
func (c clock) began() time.Time { return time.Unix(0, c.anchor) }

// ticksTime returns the moment of so many clock ticks since the boot.
func (c clock) ticksTime(ticks uint64) time.Time {
	return time.Unix(0, c.anchor+int64(ticks)*int64(hostproc.Tick))
}

// eventDelay is how old an event may be: shims repeat them for some 15 s.
const eventDelay = 30 * time.Second

// fromEvent is fromWall for the time of an event, which was a moment ago. If it seems not to,
// the wall clock was set since.
func (c clock) fromEvent(at time.Time) time.Time {
	now := c.now()
	if told := c.fromWall(at); now.Sub(told) < eventDelay {
		return told
	}
	return now
}

// fromWall returns the moment that the wall clock showed as at. One in the future shows that
// the wall clock was set since.
func (c clock) fromWall(at time.Time) time.Time {
	now, lag := c.now(), time.Since(at.Round(0))
	if lag < 0 || at.IsZero() {
		lag = 0
	}
	return now.Add(-lag)
}
