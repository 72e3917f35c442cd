package runtime

import (
	"testing"
	"testing/synctest"
	"time"
)

func atMS(ms int64) time.Time { return time.Unix(1000, 0).Add(time.Duration(ms) * time.Millisecond) }

func viewOf(t *testing.T, known *Container) (*view, *entry) {
	v := newView(nil)
	v.applyList([]Summary{{ID: "a", State: Running}}, atMS(-60000))
	e := v.nextToInspect()
	v.applyInspection(e, known, nil, atMS(-60000))
	v.synced = true
	v.out = nil
	return v, e
}

// Run B's end is inspected, and run C's start event is read before the answer is
// applied. Then an operator stops C.
func testStartDuringInspection(t *testing.T, startC int64) {
	a := &Container{ID: "a", State: Running, StartedAt: atMS(-100000)}
	v, e := viewOf(t, a)
	ev := func(act Action, ms int64, sig int) {
		v.applyEvent(Event{ID: "a", Action: act, Signal: sig, Time: atMS(ms)}, 0, atMS(ms))
	}
	ev(ActionDie, 0, 0)
	ev(ActionStart, 101, 0) // B
	ev(ActionDie, 200, 0)   // B
	if v.nextToInspect() != e {
		t.Fatal("no inspection")
	}
	ev(ActionStart, startC+1, 0) // C, drained before the answer of the inspection
	b := &Container{ID: "a", State: Restarting, StartedAt: atMS(100), FinishedAt: atMS(199), ExitCode: 1}
	v.applyInspection(e, b, nil, atMS(startC+2))
	v.out = nil
	ev(ActionKill, startC+10, 15) // an operator stops C
	if len(v.out) != 1 || v.out[0].Kind != Killed || !v.out[0].Of.Newer {
		t.Errorf("kill of C before C is observed: sent %+v, want a Killed of a newer run", v.out)
	}
	v.out = nil
	if v.nextToInspect() != e {
		t.Fatal("no second inspection")
	}
	c := &Container{ID: "a", State: Running, StartedAt: atMS(startC)}
	v.applyInspection(e, c, nil, atMS(startC+12))
	v.out = nil
	ev(ActionKill, startC+2000, 15)
	if len(v.out) != 1 || v.out[0].Kind != Killed || v.out[0].Of.Run != c.Run() {
		t.Errorf("kill of C 2 s after C is observed: sent %+v, want a Killed of C", v.out)
	}
}

// A container crashes, and the engine starts it again, soon or later, while its end is
// inspected.
func TestStartDuringInspection(t *testing.T) {
	for _, startC := range []int64{400, 20000} {
		testStartDuringInspection(t, startC)
	}
}

// First sight: the start of B is read while the inspection still shows A, or no run.
func TestStartDuringFirstInspection(t *testing.T) {
	for _, shown := range []Container{
		{ID: "a", State: Exited, StartedAt: atMS(-100000), FinishedAt: atMS(-50000), ExitCode: 1},
		{ID: "a", State: Created},
	} {
		v := newView(nil)
		v.knownRun = func(string) (Run, bool) { return shown.Run(), shown.State == Exited }
		v.applyList([]Summary{{ID: "a", State: shown.State}}, atMS(0))
		v.streamFrom = atMS(-1000)
		e := v.nextToInspect()
		ev := func(act Action, ms int64, sig int) {
			v.applyEvent(Event{ID: "a", Action: act, Signal: sig, Time: atMS(ms)}, 0, atMS(ms))
		}
		ev(ActionStart, 10, 0) // B
		v.applyInspection(e, &shown, nil, atMS(11))
		v.synced, v.out = true, nil
		ev(ActionKill, 20, 15)
		if len(v.out) != 1 || !v.out[0].Of.Newer {
			t.Errorf("%s: sent %+v, want a Killed of a newer run", shown.State, v.out)
		}
		if v.nextToInspect() != e {
			t.Fatal("no second inspection")
		}
		b := &Container{ID: "a", State: Running, StartedAt: atMS(9)}
		v.applyInspection(e, b, nil, atMS(30))
		v.out = nil
		ev(ActionDie, 40, 0)
		if len(v.out) != 1 || v.out[0].Kind != Died || v.out[0].Of.Run != b.Run() || v.out[0].Of.Newer {
			t.Errorf("%s: sent %+v, want a Died of B", shown.State, v.out)
		}
	}
}

