package supervisor

import (
	"time"

	"healthd/supervisor/core"
)

// Timeline is the last hour of a container. It ends now.
type Timeline struct {
	Start   time.Time // of the first minute
	Since   time.Time // from when healthd has watched the container, at most an hour ago
	Minutes [TimelineMinutes]LookSet
	Changes []Change // the newest ones, oldest first. The first may be from before the hour
	// Probes have what was found; nil: nothing in this daemon's life.
	Probes [core.NumProbes]*[TimelineMinutes]ProbeMinute
}

// Change is a moment at which a container got another look, ended or was restarted.
type Change struct {
	At       time.Time
	Look     Look       // from then on
	Restart  core.Cause // why its new run began; NoCause: it did not
	Ended    bool
	ExitCode int    // at most 511
	Reason   string // of the end: see core.Exit
}

// ProbeMinute is what a probe found within a minute. The counts stop at 255, that of the unknown at 63.
type ProbeMinute struct {
	Successes, Failures, Unknown int
	Worst                        time.Duration // the longest latency, to 1 %; 0: none
}

// Timeline returns the last hour of the container of that ID. It does not wait for the loop: of what happens
// meanwhile it may have a part.
func (b *Board) Timeline(id string, now time.Time) (t Timeline, found bool) {
	s, found := b.byID.get(id)
	if !found {
		return t, false
	}
	at := now.Sub(b.began)
	first := minuteOf(at) - TimelineMinutes + 1
	wall := func(d time.Duration) time.Time { return now.Add(d - at) }
	t.Start = wall(time.Duration(first) * time.Minute)
	t.Since = now
	if since := s.timeline.since.Load(); since != 0 {
		t.Since = wall(time.Duration(since-1) * time.Millisecond)
	}
	if t.Since.Before(t.Start) {
		t.Since = t.Start
	}
	t.Minutes = s.timeline.minutes(first)
	n := s.timeline.changes.Load()
	for i := n - min(n, timelineChanges); i < n; i++ {
		c := unpackChange(s.timeline.newest[i%timelineChanges].Load())
		t.Changes = append(t.Changes, c.of(wall(c.at)))
	}
	for probe := range t.Probes {
		if p := s.timeline.probes[probe].Load(); p != nil {
			t.Probes[probe] = p.minutes(first)
		}
	}
	return t, true
}

// Minutes returns how the container of that ID was in each of the last minutes; all are empty if there is none.
func (b *Board) Minutes(id string, now time.Time) (minutes [TimelineMinutes]LookSet) {
	if s, found := b.byID.get(id); found {
		return s.timeline.minutes(minuteOf(now.Sub(b.began)) - TimelineMinutes + 1)
	}
	return minutes
}

// LastRestart returns why the container of that ID was restarted last; NoCause: none of its newest changes is a restart.
func (b *Board) LastRestart(id string) core.Cause {
	s, found := b.byID.get(id)
	if !found {
		return core.NoCause
	}
	n := s.timeline.changes.Load()
	for i := n; i > n-min(n, timelineChanges); i-- {
		if c := unpackChange(s.timeline.newest[(i-1)%timelineChanges].Load()); c.restart != core.NoCause {
			return c.restart
		}
	}
	return core.NoCause
}

// minutes returns those from the first on. After the newest that was written, the container stayed as it was.
func (t *timeline) minutes(first int64) (minutes [TimelineMinutes]LookSet) {
	n, since := t.changes.Load(), t.since.Load()
	if n == 0 {
		return minutes
	}
	newest, began := t.minute.Load(), minuteOf(time.Duration(since-1)*time.Millisecond)
	last := unpackChange(t.newest[(n-1)%timelineChanges].Load()).look
	for i := range minutes {
		switch m := first + int64(i); {
		case m < began, m <= newest-TimelineMinutes:
		case m <= newest:
			minutes[i] = t.looksIn(m)
		default:
			minutes[i] = 1 << last
		}
	}
	return minutes
}

func (p *probeMinutes) minutes(first int64) *[TimelineMinutes]ProbeMinute {
	var minutes [TimelineMinutes]ProbeMinute
	newest := p.minute.Load()
	for i := range minutes {
		if m := first + int64(i); m <= newest && m > newest-TimelineMinutes {
			c := probeCell(p.cells[index(m)].Load())
			minutes[i] = ProbeMinute{int(c & mostCounted), int(c >> 8 & mostCounted), int(c >> 16 & mostUnknown), c.latency()}
		}
	}
	return &minutes
}

func (c *change) of(at time.Time) Change {
	out := Change{At: at, Look: c.look, Restart: c.restart}
	if c.exit.reason > 0 {
		out.Ended, out.ExitCode, out.Reason = true, int(c.exit.code), exitReasons[c.exit.reason-1]
	}
	return out
}
