package enginetest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// MountCgroups mounts the hierarchies of cgroups (version 1) that the kernel has and the host has not mounted. They
// come from a systemd that ran in a container, and stay for as long as one of its groups does. Meanwhile shims of
// containerd cannot read any cgroup of a container, so that no engine is told when one lacks memory.
func MountCgroups() error {
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return err
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	var errs []error
	for _, controllers := range unmounted(string(own), string(mounts)) {
		dir := filepath.Join("/sys/fs/cgroup", controllers)
		err := os.MkdirAll(dir, 0o755)
		if err == nil {
			err = syscall.Mount("cgroup", dir, "cgroup", 0, controllers)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("cannot mount the cgroups of %s: %w", controllers, err))
		}
	}
	return errors.Join(errs...)
}

// unmounted returns the controllers of the hierarchies in a /proc/PID/cgroup that a mountinfo does not have.
func unmounted(cgroup, mountinfo string) (missing []string) {
	mounted := map[string]bool{}
	for line := range strings.Lines(mountinfo) {
		_, about, _ := strings.Cut(line, " - ")
		if f := strings.Fields(about); len(f) == 3 && f[0] == "cgroup" {
			for option := range strings.SplitSeq(f[2], ",") {
				mounted[option] = true
			}
		}
	}
	for line := range strings.Lines(cgroup) {
		f := strings.SplitN(line, ":", 3)
		if len(f) < 3 || f[1] == "" || strings.HasPrefix(f[1], "name=") {
			continue
		}
		if first, _, _ := strings.Cut(f[1], ","); !mounted[first] {
			missing = append(missing, f[1])
		}
	}
	return missing
}
