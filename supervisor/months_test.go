package supervisor

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"healthd/supervisor/journal"
)

var monthsDays = flag.Int("months-days", 0, "how many days TestMonths plays, on a host with 480 containers; 0: three days with 96")

// TestMonths plays a host for days or months in virtual time: deploys, crashes, jobs, people and reloads;
// in the first third restarts of healthd and of the engine, too, which a leak could hide behind. In the
// last third nothing that healthd keeps may be more than in the second, and once all containers are gone,
// nothing of them may be left. It is the daemon without its servers: watcher, loop, prober, journal with
// its file, metrics, configuration. The world's engine answers the probes. It does not run
// beside other tests, whose memory it would measure.
//
//	go test ./supervisor -run 'Months$' -timeout 60m -v -args -months-days=90
func TestMonths(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-chaos runs it")
	}
	synctest.Test(t, func(t *testing.T) {
		days, services := *monthsDays, 60
		if days == 0 {
			days, services = 3, 12
		}
		playMonths(t, time.Duration(days)*24*time.Hour, services)
	})
}

// censusEvery is how often all is counted.
const censusEvery = 6 * time.Hour

func playMonths(t *testing.T, length time.Duration, services int) {
	h := newMonths(t, services)
	empty := h.sizesIn(time.Minute)
	h.populate()
	second, last := map[string]int{}, map[string]int{}
	began := time.Now()
	for at := censusEvery; at <= length; at += censusEvery {
		h.steady = at > length/3
		h.playUntil(began.Add(at))
		sizes := h.sizesIn(time.Nanosecond)
		switch {
		case at > 2*length/3:
			noteMost(last, sizes)
		case at > length/3:
			noteMost(second, sizes)
		}
		if at%(24*time.Hour) == 0 {
			t.Logf("day %d: %s, %d probes", at/(24*time.Hour), describeSizes(sizes), h.probes.Load())
		}
	}
	checkCounted(t, last)
	h.checkGrowth("in the second third", second, "in the last", last)
	if n := h.running(); n < services*replicas*9/10 {
		t.Errorf("%d of %d containers run at the end", n, services*replicas)
	}
	h.removeAll()
	h.checkGrowth("before there was a container", empty, "after the last one is gone", h.sizesIn(3*time.Hour))
	h.stopDaemon()
}

// playUntil has things happen until that time.
func (h *months) playUntil(end time.Time) {
	for {
		pause := time.Duration(1 + h.r.Int64N(int64(10*time.Minute)))
		if time.Now().Add(pause).After(end) {
			break
		}
		time.Sleep(pause)
		h.doPlanned()
		h.act()
	}
	time.Sleep(max(time.Until(end), time.Nanosecond))
}

// sizesIn counts all after a time, when all is quiet.
func (h *months) sizesIn(d time.Duration) map[string]int {
	h.t.Helper()
	pass(d)
	return h.sizes()
}

func noteMost(most, sizes map[string]int) {
	for name, n := range sizes {
		most[name] = max(most[name], n)
	}
}

// checkGrowth fails for each thing of which there is more by more than chance, and more than its bound.
func (h *months) checkGrowth(when string, before map[string]int, later string, after map[string]int) {
	h.t.Helper()
	bounds := boundsOf(h.services * replicas)
	for _, name := range slices.Sorted(maps.Keys(after)) {
		slack := 24
		if strings.HasPrefix(name, "bytes") {
			slack = 4 << 20
		}
		if b, a := before[name], after[name]; a > b+b/4+slack && a > bounds[name] {
			h.t.Errorf("%s: %d %s, %d %s: it grows", name, b, when, a, later)
		}
	}
}

// boundsOf is how many there may be of what fills slowly, or goes late, on a host with so many containers.
func boundsOf(containers int) map[string]int {
	const (
		gone     = 2 * 1024 // identities without a container: see pruneMemories in package supervisor
		drafts   = 1024     // of a configuration: see maxDrafts in package configs
		settings = 16       // of a spec that have an origin
		asked    = 2        // containers that had commands, for each that has: see places.sweep in package prober
		events   = 16 << 20 // bytes of a full history, and what is measured with it
	)
	memories := containers + gone
	return map[string]int{
		eventsKept: journal.Size, "*journal.kept": journal.Size, "journal.history.all": journal.Size,
		"*journal.source": journal.Size, "journal.history.sources": journal.Size, "journal.history.largest": journal.Size,
		"*journal.repeats": journal.Size, "journal.folds.repeats": journal.Size,
		"supervisor.loop.removed": gone, "supervisor.loop.lineages": memories, "*core.Memory": memories, "*core.Kept": memories, "core.Memory.Granted": memories,
		"journal.pendingWrites.current": memories, "journal.pendingWrites.storedIDs": memories,
		"*prober.placeUser": asked * containers, "prober.places.users": asked * containers,
		"*configs.draft": drafts, "configs.drafts.byKey": drafts, "configs.drafts.texts": settings * drafts, "core.Spec.Values": settings * drafts,
		"*core.ProbeSpec": 3 * drafts, "*prober.Exec": 3 * drafts, "prober.Exec.Command": settings * drafts,
		"runtime.view.recentEvents": 512,        // see recentMax there
		"supervisor.entry.granted":  containers, // the newest of those that had any: older ones go with the next
		fileBytes:                   events, heapTaken: events,
	}
}

// checkCounted fails if the census did not come to something that is there in any case: it would see no growth
// there.
func checkCounted(t *testing.T, sizes map[string]int) {
	t.Helper()
	for _, name := range []string{
		"supervisor.loop.entries", "supervisor.loop.removed", "*supervisor.entry", "supervisor.entryHeap.entries", "supervisor.guard.groups",
		"supervisor.Board.byID", "supervisor.names.slots", "supervisor.services.members", "supervisor.latencies.byService", "*core.View",
		"runtime.view.entries", "runtime.view.unwanted", "journal.history.all", "journal.folds.repeats", "journal.pendingWrites.current",
		"prober.places.users", "configs.drafts.byKey", seriesShown,
	} {
		if sizes[name] == 0 {
			t.Errorf("%s: nothing was counted", name)
		}
	}
}

func describeSizes(sizes map[string]int) string {
	return fmt.Sprintf("%d memories, %d series, %d events, journal %.1f MiB, heap %.1f MiB, %d goroutines",
		sizes["journal.pendingWrites.current"], sizes[seriesShown], sizes[eventsKept], float64(sizes[fileBytes])/(1<<20), float64(sizes[heapTaken])/(1<<20), sizes[goroutines])
}
