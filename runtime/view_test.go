package runtime

import (
	"errors"
	"slices"
	"testing"
	"time"
)

// Red Hat's images have a label "name". In events, the engine's own attribute of that name
// replaces it.
func TestLabelHiddenInEvents(t *testing.T) {
	v := newView(func(c Traits) bool { return c.Labels["name"] == "db" })
	c := &Container{ID: "a", Name: "web", Labels: map[string]string{"name": "db"}, State: Running, StartedAt: time.Unix(1, 0)}
	v.applyList([]Summary{{ID: "a", Name: "web", Labels: c.Labels, State: Running}}, time.Unix(1, 0))
	v.applyInspection(v.nextToInspect(), c, nil, time.Unix(2, 0))
	v.out = nil
	v.applyEvent(Event{ID: "a", Action: ActionKill, Signal: 15, Time: time.Unix(3, 0), Name: "web", Labels: map[string]string{}}, 0, time.Unix(9, 0))
	if len(v.out) != 1 || v.out[0].Kind != Killed {
		t.Errorf("an event made the container unwanted: %+v", v.out)
	}
}

func TestStateFromEvent(t *testing.T) {
	for _, tt := range []struct {
		name   string
		events []Action
		want   bool
	}{
		{"found by a list", nil, false},
		{"a rename is no change of state", []Action{ActionRename}, false},
		{"a create event came", []Action{ActionCreate}, true},
		{"a die event came", []Action{ActionDie}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := newView(nil)
			v.applyList([]Summary{{ID: "a", Name: "a", State: Exited}}, time.Unix(1, 0))
			for i, a := range tt.events {
				v.applyEvent(Event{ID: "a", Action: a, Time: time.Unix(int64(i+1), 0)}, 0, time.Unix(9, 0))
			}
			v.applyInspection(v.nextToInspect(), &Container{ID: "a", Name: "a", State: Exited}, nil, time.Unix(9, 0))
			if len(v.out) != 1 || v.out[0].StateFromEvent != tt.want {
				t.Errorf("sent %+v, want StateFromEvent %v", v.out, tt.want)
			}
		})
	}
}

// An update covers every event up to its SeenUntil.
func TestSeenUntil(t *testing.T) {
	at := func(s int64) time.Time { return time.Unix(s, 0) }
	v := newView(nil)
	v.newest.at = at(1) // as of a Watcher before
	event := func(id string, a Action, s int64) {
		v.applyEvent(Event{ID: id, Action: a, Time: at(s)}, 0, time.Unix(9, 0))
	}
	expect := func(what string, kind UpdateKind, seen int64) {
		t.Helper()
		if len(v.out) != 1 || v.out[0].Kind != kind || !v.out[0].SeenUntil.Equal(at(seen)) {
			t.Fatalf("%s: sent %+v, want kind %d and seen %d", what, v.out, kind, seen)
		}
		v.out = nil
	}
	v.applyList([]Summary{{ID: "a", State: Running}, {ID: "b", State: Running}}, time.Unix(1, 0))
	a, b := v.nextToInspect(), v.nextToInspect()
	v.applyInspection(a, &Container{ID: "a", State: Running}, nil, at(2))
	expect("no event yet", Observed, 1)
	event("b", ActionKill, 3)
	event("a", ActionKill, 4)
	expect("b's kill is held back", Killed, 1)
	v.applyInspection(b, &Container{ID: "b", State: Running}, nil, at(5))
	if len(v.out) == 0 || len(v.out[0].Causes) != 1 {
		t.Fatalf("sent %+v, want a cause", v.out)
	}
	expect("b's kill is sent", Observed, 4)
	event("b", ActionStop, 6)
	expect("an event of a known container", Stopped, 6)
	event("c", ActionCreate, 7)
	event("c", ActionDestroy, 8)
	event("a", ActionDestroy, 9)
	expect("c came and went", Removed, 9)
	queued := len(v.inspectQueue)
	for i := range int64(bookmarkEvery) {
		event("b", ActionExec, 10+i)
	}
	expect("nothing but execs", Bookmark, 9+bookmarkEvery)
	if len(v.inspectQueue) != queued {
		t.Errorf("execs make %d inspections", len(v.inspectQueue)-queued)
	}
}

