package docker

import (
	"crypto/rand"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"healthd/runtime/hostproc"
)

// owner is the Engine of the process that runs a command. While that process lives,
// another healthd must not kill its commands.
type owner struct {
	pidNamespace string // the namespace of pid; processes of another one are not visible
	pid          int
	startTime    uint64 // of the process
	id           string // of the Engine
}

func newOwner() owner {
	o := owner{pidNamespace: pidNamespace(), pid: os.Getpid(), id: rand.Text()}
	if p, err := hostproc.Read(o.pid); err == nil {
		o.startTime = p.StartTime
	}
	return o
}

func pidNamespace() string {
	name, _ := os.Readlink("/proc/self/ns/pid") // "pid:[4026531836]"
	return strings.Trim(name, "pid:[]")
}

// ended says that the owner's process is known to be no more.
func (o owner) ended() bool {
	if o.pidNamespace == "" || o.pidNamespace != pidNamespace() || o.startTime == 0 {
		return false
	}
	p, err := hostproc.Read(o.pid)
	return os.IsNotExist(err) || err == nil && p.StartTime != o.startTime
}

// mark is what hostproc.MarkVariable says about a command.
type mark struct {
	owner     owner
	noTimeout bool
}

// newMark returns an entry for a command's environment that no other command has.
func (e *Engine) newMark(timeout time.Duration) string {
	kind := "probe"
	if timeout == noTimeout {
		kind = markNoTimeout
	}
	o := e.owner
	return fmt.Sprintf("%s=%s:%s:%d:%d:%s:%s", hostproc.MarkVariable, kind, o.pidNamespace, o.pid, o.startTime, o.id, rand.Text())
}

// parseMark parses a mark. It returns false for other values: anybody may set the
// variable.
func parseMark(text string) (mark, bool) {
	f := strings.Split(strings.TrimPrefix(text, hostproc.MarkVariable+"="), ":")
	if len(f) != 6 || f[0] != "probe" && f[0] != markNoTimeout {
		return mark{}, false
	}
	pid, err := strconv.Atoi(f[2])
	if err != nil {
		return mark{}, false
	}
	start, err := strconv.ParseUint(f[3], 10, 64)
	return mark{owner{f[1], pid, start, f[4]}, f[0] == markNoTimeout}, err == nil
}
