package main

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// sample is what healthd holds at one moment, and what happened since the one before.
type sample struct {
	at          time.Duration // since the first one was due
	resident    float64       // MB
	heap        float64       // in use, garbage and holes included, MB
	live        float64       // of the heap, MB
	goroutines  float64
	descriptors float64
	cpu         float64 // since the sample before, in per cent of a core
	journal     float64 // size of the state directory's files, MB
	marks       []string
}

// sampleColumns are those of the file.
var sampleColumns = []string{"seconds", "resident_mb", "heap_mb", "live_mb", "goroutines", "descriptors", "cpu_percent", "journal_mb", "marks"}

func (s *sample) row() []string {
	row := []string{strconv.FormatFloat(s.at.Seconds(), 'f', 1, 64)}
	for _, v := range []float64{s.resident, s.heap, s.live, s.goroutines, s.descriptors, s.cpu, s.journal} {
		row = append(row, strconv.FormatFloat(v, 'f', -1, 64))
	}
	return append(row, strings.Join(s.marks, ";"))
}

// sampler takes samples of a rig's healthd at equal distances, and writes each to a file at once, as bench/plot reads it: a
// run that breaks off leaves what it has.
type sampler struct {
	rig   *rig
	title string // of the file
	every time.Duration

	mu    sync.Mutex
	all   []sample
	marks []string // since the last sample
}

// mark notes that something happened that the samples may show.
func (s *sampler) mark(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.marks = append(s.marks, what)
}

// between returns the samples of a stretch of time.
func (s *sampler) between(from, to time.Duration) (some []sample) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.all {
		if from <= one.at && one.at < to {
			some = append(some, one)
		}
	}
	return some
}

// run takes samples until ctx ends.
func (s *sampler) run(ctx context.Context, w io.Writer) error {
	if _, err := fmt.Fprintf(w, "# %s\n", s.title); err != nil {
		return err
	}
	out := csv.NewWriter(w)
	if err := out.Write(sampleColumns); err != nil {
		return err
	}
	before, err := s.rig.usage()
	if err != nil {
		return err
	}
	began, tick := time.Now(), time.NewTicker(s.every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		one, used, err := s.take(before)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		before, one.at = used, used.at.Sub(began)
		s.mu.Lock()
		one.marks, s.marks = s.marks, nil
		s.all = append(s.all, one)
		s.mu.Unlock()
		if err := out.Write(one.row()); err != nil {
			return err
		}
		if out.Flush(); out.Error() != nil {
			return out.Error()
		}
	}
}

func (s *sampler) take(before usage) (sample, usage, error) {
	used, usageErr := s.rig.usage()
	mem, memErr := s.rig.memory()
	heap, heapErr := s.rig.heap()
	goroutines, descriptors, insideErr := s.rig.inside()
	journal, journalErr := sizeOf(s.rig.path("state"))
	return sample{
		resident: mem.resident, heap: heap.inUse, live: heap.live, journal: journal, goroutines: float64(goroutines), descriptors: float64(descriptors),
		cpu: 100 * (used.total() - before.total()).Seconds() / max(used.at.Sub(before.at).Seconds(), 0.001),
	}, used, errors.Join(usageErr, memErr, heapErr, insideErr, journalErr)
}

// sizeOf is how much the files of a directory take, in MB.
func sizeOf(dir string) (float64, error) {
	total := 0.0
	err := filepath.WalkDir(dir, func(_ string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if errors.Is(err, os.ErrNotExist) {
			return nil // it has been replaced meanwhile
		}
		if err == nil {
			total += float64(info.Size()) / 1e6
		}
		return err
	})
	return total, err
}
