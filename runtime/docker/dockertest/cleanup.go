package dockertest

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
)

const dirPrefix = "hdt"

// writeOwner writes which process made dir, so that another test binary can see whether
// that process is gone.
func writeOwner(dir string, n network) error {
	start, err := startTime(os.Getpid())
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "owner"), fmt.Appendf(nil, "%d %s %s\n", os.Getpid(), start, n.bridge), 0o600)
}

// cleanUpAbandoned cleans up after test binaries that died before they could, for example
// at go test's timeout.
func cleanUpAbandoned() {
	dirs, _ := filepath.Glob(filepath.Join(os.TempDir(), dirPrefix+"*"))
	for _, dir := range dirs {
		b, err := os.ReadFile(filepath.Join(dir, "owner"))
		if err != nil {
			continue
		}
		f := strings.Fields(string(b))
		if len(f) != 3 {
			continue
		}
		pid, err := strconv.Atoi(f[0])
		if err != nil {
			continue
		}
		if start, err := startTime(pid); err == nil && start == f[1] {
			continue
		}
		_ = cleanUp(dir)
	}
}

// cleanUp kills every process of the engine in dir, and removes its mounts, cgroups, bridge
// and files. It finds the processes by dir in their arguments, and those of containers as
// their children.
func cleanUp(dir string) error {
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
	if b, err := os.ReadFile(filepath.Join(dir, "owner")); err == nil {
		if f := strings.Fields(string(b)); len(f) == 3 {
			errs = append(errs, network{bridge: f[2]}.remove())
		}
	}
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

func processesOf(dir string) []int {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	parent, pids := map[int]int{}, []int(nil)
	for _, d := range dirs {
		pid, err := strconv.Atoi(filepath.Base(d))
		if err != nil || pid == os.Getpid() {
			continue
		}
		f, err := statFields(pid)
		if err != nil || f[0] == "Z" {
			continue
		}
		parent[pid], _ = strconv.Atoi(f[1])
		args, _ := os.ReadFile(filepath.Join(d, "cmdline"))
		name, _, _ := bytes.Cut(args, []byte{0})
		switch filepath.Base(string(name)) {
		case "dockerd", "containerd", "containerd-shim-runc-v2", "docker-init", "runc":
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

func startTime(pid int) (string, error) {
	f, err := statFields(pid)
	if err != nil {
		return "", err
	}
	return f[19], nil
}

// statFields returns the fields of /proc/PID/stat from the third on.
func statFields(pid int) ([]string, error) {
	return parseStat(fmt.Sprintf("/proc/%d/stat", pid))
}

func parseStat(file string) ([]string, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(f) < 20 {
		return nil, fmt.Errorf("cannot read %s", file)
	}
	return f, nil
}

// stopped returns nil when all threads of the process are stopped.
func checkStopped(pid int) error {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil {
		return err
	}
	for _, file := range threads {
		f, err := parseStat(file)
		if err != nil {
			return err
		}
		if f[0] != "T" {
			return fmt.Errorf("a thread of process %d is in state %s", pid, f[0])
		}
	}
	return nil
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

func removeCgroups(name string) {
	roots, _ := filepath.Glob("/sys/fs/cgroup/*/" + name)
	for _, root := range append(roots, "/sys/fs/cgroup/"+name) {
		inner, _ := filepath.Glob(root + "/*/")
		for _, dir := range append(inner, root) {
			_ = syscall.Rmdir(strings.TrimSuffix(dir, "/"))
		}
	}
}
