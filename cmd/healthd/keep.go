package main

import (
	"context"
	"os"
	"strings"
	"sync"

	"go.uber.org/zap"
)

// keep writes what is recorded and remembered to the disk and to the log. What it
// returns ends that when all has been written, the log last, as the disk may fail.
func (d *daemon) keep(ctx context.Context) (stop func()) {
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

// takeBoot notes the host's boot when every engine has told all that it runs: a daemon
// that is killed before leaves it to the next one that the host was started.
func (d *daemon) takeBoot(ctx context.Context) {
	if err := d.supervisor.Ping(ctx); err == nil { // all that follows is remembered by now
		d.journal.BootTaken()
	}
}

// bootID names the present boot of the host. It is empty when the kernel does not say.
func bootID() string {
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(id))
}

// rebooted says that the host was started since an earlier daemon, if that is known.
func rebooted(before, now string) bool {
	return before != "" && now != "" && before != now
}
