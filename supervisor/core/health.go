package core

import (
	"time"

	"healthd/prober"
	"healthd/runtime"
)

// Health is what this daemon has found out about the run. It begins afresh with each
// run, and with each daemon.
type Health struct {
	BeganAt time.Time // start of the run by our own clock
	AliveAt time.Time // when the run was last known to be alive
	HookAt  time.Time // start of the pre_stop hook, or earliest start of the post_start hook
	Probes  [NumProbes]ProbeState
	Failed  Cause // the probe or hook that wants the run stopped, which has to wait
	Wait    Wait  // what for
}

// newHealth is what is known of a run that has just been seen for the first time.
func newHealth(spec *Spec, c *runtime.Container, now time.Time) Health {
	h := Health{BeganAt: now.Add(-max(0, now.Sub(c.StartedAt))), AliveAt: now}
	for i := range h.Probes {
		h.Probes[i].Result = firstResult(spec.Probes[i], ProbeType(i))
	}
	return h
}

// Totals are counts since this daemon has known the container, over all runs.
type Totals struct {
	Outcomes      [NumProbes][3]uint64 // by probe and prober.Outcome
	Latency       [NumProbes]Histogram // of successes
	HTTPFallbacks uint64               // hooks that were asked again without TLS
}

func (t *Totals) count(probe ProbeType, r prober.Result) {
	t.Outcomes[probe][r.Outcome]++
	if r.Outcome == prober.Success {
		t.Latency[probe].observe(r.Latency)
	}
}

// ProbeState is what one probe has said of the present run so far.
type ProbeState struct {
	Result  prober.Outcome // the verdict: what thresholds made of the outcomes
	Outcome prober.Outcome // of the last probe that counted
	Run     int            // how many times in a row Outcome came
	OnHold  bool           // a verdict was given; no more probes until a new run
	Last    prober.Result  // of the last probe, counted or not
	LastAt  time.Time      // end of the last probe; zero: none yet

	Due     time.Time // of the next probe; zero: none planned
	Running bool      // a probe is under way
}

// LatencyBuckets are the upper bounds, in seconds, of a Histogram's buckets:
// Prometheus' defaults, which the kubelet uses for the same metric.
var LatencyBuckets = [...]float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}

// Histogram counts durations by LatencyBuckets; the last count is of those above
// all bounds.
type Histogram struct {
	Counts [len(LatencyBuckets) + 1]uint64
	Sum    float64 // seconds
}

func (h *Histogram) observe(d time.Duration) {
	seconds := d.Seconds()
	i := 0
	for i < len(LatencyBuckets) && seconds > LatencyBuckets[i] {
		i++
	}
	h.Counts[i]++
	h.Sum += seconds
}

// firstResult is a probe's verdict before it has given one: a container is not
// ready and not started until a probe says so, and alive until one denies it. A
// probe that does not exist has always succeeded. (kubelet prober worker)
func firstResult(p *ProbeSpec, t ProbeType) prober.Outcome {
	switch {
	case p == nil || t == Liveness:
		return prober.Success
	case t == Readiness:
		return prober.Failure
	}
	return prober.Unknown
}

// add folds the result of one probe in and says whether its thresholds make it a
// verdict. An unknown outcome moves nothing. The verdict itself is left to the
// caller, as it may have to wait for the runtime.
func (y *ProbeState) add(p *ProbeSpec, r prober.Result, now time.Time) (verdict bool) {
	y.Last, y.LastAt = r, now
	if r.Outcome == prober.Unknown {
		return false
	}
	if r.Outcome != y.Outcome {
		y.Outcome, y.Run = r.Outcome, 0
	}
	y.Run++
	return y.Run >= p.threshold(r.Outcome)
}

// threshold is how many times in a row an outcome must come to be the verdict.
func (p *ProbeSpec) threshold(o prober.Outcome) int {
	if o == prober.Failure {
		return p.FailureThreshold
	}
	return p.SuccessThreshold
}