// The next update carries the lag of the newest event, once.
func TestLag(t *testing.T) {
	at := func(s int64) time.Time { return time.Unix(s, 0) }
	v := newView(func(c Traits) bool { return c.Name != "other" })
	event := func(id string, a Action, s int64, lag time.Duration) {
		v.applyEvent(Event{ID: id, Action: a, Time: at(s), Name: id, Labels: map[string]string{}}, lag, time.Unix(9, 0))
	}
	expect := func(what string, lags ...time.Duration) {
		t.Helper()
		var got []time.Duration
		for _, u := range v.out {
			got = append(got, u.Lag)
		}
		if !slices.Equal(got, lags) {
			t.Errorf("%s: sent %+v, want lags %v", what, v.out, lags)
		}
		v.out = nil
	}
	event("a", ActionCreate, 1, 3*time.Second)
	event("a", ActionStart, 2, time.Second)
	a := v.nextToInspect()
	v.applyInspection(a, &Container{ID: "a", Name: "a", State: Running, StartedAt: at(2)}, nil, at(3))
	expect("the observation of a start", time.Second)
	event("a", ActionDie, 4, 2*time.Second)
	expect("an end", 2*time.Second)
	v.applyInspection(v.nextToInspect(), &Container{ID: "a", Name: "a", State: Exited, StartedAt: at(2), FinishedAt: at(4)}, nil, at(5))
	for len(v.waiting) > 0 {
		v.runDue(at(100))
	}
	expect("what is known of it since", 0)
	for i := range int64(bookmarkEvery) {
		event("other", ActionStart, 10+i, time.Duration(i))
	}
	expect("events of a container that nobody wants", bookmarkEvery-1)
	event("other", ActionExec, 40, time.Minute)
	event("a", ActionDestroy, 41, 0) // replayed
	expect("a replayed event has no lag", time.Minute)
}

// A signal may come between the start of a run and its first inspection.
func TestSignalOfARunNotObservedYet(t *testing.T) {
	at := func(s int64) time.Time { return time.Unix(s, 0) }
	v := newView(nil)
	v.streamFrom = at(2)
	v.applyList([]Summary{{ID: "a", State: Exited}}, time.Unix(1, 0))
	v.applyInspection(v.nextToInspect(), &Container{ID: "a", State: Exited, StartedAt: at(1), FinishedAt: at(2)}, nil, at(2))
	v.out = nil
	v.applyEvent(Event{ID: "a", Action: ActionKill, Signal: 15, Time: at(3)}, 0, at(5))
	v.applyEvent(Event{ID: "a", Action: ActionStart, Time: at(4)}, 0, at(5))
	v.applyEvent(Event{ID: "a", Action: ActionKill, Signal: 15, Time: at(5)}, 0, at(5))
	if len(v.out) != 2 || v.out[0].Of.Newer || !v.out[1].Of.Newer || !v.out[1].Of.Started.Equal(at(4)) {
		t.Errorf("sent %+v", v.out)
	}
}

// The engine's history comes after the list: what is known of it stays known.
func TestHistoryAfterTheList(t *testing.T) {
	at := func(s int64) time.Time { return time.Unix(s, 0) }
	v := newView(nil)
	v.newest.at, v.skipTo, v.skipCertain, v.skipUntil = at(20), at(20), true, at(60)
	v.applyList([]Summary{{ID: "a", State: Running}}, at(30))
	v.applyInspection(v.nextToInspect(), &Container{ID: "a", State: Running, StartedAt: at(15)}, nil, at(30))
	v.out = nil
	v.applyEvent(Event{ID: "a", Action: ActionKill, Signal: 15, Time: at(14)}, 0, at(31)) // of the run before
	v.applyEvent(Event{ID: "a", Action: ActionStart, Time: at(15)}, 0, at(31))
	v.applyEvent(Event{ID: "b", Action: ActionExec, Time: at(20)}, 0, at(31))
	if len(v.out) != 0 {
		t.Errorf("sent %+v", v.out)
	}
	v.applyEvent(Event{ID: "a", Action: ActionKill, Signal: 15, Time: at(32)}, 0, at(40))
	if len(v.out) != 1 || v.out[0].Kind != Killed || v.out[0].Of.Newer {
		t.Errorf("sent %+v, want the new signal", v.out)
	}
}

