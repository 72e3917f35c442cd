package core

import (
	"hash/fnv"
	"time"

	"healthd/prober"
)

// shouldProbe says whether a probe runs in the present state. Liveness and readiness wait
// for the startup probe. During a stop only readiness goes on. (kubelet prober worker)
func (t *stepper) shouldProbe(probe ProbeType) bool {
	stopping := t.Draining() && !t.StopRefused()
	switch {
	case t.spec.Probes[probe] == nil, !t.runs(), t.Health.Probes[probe].OnHold, t.postStartPending():
		return false
	case probe == Startup:
		return !t.Conditions.Started.Status && !stopping
	case probe == Liveness:
		return t.Conditions.Started.Status && !stopping
	}
	return t.Conditions.Started.Status
}

// scheduleProbes schedules the probes that should run, and cancels the others.
func (t *stepper) scheduleProbes(in *Input) {
	for i := range t.Health.Probes {
		y, probe := &t.Health.Probes[i], ProbeType(i)
		switch {
		case !t.shouldProbe(probe):
			y.Due = time.Time{}
		case y.Due.IsZero() && !y.Running:
			y.Due = later(t.now, t.Run.BeganAt.Add(t.spec.Probes[i].InitialDelay))
			if in.First || in.Kind == SpecChanged {
				y.Due = later(y.Due, t.now.Add(t.spread(probe)))
			}
		}
	}
}

// spread returns the delay of the first probe of a container that was already running when
// the daemon started or its spec changed: between 0 and one period, so that the probes of
// many containers do not come at once. It is the same each time.
func (t *stepper) spread(probe ProbeType) time.Duration {
	h := fnv.New64a()
	h.Write([]byte(t.c.Name))
	h.Write([]byte{byte(probe)})
	return time.Duration(h.Sum64() % uint64(t.spec.Probes[probe].Period))
}

func (t *stepper) runProbes() {
	for i := range t.Health.Probes {
		y := &t.Health.Probes[i]
		if y.Due.IsZero() || y.Running || t.now.Before(y.Due) {
			continue
		}
		y.Running = true
		t.fx = append(t.fx, Effect{Kind: RunProbe, Probe: ProbeType(i), Late: t.now.Sub(later(y.Due, y.LastAt))})
	}
}

// probeAnswered counts a probe's result, and acts on the verdict if there is one.
func (t *stepper) probeAnswered(probe ProbeType, r prober.Result) {
	y, p := &t.Health.Probes[probe], t.spec.Probes[probe]
	if !y.Running {
		return
	}
	y.Running = false
	if !t.shouldProbe(probe) {
		return
	}
	if !y.Due.IsZero() {
		// A probe that took several periods is followed by one probe at once, not by one
		// for each missed period. (kubelet's ticker)
		y.Due = y.Due.Add(max(1, t.now.Sub(y.Due)/p.Period) * p.Period)
	}
	before := y.Last
	verdict := y.add(p, r, t.now)
	if r.Outcome == prober.Success {
		t.Health.AliveAt = t.now
	}
	t.Totals.Count(probe, r)
	t.recordResult(probe, r, before)
	t.noteCertificate(probe, &r)
	if verdict {
		t.actOnVerdict(probe, r.Outcome)
	}
}

func (t *stepper) actOnVerdict(probe ProbeType, outcome prober.Outcome) {
	y := &t.Health.Probes[probe]
	switch {
	case probe == Readiness: // setReadiness acts on it
		y.Result = outcome
	case outcome == prober.Failure && t.spec.OnFailure == TellFailed:
		t.tellFailure(causeOf(probe), y.Result)
		y.Result = prober.Failure
	case outcome == prober.Failure:
		y.Result = prober.Failure
		t.failRun(causeOf(probe))
	case probe == Startup:
		y.Result, y.OnHold, y.Run = prober.Success, true, 0
		t.setStarted(true)
		t.recoverRun(ByStartup)
	default:
		y.Result = prober.Success
		t.recoverRun(ByLiveness)
	}
}

// recordResult records the results that an operator wants to know: failures up to the
// threshold, and warnings and probes that could not run when they are new.
func (t *stepper) recordResult(probe ProbeType, r, before prober.Result) {
	y, p := &t.Health.Probes[probe], t.spec.Probes[probe]
	switch {
	case r.Outcome == prober.Failure && y.Run <= p.FailureThreshold:
		t.recordOf(probe, EventUnhealthy, "%s probe failed (%d/%d): %s", probe.Title(), y.Run, p.FailureThreshold, r.Output)
		if y.Run == p.FailureThreshold && y.Result != prober.Failure {
			t.fx[len(t.fx)-1].Detected = t.now.Sub(y.Since)
		}
	case r.Outcome == prober.Unknown && r.Cause == prober.NotAsked && before.Cause != prober.NotAsked:
		t.recordOf(probe, EventUnhealthy, "%s probe could not run, which does not count: %s", probe.Title(), r.Output)
	case r.Cause == prober.Late && before.Cause != prober.Late:
		t.recordOf(probe, EventProbeLate, "%s probe does not count: %s", probe.Title(), r.Output)
	case r.Warning && !before.Warning:
		t.recordOf(probe, EventProbeWarning, "%s probe warning: %s", probe.Title(), r.Output)
	}
}
