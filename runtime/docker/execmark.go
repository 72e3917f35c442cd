package docker

import (
	"crypto/rand"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// owner is who runs a command: an Engine of a process. Another healthd's commands are
// not ours to end while it lives.
type owner struct {
	pids  string // the namespace of pid; a process of another one cannot be seen
	pid   int
	start uint64 // of the process
	id    string // of the Engine
}

func newOwner() owner {
	o := owner{pids: pidNamespace(), pid: os.Getpid(), id: rand.Text()}
	if p, err := readProc(o.pid); err == nil {
		o.start = p.start
	}
	return o
}

func pidNamespace() string {
	name, _ := os.Readlink("/proc/self/ns/pid") // "pid:[4026531836]"
	return strings.Trim(name, "pid:[]")
}

// ended says that the owner's process is known to be no more.
func (o owner) ended() bool {
	if o.pids == "" || o.pids != pidNamespace() || o.start == 0 {
		return false
	}
	p, err := readProc(o.pid)
	return os.IsNotExist(err) || err == nil && p.start != o.start
}

// mark is what a command's environment says of it.
type mark struct {
	owner   owner
	lasting bool
}

// newMark returns a mark that no other command has.
func (e *Engine) newMark(timeout time.Duration) string {
	kind := "probe"
	if timeout == noTimeout {
		kind = lasting
	}
	o := e.owner
	return fmt.Sprintf("%s=%s:%s:%d:%d:%s:%s", marker, kind, o.pids, o.pid, o.start, o.id, rand.Text())
}

// readMark understands a mark. Environments are written by anybody: what is not of our
// form is none.
func readMark(text string) (mark, bool) {
	f := strings.Split(strings.TrimPrefix(text, marker+"="), ":")
	if len(f) != 6 || f[0] != "probe" && f[0] != lasting {
		return mark{}, false
	}
	pid, err := strconv.Atoi(f[2])
	if err != nil {
		return mark{}, false
	}
	start, err := strconv.ParseUint(f[3], 10, 64)
	return mark{owner{f[1], pid, start, f[4]}, f[0] == lasting}, err == nil
}
