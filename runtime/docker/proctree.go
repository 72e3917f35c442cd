package docker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
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
		var failed error // must not leave the others stopped
		for _, p := range found {
			fresh = fresh || !stopped[p.pid]
			stopped[p.pid] = true
			failed = errors.Join(failed, t.signal(p, sig))
		}
		switch {
		case sig == unix.SIGSTOP && fresh && failed == nil && ctx.Err() == nil:
			continue
		case sig == unix.SIGSTOP:
			sig = unix.SIGKILL
			continue
		case failed != nil:
			return failed
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d processes of the command are still there: %w", len(found), ctx.Err())
		case <-time.After(scanPause):
		}
	}
}

// lives says that the tree's root can be seen from here and has not ended.
func (t tree) lives() bool {
	p, err := readProc(t.root)
	return err == nil && t.contains(t.root) && p.alive()
}

// orphaned says that there are processes of the tree's mark and that the engine's
// own, from which they descend, has ended. That one led their session, and its parent
// is outside the container.
func (t tree) orphaned() bool {
	inside := map[int]proc{}
	for _, p := range t.processes() {
		inside[p.pid] = p
	}
	marked := false
	for _, p := range inside {
		if !p.alive() || !t.marked(p.pid) {
			continue
		}
		marked = true
		leader, there := inside[p.session]
		if _, child := inside[leader.ppid]; there && leader.alive() && !child {
			return false
		}
	}
	return marked
}

// sweep kills the processes of the container that bear a mark of which leftover is
// true and hold the output of a command open.
func (t tree) sweep(ctx context.Context, leftover func(mark string) bool) error {
	for {
		all := t.processes()
		pipes := outside(all)
		left := false
		for _, p := range all {
			mark := markOf(p.pid)
			if mark == "" || !p.alive() || !leftover(mark) || !holds(p.pid, pipes) {
				continue
			}
			left = true
			if err := t.signal(p, unix.SIGKILL); err != nil {
				return err
			}
		}
		if !left {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(scanPause):
		}
	}
}

// outside returns the pipes of those who started the container's processes: of the
// engine, which reads from them what commands write.
func outside(inside []proc) map[string]bool {
	is := map[int]bool{}
	for _, p := range inside {
		is[p.pid] = true
	}
	pipes, seen := map[string]bool{}, map[int]bool{}
	for _, p := range inside {
		if is[p.ppid] || seen[p.ppid] {
			continue
		}
		seen[p.ppid] = true
		for _, pipe := range pipesOf(p.ppid) {
			pipes[pipe] = true
		}
	}
	return pipes
}

// holds says whether a process has one of these pipes open.
func holds(pid int, pipes map[string]bool) bool {
	return slices.ContainsFunc(pipesOf(pid), func(pipe string) bool { return pipes[pipe] })
}

// pipesOf returns the pipes that a process has open, in the words of proc(5).
func pipesOf(pid int) []string {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	var pipes []string
	for _, file := range files {
		if to, err := os.Readlink(file); err == nil && strings.HasPrefix(to, "pipe:") {
			pipes = append(pipes, to)
		}
	}
	return pipes
}

// processes returns the processes of the container, as far as they can be seen.
func (t tree) processes() []proc {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	var all []proc
	for _, dir := range dirs {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil || !t.contains(pid) {
			continue
		}
		if p, err := readProc(pid); err == nil {
			all = append(all, p)
		}
	}
	return all
}

func (p proc) alive() bool { return p.state != 'Z' && p.state != 'X' }

// find returns the living processes of the tree.
func (t tree) find(root proc) []proc {
	children := map[int][]proc{}
	var found []proc
	member := map[int]bool{}
	for _, p := range t.processes() {
		if p.start < root.start {
			continue // what is older than the command is none of it
		}
		children[p.ppid] = append(children[p.ppid], p)
		if (p.pid == root.pid && p.start == root.start) || p.session == root.pid || t.marked(p.pid) {
			member[p.pid] = true
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
	return slices.DeleteFunc(found, func(p proc) bool { return !p.alive() })
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

func (t tree) marked(pid int) bool { return t.mark != "" && markOf(pid) == t.mark }

// markOf returns the mark in a process's environment; empty where there is none.
func markOf(pid int) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		return ""
	}
	for entry := range bytes.SplitSeq(b, []byte{0}) {
		if bytes.HasPrefix(entry, []byte(marker+"=")) {
			return string(entry)
		}
	}
	return ""
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