// splitCauses drops the kill of a later run if the shown run's start was told too.
func TestCauseOfALaterRun(t *testing.T) {
	v := newView(nil)
	v.synced = true
	v.replaying = false
	ev := func(act Action, ms int64, sig int) {
		v.applyEvent(Event{ID: "a", Action: act, Signal: sig, Time: atMS(ms)}, 0, atMS(ms))
	}
	ev(ActionCreate, 0, 0)
	ev(ActionStart, 101, 0)
	ev(ActionDie, 200, 0)
	e := v.nextToInspect()
	ev(ActionStart, 10001, 0)
	ev(ActionKill, 10010, 15)
	v.applyInspection(e, &Container{ID: "a", State: Restarting, StartedAt: atMS(100), FinishedAt: atMS(199)}, nil, atMS(10011))
	kills := 0
	for _, u := range v.out {
		if u.Kind == Killed && u.Of.Newer {
			kills++
		}
	}
	if kills != 1 {
		t.Errorf("sent %+v, want the kill of the newer run", v.out)
	}
}

// The events of A's stop and of B's start are lost. B is inspected, and the history tells the
// events after a reconnect, when B's start event no longer counts as one that may come.
func TestLateHistoryOfAnEarlierRun(t *testing.T) {
	a := &Container{ID: "a", State: Running, StartedAt: atMS(-100000)}
	v, e := viewOf(t, a)
	ev := func(act Action, ms, now int64) {
		v.applyEvent(Event{ID: "a", Action: act, Time: atMS(ms)}, 0, atMS(now))
	}
	ev(ActionDie, 0, 0)
	if v.nextToInspect() != e {
		t.Fatal("no inspection")
	}
	b := &Container{ID: "a", State: Running, StartedAt: atMS(50), FinishedAt: atMS(0)}
	v.applyInspection(e, b, nil, atMS(60))
	v.disconnected()
	v.connected(atMS(6000))
	v.skipTo, v.skipCertain, v.skipUntil = atMS(0), true, atMS(70000)
	v.out = nil
	ev(ActionDie, 0, 6000)
	ev(ActionStop, 1, 6000)
	for _, u := range v.out {
		if u.Kind == Stopped {
			t.Errorf("sent %+v, of B", u)
		}
	}
	ev(ActionStart, 51, 6000)
	ev(ActionStop, 3000, 6000)
	if n := len(v.out); n == 0 || v.out[n-1].Kind != Stopped || v.out[n-1].Of.Run != b.Run() || v.out[n-1].Of.Newer {
		t.Errorf("sent %+v, want a Stopped of B", v.out)
	}
}

// At first sight the history tells a run that has ended, and the container has a newer run, whose
// start event is yet to come.
func TestFirstInspectionAheadOfHistory(t *testing.T) {
	v := newView(nil)
	ev := func(act Action, ms int64) {
		v.applyEvent(Event{ID: "a", Action: act, Time: atMS(ms)}, 0, atMS(30000))
	}
	ev(ActionStart, 1000)
	ev(ActionDie, 2000)
	e := v.nextToInspect()
	b := &Container{ID: "a", State: Running, StartedAt: atMS(30001), FinishedAt: atMS(2000)}
	v.applyInspection(e, b, nil, atMS(30005))
	if len(v.out) != 1 || v.out[0].Kind != Observed || len(v.out[0].Causes) != 0 {
		t.Errorf("sent %+v, want an Observed alone", v.out)
	}
	v.out = nil
	ev(ActionStart, 30002)
	ev(ActionKill, 40000)
	if len(v.out) != 1 || v.out[0].Of.Run != b.Run() || v.out[0].Of.Newer {
		t.Errorf("sent %+v, want a Killed of B", v.out)
	}
}

