package faults

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"healthd/e2e/harness"
)

// memory returns a size that the kernel tells of the daemon's memory, in bytes: VmRSS is what is
// resident, VmHWM the most that was since resetPeak.
func memoryOf(d *harness.Daemon, name string) int {
	d.T.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", d.Cmd.Process.Pid))
	if err != nil {
		d.T.Fatal(err)
	}
	_, rest, found := strings.Cut(string(status), name+":")
	var kilobytes int
	if _, err := fmt.Sscan(rest, &kilobytes); err != nil || !found {
		d.T.Fatalf("no %s in %s: %v", name, status, err)
	}
	return kilobytes << 10
}

// plain has the daemon run as its users run it.
func plain(d *harness.Daemon) *harness.Daemon {
	d.T.Helper()
	path, err := harness.PlainProgram()
	if err != nil {
		d.T.Fatal(err)
	}
	d.Path = path
	return d
}

// confined has the daemon run with so many bytes of memory, as a unit or a container does: more than that ends it.
func confined(d *harness.Daemon, most int) *harness.Daemon {
	d.T.Helper()
	root, limit := "/sys/fs/cgroup/memory", "memory.limit_in_bytes"
	if _, err := os.Stat(root); err != nil {
		root, limit = "/sys/fs/cgroup", "memory.max"
	}
	dir, err := os.MkdirTemp(root, "healthd-e2e-")
	if err != nil {
		d.T.Fatal(err)
	}
	d.T.Cleanup(func() { // the daemon, which begins later, ends before
		if err := os.Remove(dir); err != nil {
			d.T.Error(err)
		}
	})
	if err := os.WriteFile(filepath.Join(dir, limit), []byte(strconv.Itoa(most)), 0); err != nil {
		d.T.Fatal(err)
	}
	d.Under = []string{"sh", "-c", "echo $$ >" + filepath.Join(dir, "cgroup.procs") + ` && exec "$@"`, "sh"}
	return d
}

// resetPeak makes the present memory the highest so far.
func resetPeak(d *harness.Daemon) {
	d.T.Helper()
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", d.Cmd.Process.Pid), []byte("5"), 0); err != nil {
		d.T.Fatal(err)
	}
}

// brake is what an attacker obeys, so that a healthd without a bound does not fill the test machine.
type brake struct{ pulled atomic.Bool }

// brakeAt pulls the brake when the daemon has more than most bytes resident, until the test ends.
func brakeAt(d *harness.Daemon, b *brake, most int) {
	d.T.Helper()
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
				status, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", d.Cmd.Process.Pid))
				var size, resident int
				if _, scanErr := fmt.Sscan(string(status), &size, &resident); err != nil || scanErr != nil {
					return // the daemon has ended
				}
				b.pulled.Store(resident*os.Getpagesize() > most)
			}
		}
	})
	d.T.Cleanup(func() {
		close(done)
		watching.Wait()
	})
}

// grewAtMost checks how far the peak lies above what was resident before, and logs it.
func grewAtMost(d *harness.Daemon, t *testing.T, before, most int, while string) {
	t.Helper()
	peak := memoryOf(d, "VmHWM")
	t.Logf("%s: resident %d MiB before, at most %d MiB", while, before>>20, peak>>20)
	if peak-before > most {
		t.Errorf("%s, the resident memory grew from %d to %d MiB, by more than %d", while, before>>20, peak>>20, most>>20)
	}
}
