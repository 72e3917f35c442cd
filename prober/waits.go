package prober

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sort"
	"sync/atomic"
	"time"
)

// WaitBuckets are the upper bounds of the counts of Waits, in seconds.
var WaitBuckets = [...]float64{.001, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}

// Waits says for how long the commands of a kind have waited on an engine for their turn to start. Each number only grows.
type Waits struct {
	Runtime string
	Kind    string // "probes" or "hooks"
	// Counts is of the commands that had a turn, also of those that had it at once. It has a count for each of WaitBuckets
	// and one for all above; they are not cumulative.
	Counts []uint64
	Sum    float64 // of their waits, in seconds
	// Missed is how many had no turn before their timeout. Those whose run had ended, or that a reload ended, do not count.
	Missed uint64
}

// Waits returns those of all engines since New, sorted by runtime and kind.
func (p *Prober) Waits() []Waits {
	var all []Waits
	for name, e := range p.engines {
		for _, c := range []*commands{e.probes, e.hooks} {
			w := c.waits.read()
			w.Runtime, w.Kind = name, c.kind
			all = append(all, w)
		}
	}
	slices.SortFunc(all, func(a, b Waits) int { return cmp.Or(cmp.Compare(a.Runtime, b.Runtime), cmp.Compare(a.Kind, b.Kind)) })
	return all
}

// waitCounts is what Waits shows of one kind.
type waitCounts struct {
	counts [len(WaitBuckets) + 1]atomic.Uint64
	nanos  atomic.Int64
	missed atomic.Uint64
}

func (c *waitCounts) hadTurn(waited time.Duration) {
	c.counts[sort.SearchFloat64s(WaitBuckets[:], waited.Seconds())].Add(1)
	c.nanos.Add(int64(waited))
}

// hadNoTurn counts a command that asked with ctx.
func (c *waitCounts) hadNoTurn(ctx context.Context) {
	if !errors.Is(ctx.Err(), context.Canceled) {
		c.missed.Add(1)
	}
}

func (c *waitCounts) read() Waits {
	w := Waits{Counts: make([]uint64, len(c.counts)), Missed: c.missed.Load()}
	for i := range c.counts {
		w.Counts[i] = c.counts[i].Load()
	}
	w.Sum = time.Duration(c.nanos.Load()).Seconds()
	return w
}
