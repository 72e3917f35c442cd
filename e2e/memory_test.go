package e2e

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// memory returns a size that the kernel tells of the daemon's memory, in bytes: VmRSS is what is
// resident, VmHWM the most that was since resetPeak.
func (d *daemon) memory(name string) int {
	d.t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", d.cmd.Process.Pid))
	if err != nil {
		d.t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(status), name+":")
	var kilobytes int
	if _, err := fmt.Sscan(rest, &kilobytes); err != nil || !found {
		d.t.Fatalf("no %s in %s: %v", name, status, err)
	}
	return kilobytes << 10
}

// plain has the daemon run as its users run it.
func (d *daemon) plain() *daemon {
	d.t.Helper()
	path, err := plainProgram()
	if err != nil {
		d.t.Fatal(err)
	}
	d.path = path
	return d
}

// resetPeak makes the present memory the highest so far.
func (d *daemon) resetPeak() {
	d.t.Helper()
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", d.cmd.Process.Pid), []byte("5"), 0); err != nil {
		d.t.Fatal(err)
	}
}

// brake is what an attacker obeys, so that a healthd without a bound does not fill the test machine.
type brake struct{ pulled atomic.Bool }

// brakeAt pulls the brake when the daemon has more than most bytes resident, until the test ends.
func (d *daemon) brakeAt(b *brake, most int) {
	d.t.Helper()
	done := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for !b.pulled.Load() {
			select {
			case <-done:
				return
			case <-tick.C:
				status, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", d.cmd.Process.Pid))
				var size, resident int
				if _, scanErr := fmt.Sscan(string(status), &size, &resident); err != nil || scanErr != nil {
					return // the daemon has ended
				}
				b.pulled.Store(resident*os.Getpagesize() > most)
			}
		}
	})
	d.t.Cleanup(func() {
		close(done)
		watching.Wait()
	})
}

// grewAtMost checks how far the peak lies above what was resident before, and logs it.
func (d *daemon) grewAtMost(t *testing.T, before, most int, while string) {
	t.Helper()
	peak := d.memory("VmHWM")
	t.Logf("%s: resident %d MiB before, at most %d MiB", while, before>>20, peak>>20)
	if peak-before > most {
		t.Errorf("%s, the resident memory grew from %d to %d MiB, by more than %d", while, before>>20, peak>>20, most>>20)
	}
}
