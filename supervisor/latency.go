package supervisor

import (
	"sync/atomic"
	"time"

	"healthd/supervisor/core"
)

// latencies has how long the successful probes of each service took. It is counted as probes end, and not
// added up from containers: a sum would shrink when one of several containers goes, which
// Prometheus takes for a restart at zero.
type latencies struct {
	byService table[serviceOfProject, *serviceLatency]
}

// serviceOfProject is what containers have in common whose latencies are counted together. A file may give
// containers of several projects one service.
type serviceOfProject struct{ service, project string }

// serviceLatency is of one service for as long as it has a container.
type serviceLatency struct {
	of         serviceOfProject
	containers int // the loop's own
	probes     [core.NumProbes]latencyCounts
}

// latencyCounts counts by core.LatencyBuckets, as a core.Histogram does.
type latencyCounts struct {
	counts [len(core.LatencyBuckets) + 1]atomic.Uint64
	nanos  atomic.Int64
}

func (c *latencyCounts) observe(d time.Duration) {
	c.counts[core.BucketOf(core.LatencyBuckets[:], d)].Add(1)
	c.nanos.Add(int64(d))
}

// move has a container's probes counted for the service of v, and no longer for that of from. It
// returns from when they are the same. Without a service nothing is counted.
func (l *latencies) move(from *serviceLatency, v *core.View) *serviceLatency {
	var to serviceOfProject
	if v != nil && v.Service != "" {
		to = serviceOfProject{v.Service, core.ProjectOf(v.Container.Labels)}
	}
	if from != nil {
		if from.of == to {
			return from
		}
		if from.containers--; from.containers == 0 {
			l.byService.remove(from.of)
		}
	}
	if to.service == "" {
		return nil
	}
	s, found := l.byService.get(to)
	if !found {
		s = &serviceLatency{of: to}
		l.byService.set(to, s)
	}
	s.containers++
	return s
}

// observe counts a successful probe; s may be nil.
func (s *serviceLatency) observe(probe core.ProbeType, d time.Duration) {
	if s != nil {
		s.probes[probe].observe(d)
	}
}

// add counts what a container of NewBoard has counted.
func (s *serviceLatency) add(t *core.Totals) {
	if s == nil {
		return
	}
	for probe := range s.probes {
		h := t.Latency(core.ProbeType(probe))
		for i, n := range h.Counts {
			s.probes[probe].counts[i].Add(n)
		}
		s.probes[probe].nanos.Add(int64(h.Sum * float64(time.Second)))
	}
}

// Latency returns how long the successful probes of a service's containers in a Compose project took, also of
// those that are gone, since the service got its first one or the daemon started. It returns false while
// the service has no container there.
func (b *Board) Latency(service, project string, probe core.ProbeType) (h core.Histogram, found bool) {
	s, found := b.latencies.byService.get(serviceOfProject{service, project})
	if !found {
		return h, false
	}
	c := &s.probes[probe]
	for i := range c.counts {
		h.Counts[i] = c.counts[i].Load()
	}
	h.Sum = time.Duration(c.nanos.Load()).Seconds()
	return h, true
}
