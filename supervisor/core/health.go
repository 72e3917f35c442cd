package core

import (
	"strings"
	"time"

	"healthd/prober"
)

// Health is what this daemon has found out about the run. Each run and each daemon begin
// with a new one.
type Health struct {
	SeenAt  time.Time // when the engine last showed the container
	AliveAt time.Time // when the run was alive for certain: the engine showed it, or a probe succeeded
	HookAt  time.Time // start of the pre_stop hook, or earliest start of the post_start hook
	Probes  [NumProbes]ProbeState
	Failed  Cause     // why a restart waits: the failed probe or hook; NoCause: none waits
	Wait    Wait      // what that restart waits for
	Waiting time.Time // since when the guard has that restart wait; zero: it does not
	// NetworkTold: it was recorded that healthd would restart the container for its network
	NetworkTold bool
}

// newHealth returns the Health of a run at its first observation.
func newHealth(spec *Spec) Health {
	var h Health
	for i := range h.Probes {
		h.Probes[i].Result = initialResult(spec.Probes[i], ProbeType(i))
	}
	return h
}

// initialResult returns a probe's verdict before its first result: not ready, not started,
// alive. A probe that the spec does not have always succeeds. (kubelet prober worker)
func initialResult(p *ProbeSpec, t ProbeType) prober.Outcome {
	switch {
	case p == nil || t == Liveness:
		return prober.Success
	case t == Readiness:
		return prober.Failure
	}
	return prober.Unknown
}

// ProbeState is the state of one probe in the present run.
type ProbeState struct {
	Result  prober.Outcome // the verdict
	OnHold  bool           // the verdict stands: no more probes in this run
	Running bool           // a probe is under way

	Outcome prober.Outcome // the last outcome that was not Unknown
	Run     int            // how many times in a row Outcome came
	Since   time.Time      // when the first of these probes began

	Unknowns     int       // how many times in a row the last outcome was Unknown; 0: it was not
	UnknownSince time.Time // when the first of these probes began

	Last   prober.Result // result of the last probe, Unknown included, with its KeptOutput
	LastAt time.Time     // end of the last probe; zero: none yet
	Due    time.Time     // when the next probe is due; zero: none is scheduled
}

// add counts the result of one probe, and says whether the threshold is reached. An
// Unknown outcome does not count. The caller sets the verdict.
func (y *ProbeState) add(p *ProbeSpec, r prober.Result, now time.Time) (verdict bool) {
	y.Last, y.LastAt = r, now
	y.Last.Output = KeptOutput(&r)
	if r.Outcome == prober.Unknown {
		if y.Unknowns == 0 {
			y.UnknownSince = now.Add(-r.Latency)
		}
		y.Unknowns++
		return false
	}
	y.Unknowns, y.UnknownSince = 0, time.Time{}
	if r.Outcome != y.Outcome {
		y.Outcome, y.Run = r.Outcome, 0
	}
	if y.Run == 0 {
		y.Since = now.Add(-r.Latency)
	}
	y.Run++
	return y.Run >= p.threshold(r.Outcome)
}

// Newest returns the outcome of the last probe, Unknown included, how many times in a row it came, and when the first
// of these probes began. Before the first probe it is Unknown, 0 times.
func (y *ProbeState) Newest() (o prober.Outcome, run int, since time.Time) {
	if y.Unknowns > 0 {
		return prober.Unknown, y.Unknowns, y.UnknownSince
	}
	return y.Outcome, y.Run, y.Since
}

// unaskedRun is how many times in a row a probe cannot be asked until that is no accident any more.
const unaskedRun = 3

// Unasked reports whether healthd cannot ask the probe: what is known of it is old. What the engine's own health
// check has not decided yet does not count.
func (y *ProbeState) Unasked() bool {
	return y.Unknowns >= unaskedRun && y.Last.Cause != prober.Pending
}

// maxSuccess bounds what is kept of a success's output, in bytes. Nearly all probes succeed, often with a whole page.
const maxSuccess = 256

// cutMark ends a text that was cut.
const cutMark = "…"

// KeptOutput returns what is kept of a result's output. The rest does not stay in memory.
func KeptOutput(r *prober.Result) string {
	if r.Outcome != prober.Success || len(r.Output) <= maxSuccess {
		return r.Output
	}
	return strings.ToValidUTF8(r.Output[:maxSuccess-len(cutMark)], "") + cutMark
}

// threshold returns how many times in a row an outcome must come to be the verdict.
func (p *ProbeSpec) threshold(o prober.Outcome) int {
	if o == prober.Failure {
		return p.FailureThreshold
	}
	return p.SuccessThreshold
}

// Totals are counts over all runs since this daemon first saw the container. They are part of each of its states, and
// so narrow: a probe each second fills one in a century.
type Totals struct {
	Outcomes      [NumProbes][3]uint32 // by probe and prober.Outcome
	latency       [NumProbes]latencies // of successes
	HTTPFallbacks uint32               // HTTPS hooks that healthd repeated without TLS
}

// Count counts the result of a probe.
func (t *Totals) Count(probe ProbeType, r prober.Result) {
	t.Outcomes[probe][r.Outcome]++
	if r.Outcome == prober.Success {
		t.latency[probe].observe(r.Latency)
	}
}

// Latency returns how long the successes of a probe took.
func (t *Totals) Latency(probe ProbeType) Histogram { return t.latency[probe].histogram() }

// Wait is what a restart for a failed probe or hook waits for. The zero Wait: it need not
// wait.
type Wait struct {
	Reason string    // WaitGroupLimit, WaitRestartBudget, WaitHostSuspect, WaitHeld, WaitObserved or WaitGaveUp
	On     string    // the containers or the budget that it waits for; for people
	Until  time.Time // when the wait may be over; zero: unknown
	// Asked is when its turn had come, and healthd asked the liveness probe once more; zero: its turn has not come.
	Asked time.Time
}

// ByGuard says that the guard lets the restart wait, and will let it go on.
func (w Wait) ByGuard() bool {
	return w.Reason == WaitGroupLimit || w.Reason == WaitRestartBudget || w.Reason == WaitHostSuspect
}

// Asking says that the turn of a restart has come, and that it keeps it until the liveness probe has answered.
func (h *Health) Asking() bool { return !h.Wait.Asked.IsZero() && h.Probes[Liveness].Running }

// InQueue says that the guard has the restart keep its place. One whose probe could not be asked gives its turn up
// until that answers again.
func (h *Health) InQueue() bool { return h.Wait.ByGuard() && (h.Wait.Asked.IsZero() || h.Asking()) }
