package enginetest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"healthd/e2e/patience"
	"healthd/runtime/hostproc"
)

// stopTimeout bounds how long processes may take to end or to freeze.
const stopTimeout = patience.Limit

// Claim writes which process made dir, so that another test binary can see whether that process is
// gone, and what else CleanUp's caller has to remove.
func Claim(dir string, more ...string) error {
	p, err := hostproc.Read(os.Getpid())
	if err != nil {
		return err
	}
	return os.WriteFile(ownerOf(dir), fmt.Appendf(nil, "%d %d %s\n", p.PID, p.StartTime, strings.Join(more, " ")), 0o600)
}

// Claimed returns what Claim was told beside dir.
func Claimed(dir string) []string {
	b, _ := os.ReadFile(ownerOf(dir))
	f := strings.Fields(string(b))
	return f[min(2, len(f)):]
}

func ownerOf(dir string) string { return filepath.Join(dir, "owner") }

// CleanUpAbandoned cleans up after test binaries that died before they could, for example at go
// test's timeout. The directories of their engines begin with prefix.
func CleanUpAbandoned(prefix string, cleanUp func(dir string) error) {
	dirs, _ := filepath.Glob(filepath.Join(os.TempDir(), prefix+"*"))
	for _, dir := range dirs {
		var pid int
		var start uint64
		b, err := os.ReadFile(ownerOf(dir))
		if err != nil {
			continue
		}
		if _, err := fmt.Sscan(string(b), &pid, &start); err != nil {
			continue
		}
		if p, err := hostproc.Read(pid); err == nil && p.StartTime == start {
			continue
		}
		_ = cleanUp(dir)
	}
}

// CleanUp kills every process of the engine in dir, and removes its mounts, cgroups and files.
func CleanUp(dir string) error {
	var errs []error
	if err := killAll(dir); err != nil {
		errs = append(errs, err)
	}
	for _, m := range mounts(dir) {
		if err := syscall.Unmount(m, syscall.MNT_DETACH); err != nil && !errors.Is(err, syscall.EINVAL) {
			errs = append(errs, fmt.Errorf("cannot unmount %s: %w", m, err))
		}
	}
	removeCgroups(filepath.Base(dir))
	return errors.Join(append(errs, os.RemoveAll(dir))...)
}

// killAll kills until no process is left: one may start another before it is killed.
func killAll(dir string) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	deadline := time.Now().Add(stopTimeout)
	for {
		pids := processesOf(dir)
		if len(pids) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("cannot end the processes %v of %s", pids, dir)
		}
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		<-tick.C
	}
}

// processesOf finds an engine, its shims, runc and what holds its root by dir in their arguments,
// and those of containers as their children.
func processesOf(dir string) []int {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	parent, pids := map[int]int{}, []int(nil)
	for _, d := range dirs {
		pid, err := strconv.Atoi(filepath.Base(d))
		if err != nil || pid == os.Getpid() {
			continue
		}
		p, err := hostproc.Read(pid)
		if err != nil || !p.Alive() {
			continue
		}
		parent[pid] = p.PPID
		args, _ := os.ReadFile(filepath.Join(d, "cmdline"))
		name, _, _ := bytes.Cut(args, []byte{0})
		switch filepath.Base(string(name)) {
		case "dockerd", "containerd", "containerd-shim-runc-v2", "docker-init", "runc", "podman", "conmon", "tail":
			if bytes.Contains(args, []byte(dir+"/")) {
				pids = append(pids, pid)
			}
		}
	}
	for i := 0; i < len(pids); i++ {
		for pid, p := range parent {
			if p == pids[i] && !slices.Contains(pids, pid) {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// Freeze stops a process, and returns when all its threads are: each takes the signal when it
// next runs.
func Freeze(pid int) error {
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return err
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	deadline := time.Now().Add(stopTimeout)
	for !frozen(pid) {
		if time.Now().After(deadline) {
			return fmt.Errorf("process %d does not stop", pid)
		}
		<-tick.C
	}
	return nil
}

func frozen(pid int) bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	for _, file := range threads {
		b, err := os.ReadFile(file)
		if err != nil {
			return false
		}
		if f := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:]); len(f) == 0 || string(f[0]) != "T" {
			return false
		}
	}
	return len(threads) > 0
}

// mounts returns the mount points below dir, the innermost first.
func mounts(dir string) []string {
	b, _ := os.ReadFile("/proc/self/mountinfo")
	var found []string
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 4 && strings.HasPrefix(f[4], dir+"/") {
			found = append(found, f[4])
		}
	}
	slices.Sort(found)
	slices.Reverse(found)
	return found
}

// removeCgroups removes those of the containers. One is busy until the kernel has done with the
// processes that were killed in it.
func removeCgroups(name string) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(time.Second); time.Now().Before(deadline); <-tick.C {
		roots, _ := filepath.Glob("/sys/fs/cgroup/*/" + name)
		if _, err := os.Stat("/sys/fs/cgroup/" + name); err == nil {
			roots = append(roots, "/sys/fs/cgroup/"+name)
		}
		if len(roots) == 0 {
			return
		}
		for _, root := range roots {
			inner, _ := filepath.Glob(root + "/*")
			innermost, _ := filepath.Glob(root + "/*/*")
			for _, dir := range slices.Concat(innermost, inner, []string{root}) {
				_ = syscall.Rmdir(dir) // of the files none is removed
			}
		}
	}
}
