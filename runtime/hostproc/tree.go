// Package hostproc finds and kills processes of this host by /proc: those of a command that
// an engine started in a container, with all that they started. Engines themselves end no
// more than the command's first process.
//
// What to kill, and when, is decided by the engine clients.
package hostproc

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// MarkVariable is set in a command's environment. It finds the command's processes that left
// its session and its tree.
const MarkVariable = "HEALTHD_EXEC"

// scanPause is the time between the first two scans of /proc, scanPauseMax between later
// ones.
const (
	scanPause    = 5 * time.Millisecond
	scanPauseMax = 100 * time.Millisecond
)

// Tree is a command inside a container as the host's /proc shows it: the root
// process, its descendants, its session, and all processes with its mark.
type Tree struct {
	Root   int
	Inside func(pid int) bool // whether a process is in the container
	Mark   string             // an entry of the environment; empty: none
}

// Kill kills all processes of the tree, and returns when none is left. It first stops
// them, until no new ones appear: a process can fork faster than /proc is scanned.
func (t Tree) Kill(ctx context.Context) error {
	root, err := Read(t.Root)
	if err != nil || !t.Inside(t.Root) {
		return fmt.Errorf("process %d of the engine's host cannot be seen from here", t.Root) // a remote engine
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
			foundNew = foundNew || !stopped[p.PID]
			stopped[p.PID] = true
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

// RootAlive says that the root is in /proc and has not ended.
func (t Tree) RootAlive() bool {
	p, err := Read(t.Root)
	return err == nil && t.Inside(t.Root) && p.Alive()
}

// RootEnded says that the root is not alive, and that this cannot be because /proc is that
// of another host: it shows other processes of the container.
func (t Tree) RootEnded() bool { return !t.RootAlive() && len(t.Processes()) > 0 }

// Orphaned says that processes with the tree's mark exist, and that the process which the
// engine started for them has ended. That process led their session, and its parent is
// outside the container.
func (t Tree) Orphaned() bool {
	if t.RootAlive() {
		return false
	}
	inside := map[int]Proc{}
	for _, p := range t.Processes() {
		inside[p.PID] = p
	}
	marked := false
	for _, p := range inside {
		if !p.Alive() || !t.marked(p.PID) {
			continue
		}
		marked = true
		leader, there := inside[p.Session]
		if _, child := inside[leader.PPID]; there && leader.Alive() && !child {
			return false
		}
	}
	return marked
}

// KillPipeHolders kills the container's processes that hold the output pipe of a command
// open and have a mark for which isLeftover is true.
func (t Tree) KillPipeHolders(ctx context.Context, isLeftover func(mark string) bool) error {
	for {
		all := t.Processes()
		pipes := enginePipes(all)
		found := false
		for _, p := range all {
			mark := MarkOf(p.PID)
			if mark == "" || !p.Alive() || !isLeftover(mark) || !holdsAny(p.PID, pipes) {
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
func enginePipes(inside []Proc) map[string]bool {
	is := map[int]bool{}
	for _, p := range inside {
		is[p.PID] = true
	}
	pipes, seen := map[string]bool{}, map[int]bool{}
	for _, p := range inside {
		if is[p.PPID] || seen[p.PPID] {
			continue
		}
		seen[p.PPID] = true
		for pipe := range pipesOf(p.PPID) {
			pipes[pipe] = true
		}
	}
	return pipes
}

// holdsAny says whether a process has one of the pipes open.
func holdsAny(pid int, pipes map[string]bool) bool {
	for pipe := range pipesOf(pid) {
		if pipes[pipe] {
			return true
		}
	}
	return false
}

// pipesOf yields the pipes that a process has open, e.g. "pipe:[1234]". It may have a million files open.
func pipesOf(pid int) func(yield func(string) bool) {
	const atOnce = 256
	return func(yield func(string) bool) {
		dir, err := os.Open(fmt.Sprintf("/proc/%d/fd", pid))
		if err != nil {
			return
		}
		defer dir.Close()
		for n := 0; n < maxDescriptors; n += atOnce {
			names, err := dir.Readdirnames(atOnce)
			for _, name := range names {
				if to, err := os.Readlink(filepath.Join(dir.Name(), name)); err == nil && strings.HasPrefix(to, "pipe:") && !yield(to) {
					return
				}
			}
			if err != nil {
				return
			}
		}
	}
}

// Processes returns the processes of the container that /proc shows.
func (t Tree) Processes() []Proc {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	var all []Proc
	for _, dir := range dirs {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil || !t.Inside(pid) {
			continue
		}
		if p, err := Read(pid); err == nil {
			all = append(all, p)
		}
	}
	return all
}

// find returns the living processes of the tree.
func (t Tree) find(root Proc) []Proc {
	children := map[int][]Proc{}
	var found []Proc
	member := map[int]bool{}
	for _, p := range t.Processes() {
		if p.StartTime < root.StartTime {
			continue // older than the command
		}
		children[p.PPID] = append(children[p.PPID], p)
		if (p.PID == root.PID && p.StartTime == root.StartTime) || p.Session == root.PID || t.marked(p.PID) {
			member[p.PID] = true
			found = append(found, p)
		}
	}
	for i := 0; i < len(found); i++ {
		for _, c := range children[found[i].PID] {
			if !member[c.PID] {
				member[c.PID] = true
				found = append(found, c)
			}
		}
	}
	return slices.DeleteFunc(found, func(p Proc) bool { return !p.Alive() })
}

// signal sends sig to p, and to no other process that was given p's PID meanwhile.
func (t Tree) signal(p Proc, sig unix.Signal) error {
	fd, err := unix.PidfdOpen(p.PID, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot signal process %d: %w", p.PID, err)
	}
	defer unix.Close(fd)
	if now, err := Read(p.PID); err != nil || now.StartTime != p.StartTime {
		return nil
	}
	if err := unix.PidfdSendSignal(fd, sig, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("cannot signal process %d: %w", p.PID, err)
	}
	return nil
}

func (t Tree) marked(pid int) bool { return t.Mark != "" && MarkOf(pid) == t.Mark }

// MarkOf returns the mark in a process's environment; empty when it has none.
func MarkOf(pid int) string {
	mark, _ := fromMemory(fmt.Sprintf("/proc/%d/environ", pid), markIn)
	return mark
}

// markIn returns the mark among variables. A process can make gigabytes of them.
func markIn(environ io.Reader) string {
	begin := []byte("\x00" + MarkVariable + "=")
	r := bufio.NewReaderSize(io.MultiReader(bytes.NewReader(begin[:1]), io.LimitReader(environ, maxEnviron)), 4*maxMark)
	for {
		window, err := r.Peek(r.Size())
		at := bytes.Index(window, begin)
		switch {
		case at < 0 && err != nil:
			return ""
		case at < 0:
			_, _ = r.Discard(len(window) - len(begin))
		case at+maxMark >= len(window) && err == nil: // its end is not here yet
			_, _ = r.Discard(at)
		default:
			mark, _, ends := bytes.Cut(window[at+1:], []byte{0})
			if len(mark) <= maxMark && (ends || err != nil) {
				return string(mark)
			}
			_, _ = r.Discard(at + 1)
		}
	}
}
