package main

import (
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// Go lets as much garbage gather as there is memory in use. Of a host with many containers most hardly changes, and
// less garbage costs little CPU: with ten thousand, 2,000 probes a second make 4 MB in a second.
const (
	startGarbage = 50 // per cent of what is in use, until all containers are known: much is read then
	usualGarbage = 12 << 20
	leastGarbage = 10 // per cent
	mostGarbage  = 100
	garbageCheck = 20 * time.Second
	// leastUnused is how much healthd may hold for nothing, in bytes, and beside it a sixteenth of what is in use: the Go
	// runtime keeps a tenth of what it once needed.
	leastUnused = 4 << 20
)

// garbagePercent returns how much garbage may gather, in per cent of so many bytes in use.
func garbagePercent(used uint64) int {
	return int(min(max(usualGarbage*100/max(used, 1), leastGarbage), mostGarbage))
}

// garbage keeps healthd's memory small, unless whoever runs it has said how with GOGC.
type garbage struct {
	percent  int
	nextAt   time.Time
	released bool // the program's pages
}

func newGarbage() *garbage {
	g := &garbage{}
	g.set(startGarbage)
	return g
}

func (g *garbage) set(percent int) {
	if percent != g.percent && os.Getenv("GOGC") == "" {
		g.percent = percent
		debug.SetGCPercent(percent)
	}
}

// adjust looks once a garbageCheck what is in use now, from when all containers are known. What the first lists of
// the engines took for a moment goes back to the kernel, which must not hold up a start.
func (g *garbage) adjust(now time.Time) {
	if now.Before(g.nextAt) {
		return
	}
	g.nextAt = now.Add(garbageCheck)
	if !g.released {
		g.released = true
		releaseProgram()
	}
	heap := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/free:bytes"}}
	metrics.Read(heap)
	live, unused := heap[0].Value.Uint64(), heap[1].Value.Uint64()
	g.set(garbagePercent(live))
	if unused > leastUnused+live/16 {
		go debug.FreeOSMemory()
	}
}
