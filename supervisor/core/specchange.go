package core

import (
	"reflect"
	"time"

	"healthd/prober"
	"healthd/runtime"
)

// changeSpec applies another spec than the container had before. That withdraws no readiness and restarts nothing. A
// probe that did not change keeps its count and its schedule. A changed probe counts afresh, and its old verdict stays
// published until its first new one. old is nil when the change may have come while no daemon ran: nothing is left of
// counts and schedules then, and what follows from the same spec again is nothing.
func (t *stepper) changeSpec(old *Spec) {
	for i := range t.Health.Probes {
		if old == nil || !reflect.DeepEqual(old.Probes[i], t.spec.Probes[i]) {
			t.changeProbe(ProbeType(i))
		}
	}
	if t.spec.Lifecycle.PostStart == nil && t.postStartPending() {
		t.dropPostStart()
	}
	if t.spec.Observe {
		t.deferStop()
	}
	if t.spec.Publish.WithdrawWithin == 0 { // no load balancer tells of the withdrawal
		t.withdrawn()
	}
	if t.spec.OnFailure == TellFailed && t.Health.Failed != ByPostStart {
		t.Health.Failed = NoCause
	}
	if t.Action.GaveUp && !t.exhausted(t.Action.NotBefore) {
		t.Action.GaveUp = false
		if t.Action.Restart == ByExit {
			t.countForGiveUp(ByExit) // its start follows
		}
	}
	t.changeStart()
}

// dropPostStart ends what the post_start hook of the present run has the container wait for.
func (t *stepper) dropPostStart() {
	t.Run.Hooks[PostStart] = HookIdle
	t.setStarted(t.spec.Probes[Startup] == nil)
	if t.Health.Failed == ByPostStart {
		t.Health.Failed = NoCause
	}
}

// changeStart has the spec decide again about a start that is due. Only a back-off that has become too long changes
// when: a start may wait for something else, too.
func (t *stepper) changeStart() {
	tooLong := t.Lasting.Backoff.Delay > t.spec.Backoff.Max
	t.Lasting.Backoff.Delay = min(t.Lasting.Backoff.Delay, t.spec.Backoff.Max)
	switch {
	case t.Action.Restart == NoCause:
	case t.Ending.By == EndedByEngine && t.Action.Restart == ByExit && t.startsAfterEngine() && !t.onlyObserved(ByExit): // whatever its exit code
	case !t.shouldStart(t.Action.Restart):
		if t.wouldStart(t.Action.Restart) {
			t.tellStart()
		}
		t.Action.Restart = NoCause
	case tooLong:
		t.Action.NotBefore = earlier(t.Action.NotBefore, t.now.Add(t.Lasting.Backoff.Delay))
	}
}

// changeProbe resets the count of a probe that changed.
func (t *stepper) changeProbe(probe ProbeType) {
	y, p := &t.Health.Probes[probe], t.spec.Probes[probe]
	y.Outcome, y.Run, y.Due = prober.Unknown, 0, time.Time{}
	y.Unknowns, y.UnknownSince = 0, time.Time{}
	t.forgetCertificate(probe) // it may be another server
	if t.Health.Failed == causeOf(probe) {
		t.Health.Failed = NoCause // the restart that waits is for the old probe
	}
	switch {
	case probe == Startup && p == nil:
		t.setStarted(t.Conditions.Started.Status || t.Run.ID != (runtime.Run{}) && !t.postStartPending())
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
