package main

import (
	"context"
	"os"
	"strings"
	"sync"

	"go.uber.org/zap"

	"healthd/runtime"
	"healthd/supervisor/journal"
)

// runJournal writes the journal to the disk and its events to the log. stop ends both after
// everything is written; the log comes last, because it may have to report the disk.
func (d *daemon) runJournal(ctx context.Context) (stop func()) {
	keeping, stopKeeping := context.WithCancel(ctx)
	logging, stopLogging := context.WithCancel(ctx)
	var keeper, logger sync.WaitGroup
	logger.Go(func() { d.journal.Log(logging, d.log) })
	keeper.Go(func() {
		if err := d.journal.Run(keeping); err != nil {
			d.log.Error("the journal is not complete", zap.Error(err))
		}
	})
	return func() {
		stopKeeping()
		keeper.Wait()
		stopLogging()
		logger.Wait()
	}
}

// acknowledgeBoots notes the host's boot for each engine that is in sync. When the daemon is
// killed before, the next one still sees that the host was rebooted. An engine that does not come
// holds up no other one: what was stopped there since would be started again at each start of healthd.
func (d *daemon) acknowledgeBoots(ctx context.Context, taken map[string]bool) {
	for _, r := range d.supervisor.Board().Runtimes() {
		if !r.Synced || taken[r.Name] {
			continue
		}
		if err := d.supervisor.Ping(ctx); err == nil { // all that follows is remembered by now
			d.journal.BootTaken(r.Name)
			taken[r.Name] = true
		}
	}
}

// knownRuns returns which runs of a runtime's containers the last daemon knew, and which of
// them went on.
func knownRuns(j *journal.Journal, name string) func(id string) (runtime.Run, bool) {
	type knownRun struct {
		run   runtime.Run
		alive bool
	}
	known := make(map[string]knownRun)
	for _, m := range j.Memories() {
		if m.Runtime == name {
			known[m.ID] = knownRun{m.Run.ID, m.Engine.State.Alive()}
		}
	}
	return func(id string) (runtime.Run, bool) { return known[id].run, known[id].alive }
}

// bootID returns the kernel's ID of the host's present boot; empty when it is unknown.
func bootID() string {
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(id))
}

// wasRebooted says that the host is known to have been rebooted since an earlier daemon.
func wasRebooted(before, now string) bool {
	return before != "" && now != "" && before != now
}
