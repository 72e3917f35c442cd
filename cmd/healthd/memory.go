package main

import (
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// Go lets as much garbage gather as there is memory in use. Of a host with many containers most hardly changes, so healthd
// lets gather what it makes in some seconds: then the collector takes as much CPU in a quiet minute as when much happens.
const (
	startGarbage = 50 // per cent of what is in use, until all containers are known: much is read then
	usualGarbage = 12 << 20
	leastGarbage = 10 // per cent
	mostGarbage  = 100
	// garbageTime is how long is left between two collections, if the bounds above allow it. With ten thousand containers a
	// collection takes a quarter of a second of CPU.
	garbageTime  = 3 * time.Second
	garbageCheck = time.Second
	unusedCheck  = 20 * time.Second
	// leastUnused is how much healthd may hold for nothing, in bytes, and beside it a sixteenth of what is in use: the Go
	// runtime keeps a tenth of what it once needed.
	leastUnused = 4 << 20
)

// garbagePercent returns how much garbage may gather, in per cent of so many bytes in use, when so many are made in a second.
func garbagePercent(used, made uint64) int {
	gathers := max(usualGarbage, made*uint64(garbageTime/time.Second))
	return int(min(max(gathers*100/max(used, 1), leastGarbage), mostGarbage))
}

// garbage keeps healthd's memory small, unless whoever runs it has said how with GOGC.
type garbage struct {
	percent  int
	checked  time.Time // zero: not yet
	made     uint64    // in all, until then
	rate     float64   // bytes a second
	unusedAt time.Time // when what is unused is looked for next
	released bool      // the program's pages
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

// adjust looks once a garbageCheck what is in use and what is made, from when all containers are known. What the first lists of
// the engines took for a moment goes back to the kernel, which must not hold up a start.
func (g *garbage) adjust(now time.Time) {
	elapsed := now.Sub(g.checked)
	if elapsed < garbageCheck {
		return
	}
	heap := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/heap/allocs:bytes"}, {Name: "/memory/classes/heap/free:bytes"}}
	metrics.Read(heap)
	live, made, unused := heap[0].Value.Uint64(), heap[1].Value.Uint64(), heap[2].Value.Uint64()
	if !g.checked.IsZero() {
		g.note(float64(made-g.made) / elapsed.Seconds())
	}
	g.checked, g.made = now, made
	g.set(garbagePercent(live, uint64(g.rate)))
	if !g.released {
		g.released = true
		releaseProgram()
	}
	if now.Before(g.unusedAt) {
		return
	}
	g.unusedAt = now.Add(unusedCheck)
	if unused > leastUnused+live/16 {
		go debug.FreeOSMemory()
	}
}

// note takes in how much was made in the last second. A second in which the engine lists all its containers counts little,
// work that goes on counts.
func (g *garbage) note(rate float64) { g.rate += (rate - g.rate) / 4 }
