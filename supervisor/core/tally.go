package core

import (
	"time"

	"healthd/prober"
)

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
func (y *Tally) add(p *ProbeSpec, r prober.Result, now time.Time) (verdict bool) {
	y.Last, y.LastAt = r, now
	if r.Outcome == prober.Unknown {
		return false
	}
	if r.Outcome != y.Outcome {
		y.Outcome, y.Length = r.Outcome, 0
	}
	y.Length++
	return y.Length >= p.threshold(r.Outcome)
}

// threshold is how many times in a row an outcome must come to be the verdict.
func (p *ProbeSpec) threshold(o prober.Outcome) int {
	if o == prober.Failure {
		return p.FailureThreshold
	}
	return p.SuccessThreshold
}
