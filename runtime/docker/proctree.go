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

// scanPause is the time between the first two scans of /proc, scanPauseMax between later
// ones.
const (
	scanPause    = 5 * time.Millisecond
	scanPauseMax = 100 * time.Millisecond
)

// processTree is a command inside a container as the host's /proc shows it: the root
// process, its descendants, its session, and all processes with its mark.
type processTree struct {
	root      int
	container string // full ID
	mark      string // an entry of the environment
}

// proc is one process, with the fields of proc(5).
type proc struct {
	pid, ppid, session int
	state              byte
	startTime          uint64 // in clock ticks since the boot
}

// kill kills all processes of the tree, and returns when none is left. It first stops
// them, until no new ones appear: a process can fork faster than /proc is scanned.
func (t processTree) kill(ctx context.Context) error {
	root, err := readProc(t.root)
	if err != nil || !t.contains(t.root) {
		return fmt.Errorf("process %d of the engine's host cannot be seen from here", t.root) // a remote engine
	}
	stopped := map[int]bool{}
	sig, pause := unix.SIGSTOP, scanPause
	for {
		found := t.find(root)
		if len(found) == 0 {
			return nil
		}
		foundNew := false
		var signalErr error // must not leave the others stopped
		for _, p := range found {
			foundNew = foundNew || !stopped[p.pid]
			stopped[p.pid] = true
			signalErr = errors.Join(signalErr, t.signal(p, sig))
		}
		switch {
		case sig == unix.SIGSTOP && foundNew && signalErr == nil && ctx.Err() == nil:
			continue
		case sig == unix.SIGSTOP:
			sig = unix.SIGKILL
			continue
		case signalErr != nil:
			return signalErr
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d processes of the command are still there: %w", len(found), ctx.Err())
		case <-time.After(pause):
			pause = min(2*pause, scanPauseMax)
		}
	}
}

// rootAlive says that the root is in /proc and has not ended.
func (t processTree) rootAlive() bool {
	p, err := readProc(t.root)
	return err == nil && t.contains(t.root) && p.alive()
}

// rootEnded says that the root is not alive, and that this cannot be because /proc is that
// of another host: it shows other processes of the container.
func (t processTree) rootEnded() bool { return !t.rootAlive() && len(t.processes()) > 0 }

// orphaned says that processes with the tree's mark exist, and that the process which the
// engine started for them has ended. That process led their session, and its parent is
// outside the container.
func (t processTree) orphaned() bool {
	if t.rootAlive() {
		return false
	}
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

// killPipeHolders kills the container's processes that hold the output pipe of a command
// open and have a mark for which isLeftover is true.
func (t processTree) killPipeHolders(ctx context.Context, isLeftover func(mark string) bool) error {
	for {
		all := t.processes()
		pipes := enginePipes(all)
		found := false
		for _, p := range all {
			mark := markOf(p.pid)
			if mark == "" || !p.alive() || !isLeftover(mark) || !holdsAny(p.pid, pipes) {
				continue
			}
			found = true
			if err := t.signal(p, unix.SIGKILL); err != nil {
				return err
			}
		}
		if !found {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(scanPause):
		}
	}
}

// enginePipes returns the pipes of the processes outside the container that started
// those inside: the engine's, which reads the commands' output from them.
func enginePipes(inside []proc) map[string]bool {
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

// holdsAny says whether a process has one of the pipes open.
func holdsAny(pid int, pipes map[string]bool) bool {
	return slices.ContainsFunc(pipesOf(pid), func(pipe string) bool { return pipes[pipe] })
}

// pipesOf returns the pipes that a process has open, e.g. "pipe:[1234]".
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

// processes returns the processes of the container that /proc shows.
func (t processTree) processes() []proc {
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
func (t processTree) find(root proc) []proc {
	children := map[int][]proc{}
	var found []proc
	member := map[int]bool{}
	for _, p := range t.processes() {
		if p.startTime < root.startTime {
			continue // older than the command
		}
		children[p.ppid] = append(children[p.ppid], p)
		if (p.pid == root.pid && p.startTime == root.startTime) || p.session == root.pid || t.marked(p.pid) {
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

// signal sends sig to p, and to no other process that was given p's PID meanwhile.
func (t processTree) signal(p proc, sig unix.Signal) error {
	fd, err := unix.PidfdOpen(p.pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot signal process %d: %w", p.pid, err)
	}
	defer unix.Close(fd)
	if now, err := readProc(p.pid); err != nil || now.startTime != p.startTime {
		return nil
	}
	if err := unix.PidfdSendSignal(fd, sig, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("cannot signal process %d: %w", p.pid, err)
	}
	return nil
}

// contains says whether the process is in the container: its cgroup has the container's
// ID in its path. With a remote engine the PID may belong to any process of this host.
func (t processTree) contains(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	return err == nil && t.container != "" && bytes.Contains(b, []byte(t.container))
}

func (t processTree) marked(pid int) bool { return t.mark != "" && markOf(pid) == t.mark }

// markOf returns the mark in a process's environment; empty when it has none.
func markOf(pid int) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		return ""
	}
	for entry := range bytes.SplitSeq(b, []byte{0}) {
		if bytes.HasPrefix(entry, []byte(markVariable+"=")) {
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

// parseStat parses /proc/PID/stat, whose second field may contain spaces and ")".
func parseStat(pid int, b []byte) (proc, error) {
	f := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	if len(f) < 20 {
		return proc{}, fmt.Errorf("cannot read the state of process %d", pid)
	}
	ppid, err1 := strconv.Atoi(string(f[1]))
	session, err2 := strconv.Atoi(string(f[3]))
	start, err3 := strconv.ParseUint(string(f[19]), 10, 64)
	return proc{pid: pid, ppid: ppid, session: session, state: f[0][0], startTime: start}, errors.Join(err1, err2, err3)
}