// A run has just ended, and the start event of the next one is lost. A signal that the engine sent
// after the end is of that one; late news of the ended run comes before its end.
func TestSignalSoonAfterTheEnd(t *testing.T) {
	for _, tt := range []struct {
		at    int64
		newer bool
	}{{-10, false}, {200, false}, {1700, true}} {
		v, e := viewOf(t, &Container{ID: "a", State: Running, StartedAt: atMS(-100000)})
		v.requestInspection(e)
		if v.nextToInspect() != e {
			t.Fatal("no inspection")
		}
		v.applyInspection(e, &Container{ID: "a", State: Exited, StartedAt: atMS(-100000), FinishedAt: atMS(0)}, nil, atMS(10))
		v.runDue(atMS(600))
		v.out = nil
		v.applyEvent(Event{ID: "a", Action: ActionKill, Signal: 15, Time: atMS(tt.at)}, 0, atMS(1800))
		if len(v.out) != 1 || v.out[0].Of.Newer != tt.newer {
			t.Errorf("a signal %d ms after the end: sent %+v, newer wanted: %v", tt.at, v.out, tt.newer)
		}
	}
}

// The engine's clock is set back between A's end and B's start. The connection breaks before B's
// start event has come, and is soon back: the order still tells what is A's.
func TestClockSetBackBeforeAReconnect(t *testing.T) {
	for _, reconnect := range []bool{false, true} {
		v, e := viewOf(t, &Container{ID: "a", State: Running, StartedAt: atMS(-100000)})
		v.requestInspection(e)
		if v.nextToInspect() != e {
			t.Fatal("no inspection")
		}
		v.applyInspection(e, &Container{ID: "a", State: Running, StartedAt: atMS(-10000), FinishedAt: atMS(1)}, nil, atMS(60))
		if reconnect {
			v.disconnected()
			v.connected(atMS(300))
		}
		v.out = nil
		for _, act := range []Action{ActionKill, ActionDie, ActionStop} { // docker stop of A
			v.applyEvent(Event{ID: "a", Action: act, Signal: 15, Time: atMS(0)}, 0, atMS(400))
		}
		if len(v.out) > 0 {
			t.Errorf("reconnect %v: sent %+v of B", reconnect, v.out)
		}
	}
}

// A container could not be inspected at first. When it is, its run is old, and its start event is
// not yet to come: the next start event is of the next run, and so is a signal after it.
func TestLateFirstInspection(t *testing.T) {
	v := newView(nil)
	v.applyList([]Summary{{ID: "a", State: Running}}, atMS(0))
	v.synced = true
	ev := func(act Action, ms int64) {
		v.applyEvent(Event{ID: "a", Action: act, Signal: 15, Time: atMS(ms)}, 0, atMS(ms))
	}
	e := v.nextToInspect()
	v.applyInspection(e, &Container{ID: "a", State: Running, StartedAt: atMS(-50000)}, nil, atMS(10000))
	ev(ActionDie, 11000)
	ev(ActionStart, 11501)
	if v.nextToInspect() != e {
		t.Fatal("no inspection")
	}
	b := &Container{ID: "a", State: Running, StartedAt: atMS(11500), FinishedAt: atMS(11000)}
	v.applyInspection(e, b, nil, atMS(11600))
	v.out = nil
	ev(ActionKill, 12000)
	if len(v.out) != 1 || v.out[0].Of.Run != b.Run() || v.out[0].Of.Newer {
		t.Errorf("sent %+v, want a Killed of B", v.out)
	}
}

// The engine's clock is a little ahead, which counts as no difference. A run that has just begun is
// not taken for one from before its clock was set back.
func TestClockALittleAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newView(nil)
		v.applyList([]Summary{{ID: "a", State: Running}}, time.Now())
		e := v.nextToInspect()
		began := time.Now().Add(time.Second)
		v.applyInspection(e, &Container{ID: "a", State: Running, StartedAt: began, FinishedAt: began.Add(-40 * time.Millisecond)}, nil, time.Now())
		v.out = nil
		v.applyEvent(Event{ID: "a", Action: ActionStop, Time: began.Add(-30 * time.Millisecond)}, 0, time.Now()) // of the run before
		if len(v.out) > 0 {
			t.Errorf("sent %+v", v.out)
		}
	})
}
