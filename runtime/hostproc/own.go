package hostproc

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// OwnContainer returns the full ID of the container that this process runs in, and nothing if it
// seems to run in none. An engine that does not know the ID is not the one whose container it is. One that uses
// another's network cannot always be told from that: Docker gives both the same files in /etc.
func OwnContainer() string {
	cgroup, _ := readFile("/proc/self/cgroup", maxCgroup)
	mounts, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return ownContainer(string(cgroup), strings.NewReader(""))
	}
	defer mounts.Close()
	return ownContainer(string(cgroup), mounts)
}

// ownContainer prefers the cgroup's path, which shows nothing in a cgroup namespace.
func ownContainer(cgroup string, mounts io.Reader) string {
	for line := range strings.Lines(cgroup) {
		if id := lastID(line); id != "" {
			return id
		}
	}
	for lines := bufio.NewScanner(io.LimitReader(mounts, maxMounts)); lines.Scan(); { // each container of the host may be in it
		// Engines mount these from a directory of the container.
		f := strings.Fields(lines.Text())
		if len(f) > 4 && slices.Contains([]string{"/etc/hostname", "/etc/hosts", "/etc/resolv.conf"}, f[4]) {
			if id := lastID(f[3]); id != "" {
				return id
			}
		}
	}
	return ""
}

// Beside says whether a process is in the cgroups of this one, as all of a container are.
func Beside(pid int) bool {
	own, err := readFile("/proc/self/cgroup", maxCgroup)
	other, err2 := readFile(fmt.Sprintf("/proc/%d/cgroup", pid), maxCgroup)
	return err == nil && err2 == nil && len(own) > 0 && bytes.Equal(own, other)
}

// lastID returns the last part of a path that is a full ID, or docker-ID.scope.
func lastID(path string) string {
	parts := strings.Split(strings.TrimSpace(path), "/")
	for _, part := range slices.Backward(parts) {
		part = strings.TrimSuffix(part, ".scope")
		if id := part[strings.LastIndexByte(part, '-')+1:]; IsFullID(id) {
			return id
		}
	}
	return ""
}
