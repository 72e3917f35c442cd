package supervisor

import (
	"math"
	"sync/atomic"
	"time"

	"healthd/prober"
	"healthd/supervisor/core"
)

// timeline is the last hour of one container, for people who look back: how it was in each minute, its newest
// changes, and what its probes found in each minute. Its size does not depend on what happens. The loop alone
// writes it; any goroutine reads it without a lock.
//
// Minutes are counted from the start of the daemon by the monotonic clock, so that setting the clock moves nothing.
type timeline struct {
	since   atomic.Int64                       // moment of the first look, in milliseconds and one more; 0: none yet
	minute  atomic.Int64                       // the newest of looks
	looks   [TimelineMinutes / 2]atomic.Uint32 // a LookSet for each minute, two in one
	changes atomic.Uint64                      // how many there were
	newest  [timelineChanges]atomic.Uint64
	probes  [core.NumProbes]atomic.Pointer[probeMinutes]
}

const (
	// TimelineMinutes is how many minutes a timeline goes back, with the present one.
	TimelineMinutes = 60
	// timelineChanges is how many changes a timeline keeps: six restarts with a drain and a start-up each.
	timelineChanges = 24
)

// note takes in a view that follows another one, which is nil for the first.
func (t *timeline) note(old, v *core.View, at time.Duration) {
	if old != nil && looksAlike(old, v) {
		return
	}
	c := change{look: LookOf(v)}
	if old == nil {
		t.since.Store(at.Milliseconds() + 1)
		t.minute.Store(minuteOf(at))
	} else {
		c.restart, c.exit = restartBetween(old, v), endBetween(old, v)
		last := unpackChange(t.newest[(t.changes.Load()-1)%timelineChanges].Load())
		if c.look == last.look && c.restart == core.NoCause && c.exit == (exit{}) {
			return
		}
		t.fill(minuteOf(at), last.look)
	}
	c.at = at
	n := t.changes.Load()
	t.newest[n%timelineChanges].Store(c.pack())
	t.changes.Store(n + 1)
	t.setLooks(t.minute.Load(), t.looksIn(t.minute.Load())|c.set())
}

// fill notes for the minutes up to one that the container stayed as it was.
func (t *timeline) fill(minute int64, look Look) {
	from := max(t.minute.Load()+1, minute-TimelineMinutes+1)
	for m := from; m <= minute; m++ {
		t.setLooks(m, 1<<look)
	}
	t.minute.Store(max(minute, t.minute.Load()))
}

func (t *timeline) looksIn(minute int64) LookSet {
	i := index(minute)
	return LookSet(t.looks[i/2].Load() >> (i % 2 * 16))
}

func (t *timeline) setLooks(minute int64, looks LookSet) {
	i := index(minute)
	cell, shift := &t.looks[i/2], i%2*16
	cell.Store(cell.Load()&^(0xffff<<shift) | uint32(looks)<<shift)
}

// looksAlike spares note the rest for most views.
func looksAlike(a, b *core.View) bool {
	return a.State.Kept == b.State.Kept && a.Spec == b.Spec && a.State.Lost == b.State.Lost &&
		a.State.Health.Probes[core.Readiness].Outcome == b.State.Health.Probes[core.Readiness].Outcome
}

// restartBetween returns why there is a new run.
func restartBetween(old, v *core.View) core.Cause {
	for cause, n := range v.State.Lasting.Restarts {
		if n > old.State.Lasting.Restarts[cause] {
			return core.Cause(cause)
		}
	}
	return core.NoCause
}

// endBetween returns how the run ended that has ended meanwhile. News of who ended it may come later: then it is an
// end again, with another reason.
func endBetween(old, v *core.View) exit {
	was, is := &old.State.Run, &v.State.Run
	switch {
	case !is.Exit.FinishedAt.IsZero() && (was.Exit.FinishedAt != is.Exit.FinishedAt || was.Exit.Reason != is.Exit.Reason):
		return exitFrom(is.Exit)
	case is.ID != was.ID && was.Exit.FinishedAt.IsZero() && !is.LastExit.FinishedAt.IsZero() && is.LastExit.FinishedAt != was.LastExit.FinishedAt:
		return exitFrom(is.LastExit)
	}
	return exit{}
}

// observe takes in the result of a probe.
func (t *timeline) observe(probe core.ProbeType, r prober.Result, at time.Duration) {
	p := t.probes[probe].Load()
	if p == nil {
		p = &probeMinutes{}
		p.minute.Store(minuteOf(at))
		t.probes[probe].Store(p)
	}
	p.observe(r, minuteOf(at))
}

// probeMinutes has what one probe found in each minute, packed: see probeCell.
type probeMinutes struct {
	minute atomic.Int64 // the newest
	cells  [TimelineMinutes]atomic.Uint32
}

func (p *probeMinutes) observe(r prober.Result, minute int64) {
	newest := p.minute.Load()
	for m := max(newest+1, minute-TimelineMinutes+1); m <= minute; m++ {
		p.cells[index(m)].Store(0)
	}
	minute = max(minute, newest)
	p.minute.Store(minute)
	cell := &p.cells[index(minute)]
	cell.Store(uint32(probeCell(cell.Load()).with(r)))
}

// probeCell counts the results of a minute: 8 bits of successes, 8 of failures, 6 of unknown ones, and 10 bits of
// the worst latency. The counts stop at what they can hold.
type probeCell uint32

const (
	mostCounted  = 1<<8 - 1
	mostUnknown  = 1<<6 - 1
	mostLatency  = 1<<10 - 1
	leastLatency = 10 * time.Microsecond // whatever is shorter is shown as this
	latencyStep  = 1.02                  // from one code of a latency to the next
)

func (c probeCell) with(r prober.Result) probeCell {
	s, f, u, l := uint32(c&mostCounted), uint32(c>>8&mostCounted), uint32(c>>16&mostUnknown), uint32(c>>22)
	switch r.Outcome {
	case prober.Success:
		s = min(s+1, mostCounted)
	case prober.Failure:
		f = min(f+1, mostCounted)
	default:
		u = min(u+1, mostUnknown)
	}
	if r.Outcome != prober.Unknown {
		l = max(l, latencyCode(r.Latency))
	}
	return probeCell(s | f<<8 | u<<16 | l<<22)
}

// latencyCode is 0 for no latency at all, else it grows by one for each 2 %.
func latencyCode(d time.Duration) uint32 {
	if d <= leastLatency {
		return 1
	}
	return uint32(min(mostLatency, 1+math.Round(math.Log(float64(d)/float64(leastLatency))/math.Log(latencyStep))))
}

func (c probeCell) latency() time.Duration {
	code := c >> 22
	if code == 0 {
		return 0
	}
	return time.Duration(float64(leastLatency) * math.Pow(latencyStep, float64(code-1)))
}

func minuteOf(at time.Duration) int64 {
	return int64(math.Floor(float64(at) / float64(time.Minute)))
}

// index returns the place of a minute, which is negative in tests that play what was before the daemon.
func index(minute int64) int64 {
	return ((minute % TimelineMinutes) + TimelineMinutes) % TimelineMinutes
}
