package docker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// scanPause lies between two looks for processes that are still there.
const scanPause = 5 * time.Millisecond

// tree is a command inside a container, as seen from the host: its process, what
// descends from it, what is in its session and what carries its mark.
type tree struct {
	root      int
	container string // full ID
	mark      string // an entry of the environment
}

// proc is one process, in the words of proc(5).
type proc struct {
	pid, ppid, session int
	state              byte
	start              uint64 // in clock ticks since the boot
}

// kill ends all of the tree, and returns when nothing is left of it. They are
// stopped first until no new ones appear, because a process can have children
// faster than it is found.
func (t tree) kill(ctx context.Context) error {
	root, err := readProc(t.root)
	if err != nil || !t.contains(t.root) {
		return fmt.Errorf("process %d of the engine's host cannot be seen from here", t.root)
	}
	stopped := map[int]bool{}
	sig := unix.SIGSTOP
	for {
		found := t.find(root)
		if len(found) == 0 {
			return nil
		}
		fresh := false
		for _, p := range found {
			fresh = fresh || !stopped[p.pid]
			stopped[p.pid] = true
			if err := t.signal(p, sig); err != nil {
				return err
			}
		}
		if !fresh {
			sig = unix.SIGKILL
		}
		if sig == unix.SIGSTOP {
			continue
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d processes of the command are still there: %w", len(found), ctx.Err())
		case <-time.After(scanPause):
		}
	}
}

// find returns the living processes of the tree.
func (t tree) find(root proc) []proc {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	children := map[int][]proc{}
	var found []proc
	member := map[int]bool{}
	for _, dir := range dirs {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			continue
		}
		p, err := readProc(pid)
		// What is older than the command is none of it.
		if err != nil || p.start < root.start || !t.contains(pid) {
			continue
		}
		children[p.ppid] = append(children[p.ppid], p)
		if (pid == root.pid && p.start == root.start) || p.session == root.pid || t.marked(pid) {
			member[pid] = true
			found = append(found, p)
		}
	}
	for i := 0; i < len(found); i++ {
		for _, c := range children[found[i].pid] {
			if !member[c.pid] {
				member[c.pid] = true
				found = append(found, c)
			}
		}
	}
	living := found[:0]
	for _, p := range found {
		if p.state != 'Z' && p.state != 'X' {
			living = append(living, p)
		}
	}
	return living
}

// signal reaches p or nobody: a pid that was given to another process meanwhile
// is left alone.
func (t tree) signal(p proc, sig unix.Signal) error {
	fd, err := unix.PidfdOpen(p.pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot signal process %d: %w", p.pid, err)
	}
	defer unix.Close(fd)
	if now, err := readProc(p.pid); err != nil || now.start != p.start {
		return nil
	}
	if err := unix.PidfdSendSignal(fd, sig, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("cannot signal process %d: %w", p.pid, err)
	}
	return nil
}

// contains says whether the process is in the container: its control group bears
// the container's ID. With a remote engine a pid may be anybody's here.
func (t tree) contains(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	return err == nil && t.container != "" && bytes.Contains(b, []byte(t.container))
}

func (t tree) marked(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	return err == nil && bytes.Contains(b, []byte(t.mark))
}

func readProc(pid int) (proc, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return proc{}, err
	}
	return parseStat(pid, b)
}

// parseStat reads /proc/PID/stat, whose second field may contain anything.
func parseStat(pid int, b []byte) (proc, error) {
	f := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	if len(f) < 20 {
		return proc{}, fmt.Errorf("cannot read the state of process %d", pid)
	}
	ppid, err1 := strconv.Atoi(string(f[1]))
	session, err2 := strconv.Atoi(string(f[3]))
	start, err3 := strconv.ParseUint(string(f[19]), 10, 64)
	return proc{pid: pid, ppid: ppid, session: session, state: f[0][0], start: start}, errors.Join(err1, err2, err3)
}