// At the first connection nothing but the time tells what is history.
func TestFirstHistoryAfterTheList(t *testing.T) {
	at := func(s int64) time.Time { return time.Unix(s, 0) }
	v := newView(nil)
	v.skipBefore, v.skipUntil = at(20), at(80)
	v.applyList([]Summary{{ID: "a", State: Running}}, at(21))
	v.applyInspection(v.nextToInspect(), &Container{ID: "a", State: Running, StartedAt: at(10)}, nil, at(21))
	v.out = nil
	v.applyEvent(Event{ID: "a", Action: ActionKill, Signal: 15, Time: at(9)}, 0, at(30)) // of the run before
	v.synced = true
	v.applyEvent(Event{ID: "a", Action: ActionKill, Signal: 15, Time: at(9)}, 0, at(20)) // as soon as history usually comes
	if len(v.out) != 0 || v.lossy {
		t.Errorf("sent %+v, lossy: %v", v.out, v.lossy)
	}
	v.applyEvent(Event{ID: "a", Action: ActionDie, Time: at(9)}, 0, at(30)) // or the clock was set back
	if len(v.out) != 0 || !v.lossy {
		t.Errorf("sent %+v, lossy: %v; want nothing, and a list", v.out, v.lossy)
	}
	v.applyEvent(Event{ID: "a", Action: ActionKill, Signal: 15, Time: at(31)}, 0, at(31))
	v.applyEvent(Event{ID: "a", Action: ActionKill, Signal: 9, Time: at(5)}, 0, at(41)) // the clock was set back
	if len(v.out) != 2 || v.out[1].Signal != 9 {
		t.Errorf("sent %+v", v.out)
	}
}

// No event need tell that a start failed, and no list shows it: only an inspection does.
func TestRefusedFirstStartIsSeen(t *testing.T) {
	now := time.Unix(1, 0)
	v := newView(nil)
	list := []Summary{{ID: "a", State: Created}}
	v.applyList(list, now)
	v.applyInspection(v.nextToInspect(), &Container{ID: "a", State: Created}, nil, now)
	v.out = nil
	v.applyList(list, now)
	e := v.nextToInspect()
	if e == nil {
		t.Fatal("it is not inspected again")
	}
	v.applyInspection(e, &Container{ID: "a", State: Created, Error: "no such directory"}, nil, now)
	if len(v.out) != 1 || v.out[0].Container.Error == "" {
		t.Errorf("sent %+v", v.out)
	}
}

// A container that the engine lists but does not show is told of until an inspection succeeds.
func TestUnseen(t *testing.T) {
	now := time.Unix(1, 0)
	v := newView(func(c Traits) bool { return c.Name != "other" })
	list := []Summary{{ID: "a", Name: "web", State: Running}, {ID: "b", Name: "other", State: Running}}
	v.applyList(list, now)
	e := v.nextToInspect()
	if all := v.unseen(); len(all) > 0 {
		t.Errorf("%+v before the answer", all)
	}
	v.applyInspection(e, nil, errors.New("500: no such layer"), now)
	if all := v.unseen(); len(all) != 1 || all[0].Name != "web" || all[0].Err.Error() != "500: no such layer" {
		t.Errorf("%+v", all)
	}
	v.requestInspection(e)
	v.applyInspection(v.nextToInspect(), &Container{ID: "a", Name: "web", State: Running, StartedAt: now}, nil, now)
	if all := v.unseen(); len(all) > 0 {
		t.Errorf("%+v when it is known", all)
	}
	v.requestInspection(e)
	v.applyInspection(v.nextToInspect(), nil, errors.New("500: no such layer"), now)
	if all := v.unseen(); len(all) > 0 {
		t.Errorf("%+v although it was known", all)
	}
}
