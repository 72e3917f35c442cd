package hostproc

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Tick is the unit of Proc.StartTime, the same on all of Go's Linux ports.
const Tick = 10 * time.Millisecond

// Proc is one process, with the fields of proc(5).
type Proc struct {
	PID, PPID, Session int
	State              byte
	StartTime          uint64 // in clock ticks since the boot
}

// Alive says that the process has not ended.
func (p Proc) Alive() bool { return p.State != 'Z' && p.State != 'X' }

// Read returns what /proc shows of a process.
func Read(pid int) (Proc, error) {
	b, err := readFile(fmt.Sprintf("/proc/%d/stat", pid), maxStat)
	if err != nil {
		return Proc{}, err
	}
	return parseStat(pid, b)
}

// parseStat parses /proc/PID/stat, whose second field may contain spaces and ")".
func parseStat(pid int, b []byte) (Proc, error) {
	f := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	if len(f) < 20 {
		return Proc{}, fmt.Errorf("cannot read the state of process %d", pid)
	}
	ppid, err1 := strconv.Atoi(string(f[1]))
	session, err2 := strconv.Atoi(string(f[3]))
	start, err3 := strconv.ParseUint(string(f[19]), 10, 64)
	return Proc{PID: pid, PPID: ppid, Session: session, State: f[0][0], StartTime: start}, errors.Join(err1, err2, err3)
}

// InContainer says whether the process is in the container with that ID, which must be a full one:
// the path of its cgroup has a part such as ID, docker-ID.scope or libpod-ID.
func InContainer(pid int, id string) bool {
	return IsFullID(id) && hasContainer(cgroupOf(pid), func(of string) bool { return of == id })
}

// InAnyContainer says whether the process is in a container with a full ID.
func InAnyContainer(pid int) bool { return hasContainer(cgroupOf(pid), IsFullID) }

func cgroupOf(pid int) string {
	b, _ := readFile(fmt.Sprintf("/proc/%d/cgroup", pid), maxCgroup)
	return string(b)
}

// hasContainer says whether is holds for the ID in a part of a cgroup's path.
func hasContainer(cgroup string, is func(id string) bool) bool {
	for part := range strings.FieldsFuncSeq(cgroup, func(r rune) bool { return r == '/' || r == '\n' }) {
		part = strings.TrimSuffix(part, ".scope")
		if is(part[strings.LastIndexByte(part, '-')+1:]) {
			return true
		}
	}
	return false
}

// IsFullID says that id has the form of those that Docker and Podman make. A name may have it, too.
func IsFullID(id string) bool { return fullID.MatchString(id) }

var fullID = regexp.MustCompile("^[0-9a-f]{64}$")

// SameCgroup returns a function that says whether a process is in the cgroup of the process pid,
// or in one inside it, in any hierarchy but the root of one.
func SameCgroup(pid int) func(int) bool {
	own := map[string]string{}
	for hierarchy, path := range cgroups(pid) {
		if path != "/" {
			own[hierarchy] = path
		}
	}
	return func(other int) bool {
		for hierarchy, path := range cgroups(other) {
			if own[hierarchy] != "" && strings.HasPrefix(path+"/", own[hierarchy]+"/") {
				return true
			}
		}
		return false
	}
}

// cgroups yields the hierarchies of /proc/PID/cgroup, and the path of the process in each.
func cgroups(pid int) func(yield func(hierarchy, path string) bool) {
	b, _ := readFile(fmt.Sprintf("/proc/%d/cgroup", pid), maxCgroup)
	return func(yield func(string, string) bool) {
		for line := range bytes.Lines(b) {
			f := strings.SplitN(strings.TrimSpace(string(line)), ":", 3)
			if len(f) == 3 && !yield(f[0]+":"+f[1], f[2]) {
				return
			}
		}
	}
}

// Alive says whether a process exists and has not ended.
func Alive(pid int) bool {
	p, err := Read(pid)
	return err == nil && p.Alive()
}
