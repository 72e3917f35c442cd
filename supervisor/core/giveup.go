package core

import (
	"fmt"
	"time"
)

// GiveUp says after how many restarts, within how long, healthd stops restarting a container until
// somebody resumes it or starts it. Restarts that people ask for do not count.
type GiveUp struct {
	Restarts int // at most MaxGiveUp; 0: never
	Within   time.Duration
}

// MaxGiveUp is the most restarts that GiveUp counts.
const MaxGiveUp = 100

// String returns it for people.
func (g GiveUp) String() string {
	if g.Restarts == 1 {
		return fmt.Sprintf("1 restart within %v", g.Within)
	}
	return fmt.Sprintf("%d restarts within %v", g.Restarts, g.Within)
}

// mustGiveUp says that healthd does not restart the container for that cause. It goes on with what it
// has stopped itself.
func (t *stepper) mustGiveUp(cause Cause) bool {
	if t.spec.GiveUp.Restarts == 0 || cause == ByOperator || cause == ByNetwork {
		return false
	}
	return t.Action.GaveUp || t.exhausted(t.now)
}

// exhausted says that at that moment the restarts that GiveUp allows had been made.
func (t *stepper) exhausted(at time.Time) bool {
	if t.spec.GiveUp.Restarts == 0 {
		return false
	}
	n, since := 0, at.Add(-t.spec.GiveUp.Within)
	for _, restarted := range t.Restarted {
		if restarted.After(since) {
			n++
		}
	}
	return n >= t.spec.GiveUp.Restarts
}

// countForGiveUp counts a restart. States share the list, so it is copied.
func (t *stepper) countForGiveUp(cause Cause) {
	if t.spec.GiveUp.Restarts == 0 || cause != ByExit && !cause.ByProbe() {
		return
	}
	kept := t.Restarted[max(0, len(t.Restarted)-t.spec.GiveUp.Restarts+1):]
	t.Restarted = append(append([]time.Time(nil), kept...), t.now)
}

// giveUp notes the moment, too: another GiveUp decides by it.
func (t *stepper) giveUp() {
	if !t.Action.GaveUp {
		t.Action.GaveUp, t.Action.NotBefore = true, t.now
	}
}

// giveUpStart leaves a container stopped that has ended by itself once too often.
func (t *stepper) giveUpStart() {
	t.giveUp()
	t.Action.Restart = ByExit
	t.record(EventGaveUp, "Container %s is not started again, after %v, until somebody resumes it (healthd resume %[1]s) or starts it", t.c.Name, t.spec.GiveUp)
}

// staysGivenUp says that a container which was given up still is, though no failure waits just now: another daemon, an
// outage of its engine or a pause has come between. What has failed can still recover.
func (t *stepper) staysGivenUp() bool {
	switch {
	case !t.Engine.State.Alive():
		return t.Action.Restart == ByExit
	case t.Run.Hooks[PostStart] == HookFailed:
		return true
	}
	starting := t.spec.Probes[Startup] != nil && !t.Conditions.Started.Status
	return t.spec.OnFailure != TellFailed && (t.spec.Probes[Liveness] != nil || starting)
}

// takeUp ends a GiveUp: the count begins afresh.
func (t *stepper) takeUp() {
	t.Action.GaveUp, t.Restarted = false, nil
	t.Action.NotBefore = earlier(t.Action.NotBefore, t.now)
}
