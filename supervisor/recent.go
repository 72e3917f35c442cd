package supervisor

import (
	"slices"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"healthd/prober"
	"healthd/supervisor/core"
)

// Bounds of what is kept of each probe's newest results.
const (
	RecentResults = 20
	// maxRecentOutput bounds all outputs together that are kept of a probe, in bytes; the newest one has
	// its first so many. There are at most recentOutputs.
	maxRecentOutput = 1 << 10
	recentOutputs   = 4
)

// RecentResult is one of a probe's newest results.
type RecentResult struct {
	At      time.Time
	Outcome prober.Outcome
	Cause   prober.Cause
	Warning bool
	Latency time.Duration // at most 71 minutes
	Output  string        // at most 1 KiB
	Dropped bool          // it had an output, which gave way to newer ones
}

// recentResults are the newest results of one probe, over all runs of its container, oldest first. Only
// the loop adds; it never waits for a reader. Readers take no lock: they look again when a result
// came meanwhile.
type recentResults struct {
	writes  atomic.Uint64 // odd while a result is added; half of it is how many were
	results [RecentResults]packedResult
	outputs [recentOutputs]atomic.Pointer[string]
}

// packedResult is a RecentResult in 16 bytes.
type packedResult struct {
	at    atomic.Int64  // nanoseconds since the epoch
	facts atomic.Uint64 // see pack
}

// Places of an output besides those in recentResults.outputs.
const (
	noOutput      = 0xFF
	droppedOutput = 0xFE
)

// The causes by the number that pack gives them. One that is not here becomes none.
var recentCauses = []prober.Cause{
	"", prober.Refused, prober.Timeout, prober.Reset, prober.Unreachable, prober.TLS, prober.Protocol, prober.Status,
	prober.ExitCode, prober.Redirect, prober.Content, prober.Warned, prober.NotAsked, prober.Pending,
}

// pack puts a result into a word: latency in µs, outcome, cause, warning, place of the output.
func pack(r *prober.Result, output uint64) uint64 {
	cause := max(0, slices.Index(recentCauses, r.Cause))
	warning := uint64(0)
	if r.Warning {
		warning = 1
	}
	const longest = 1<<32 - 1
	latency := uint64(min(max(r.Latency.Microseconds(), 0), longest))
	return latency | uint64(r.Outcome)<<32 | uint64(cause)<<40 | warning<<48 | output<<56
}

func unpack(at int64, facts uint64) RecentResult {
	return RecentResult{
		At: time.Unix(0, at), Latency: time.Duration(facts&(1<<32-1)) * time.Microsecond,
		Outcome: prober.Outcome(facts >> 32 & 0xFF), Cause: recentCauses[facts>>40&0xFF], Warning: facts>>48&1 == 1,
		Dropped: placeOf(facts) == droppedOutput,
	}
}

func placeOf(facts uint64) uint64 { return facts >> 56 }

// add adds a result that came at that time.
func (r *recentResults) add(result *prober.Result, now time.Time) {
	n := r.writes.Add(1) / 2
	place := r.keepOutput(core.KeptOutput(result), n)
	slot := &r.results[n%RecentResults]
	slot.at.Store(now.UnixNano())
	slot.facts.Store(pack(result, place))
	r.writes.Add(1)
}

// keepOutput returns the place of an output, which the older ones give way to. n results came before.
func (r *recentResults) keepOutput(output string, n uint64) uint64 {
	if output == "" {
		return noOutput
	}
	if len(output) > maxRecentOutput {
		// A copy: the rest must not stay in memory.
		output = strings.Clone(strings.ToValidUTF8(output[:maxRecentOutput-utf8.UTFMax], ""))
	}
	bytes := len(output)
	for i := range r.outputs {
		if kept := r.outputs[i].Load(); kept != nil {
			if *kept == output {
				return uint64(i)
			}
			bytes += len(*kept)
		}
	}
	for {
		free, oldest := r.places(n)
		if free >= 0 && bytes <= maxRecentOutput {
			kept := output // only here it goes to the heap
			r.outputs[free].Store(&kept)
			return uint64(free)
		}
		bytes -= len(*r.outputs[oldest].Load())
		r.drop(oldest)
	}
}

// places returns a free place for an output, -1 if there is none, and the one whose output no result
// has had for longest, -1 if all are free.
func (r *recentResults) places(n uint64) (free, oldest int) {
	free, oldest = -1, -1
	var newest [recentOutputs]uint64 // 1 + the age in results: 0 for none
	for back := min(n, RecentResults-1); back > 0; back-- {
		if p := placeOf(r.results[(n-back)%RecentResults].facts.Load()); p < recentOutputs {
			newest[p] = n - back + 1
		}
	}
	for i := range r.outputs {
		switch {
		case r.outputs[i].Load() == nil:
			free = i
		case oldest < 0 || newest[i] < newest[oldest]:
			oldest = i
		}
	}
	return free, oldest
}

// drop drops the output at a place from all results that have it.
func (r *recentResults) drop(place int) {
	for i := range r.results {
		if facts := r.results[i].facts.Load(); placeOf(facts) == uint64(place) {
			r.results[i].facts.Store(facts&^(0xFF<<56) | droppedOutput<<56)
		}
	}
	r.outputs[place].Store(nil)
}

// all returns the results, oldest first. Any goroutine may call it.
func (r *recentResults) all() []RecentResult {
	for {
		before := r.writes.Load()
		if before%2 == 0 {
			all := r.read(before / 2)
			if r.writes.Load() == before {
				return all
			}
		}
	}
}

// read returns what is there, which is of no use if a result came meanwhile.
func (r *recentResults) read(n uint64) []RecentResult {
	all := make([]RecentResult, 0, RecentResults)
	for back := min(n, RecentResults); back > 0; back-- {
		slot := &r.results[(n-back)%RecentResults]
		facts := slot.facts.Load()
		result := unpack(slot.at.Load(), facts)
		if p := placeOf(facts); p < recentOutputs {
			if output := r.outputs[p].Load(); output != nil {
				result.Output = *output
			}
		}
		all = append(all, result)
	}
	return all
}

// recent are the newest results of each probe of a container; nil: none yet.
type recent [core.NumProbes]atomic.Pointer[recentResults]

func (r *recent) add(t core.ProbeType, result *prober.Result, now time.Time) {
	of := r[t].Load()
	if of == nil {
		of = &recentResults{}
		r[t].Store(of)
	}
	of.add(result, now)
}

func (r *recent) all() (all [core.NumProbes][]RecentResult) {
	for t := range r {
		if of := r[t].Load(); of != nil {
			all[t] = of.all()
		}
	}
	return all
}

// Recent returns the newest results of each probe of the container of that full ID, at most
// RecentResults, oldest first; none for a container that is not on the board.
func (b *Board) Recent(id string) (all [core.NumProbes][]RecentResult) {
	if s, ok := b.byID.get(id); ok {
		all = s.recent.all()
	}
	return all
}
