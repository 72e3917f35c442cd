package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// usage is what a process has used so far.
type usage struct {
	at           time.Time
	user, kernel time.Duration
}

func (u usage) total() time.Duration { return u.user + u.kernel }

func (r *rig) usage() (usage, error) { return r.daemon.usage() }

func (p *process) usage() (usage, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.Process.Pid))
	if err != nil {
		return usage{}, err
	}
	f := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	ticks := func(b []byte) time.Duration {
		n, _ := strconv.Atoi(string(b))
		return time.Duration(n) * time.Second / 100 // USER_HZ
	}
	return usage{time.Now(), ticks(f[11]), ticks(f[12])}, nil
}

// memory is what healthd holds now, and at most since resetPeak, in MB.
type memory struct{ resident, peak float64 }

func (r *rig) memory() (memory, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", r.daemon.Process.Pid))
	if err != nil {
		return memory{}, err
	}
	defer f.Close()
	var m memory
	for lines := bufio.NewScanner(f); lines.Scan(); {
		key, value, _ := strings.Cut(lines.Text(), ":")
		kb, _ := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 64)
		switch key {
		case "VmHWM":
			m.peak = kb / 1000 * 1.024
		case "VmRSS":
			m.resident = kb / 1000 * 1.024
		}
	}
	return m, nil
}

func (r *rig) resetPeak() error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", r.daemon.Process.Pid), []byte("5"), 0)
}

// heap is what healthd's heap takes, in MB.
type heap struct {
	inUse float64 // pages with anything in them, garbage and holes included
	live  float64 // what the last collection of garbage left, and about 1 MB of stacks and the like
}

// garbagePercent is how much healthd lets the heap grow between two collections: cmd/healthd/memory.go.
const garbagePercent = 40

func (r *rig) heap() (heap, error) {
	var text string
	if err := r.get(r.control, "/debug/pprof/heap?debug=1", &text); err != nil {
		return heap{}, err
	}
	inUse, inUseErr := statistic(text, "HeapInuse")
	goal, goalErr := statistic(text, "NextGC")
	return heap{inUse: inUse / 1e6, live: goal / 1e6 / (1 + garbagePercent/100.0)}, errors.Join(inUseErr, goalErr)
}

// statistic returns a number of runtime.MemStats that is below the heap's profile.
func statistic(profile, name string) (value float64, err error) {
	_, rest, _ := strings.Cut(profile, "\n# "+name+" = ")
	if _, err := fmt.Sscan(rest, &value); err != nil {
		return 0, fmt.Errorf("the heap's profile does not tell %s: %w", name, err)
	}
	return value, nil
}

// inside is how many goroutines and descriptors healthd has.
func (r *rig) inside() (goroutines, descriptors int, err error) {
	var text string
	if err := r.get(r.control, "/debug/pprof/goroutine?debug=1", &text); err != nil {
		return 0, 0, err
	}
	_, _ = fmt.Sscanf(text, "goroutine profile: total %d", &goroutines)
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", r.daemon.Process.Pid))
	return goroutines, len(fds), err
}

// profile takes a CPU profile of so many seconds into a file.
func (r *rig) profile(dir, name string, seconds int) error {
	if dir == "" {
		return r.sleep(time.Duration(seconds) * time.Second)
	}
	for kind, path := range map[string]string{"cpu": fmt.Sprintf("/debug/pprof/profile?seconds=%d", min(seconds, 25)), "heap": "/debug/pprof/heap"} {
		var text string
		if err := r.get(r.control, path, &text); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name+"."+kind+".pprof"), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}
