package main

import (
	"os"
	"runtime/debug"
)

// garbagePercent is how much garbage there may be, in per cent of what is in use. Go's own 100 would double
// the memory of a host with many containers, most of which hardly changes; collecting more often costs
// about a fiftieth of the CPU.
const garbagePercent = 40

// boundGarbage keeps healthd's memory small, unless whoever runs it has said how with GOGC, and returns to
// the kernel what the first lists of the engines took for a moment. A start must not wait for that.
func boundGarbage() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(garbagePercent)
	}
	go debug.FreeOSMemory()
}
