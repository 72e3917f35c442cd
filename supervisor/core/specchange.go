package core

import (
	"reflect"
	"time"

	"healthd/prober"
)

// changeSpec applies a reload that changed the spec. A reload withdraws no readiness and
// restarts nothing. A probe that did not change keeps its count and its schedule. A
// changed probe counts afresh, and its old verdict stays published until its first new
// one.
func (t *stepper) changeSpec(old *Spec) {
	for i := range t.Health.Probes {
		if !reflect.DeepEqual(old.Probes[i], t.spec.Probes[i]) {
			t.changeProbe(ProbeType(i))
		}
	}
	if t.spec.Lifecycle.PostStart == nil && t.Run.Hooks[PostStart] == HookDue {
		t.Run.Hooks[PostStart] = HookIdle
		t.setStarted(t.spec.Probes[Startup] == nil)
	}
	if t.spec.Observe {
		t.deferStop()
	}
	if t.spec.Publish.WithdrawWithin == 0 { // nobody will tell of the withdrawal
		t.withdrawn()
	}
	if t.spec.OnFailure == TellFailed && t.Health.Failed != ByPostStart {
		t.Health.Failed = NoCause
	}
	if old.GiveUp != t.spec.GiveUp && t.Action.GaveUp && (t.spec.GiveUp.Restarts == 0 || !t.exhausted()) {
		t.Action.GaveUp = false
		if t.Action.Restart == ByExit {
			t.countForGiveUp(ByExit) // its start follows
		}
	}
	t.Lasting.Backoff.Delay = min(t.Lasting.Backoff.Delay, t.spec.Backoff.Max)
	switch {
	case t.Action.Restart == NoCause:
	case t.Ending.By == EndedByEngine && t.Action.Restart == ByExit && t.startsAfterEngine() && !t.onlyObserved(ByExit): // whatever its exit code
	case !t.shouldStart(t.Action.Restart):
		if t.wouldStart(t.Action.Restart) {
			t.tellStart()
		}
		t.Action.Restart = NoCause
	default:
		t.Action.NotBefore = earlier(t.Action.NotBefore, t.now.Add(t.Lasting.Backoff.Delay))
	}
}

// changeProbe resets the count of a probe that changed.
func (t *stepper) changeProbe(probe ProbeType) {
	y, p := &t.Health.Probes[probe], t.spec.Probes[probe]
	y.Outcome, y.Run, y.Due = prober.Unknown, 0, time.Time{}
	t.forgetCertificate(probe) // it may be another server
	if t.Health.Failed == causeOf(probe) {
		t.Health.Failed = NoCause // the restart that waits is for the old probe
	}
	switch {
	case probe == Startup && p == nil:
		t.setStarted(t.Conditions.Started.Status || !t.postStartPending())
		y.Result = prober.Success
	case p == nil:
		y.Result, y.OnHold = prober.Success, false
	case probe == Startup && t.Conditions.Started.Status:
		y.Result, y.OnHold = prober.Success, true
	}
}

// SameSpec says whether two specs lead to the same decisions. It ignores MatchedBy
// and what Settings returns.
func SameSpec(a, b *Spec) bool {
	x, y := *a, *b
	x.Values, y.Values, x.MatchedBy, y.MatchedBy = nil, nil, "", ""
	x.ServiceOrigin, y.ServiceOrigin = "", ""
	return reflect.DeepEqual(&x, &y)
}
