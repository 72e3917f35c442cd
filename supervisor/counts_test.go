package supervisor

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"healthd/runtime"
	"healthd/supervisor/core"
)

// The counts are what a walk over all containers finds, whatever became of them.
func TestCounts(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	b := NewBoard(nil)
	slots := map[string]*slot{}
	for range 5000 {
		id := fmt.Sprint(rnd.IntN(20))
		s := slots[id]
		switch {
		case s == nil:
			s = &slot{}
			slots[id] = s
			b.put(s, anyView(rnd, id))
		case rnd.IntN(4) == 0:
			b.remove(s)
			delete(slots, id)
		default:
			b.put(s, anyView(rnd, id))
		}
		if got, want := b.Counts(), walked(b); got != want {
			t.Fatalf("got %+v, want %+v", got, want)
		}
	}
}

func anyView(rnd *rand.Rand, id string) *core.View {
	v := &core.View{Container: &runtime.Container{ID: id, Name: "web-" + id}, State: core.NewState()}
	s := &v.State
	s.Conditions.Ready.Status, s.Lasting.HeldHere, s.Action.GaveUp = rnd.IntN(2) == 0, rnd.IntN(2) == 0, rnd.IntN(2) == 0
	s.Conditions.ContainerReady = s.Conditions.Ready
	switch rnd.IntN(6) {
	case 0:
		s.Action.Stopping = core.ByOperator
	case 1:
		s.Action.Restart = core.ByExit
	case 2:
		s.Action.Call = core.StopCall
	}
	if rnd.IntN(4) == 0 {
		v.Invalid = "wrong labels"
		s.Conditions.Ready.Status = false
	} else {
		v.Spec = &core.Spec{}
	}
	return v
}

func walked(b *Board) Counts {
	var c Counts
	add := func(n *int, ok bool) {
		if ok {
			*n++
		}
	}
	for v := range b.All() {
		c.All++
		ready, _, _ := v.Readiness()
		add(&c.Ready, ready)
		a := v.State.Action
		busy := a.Stopping != core.NoCause || a.Restart != core.NoCause || a.Call != core.NoCall
		add(&c.Restarting, busy && !a.GaveUp)
		add(&c.Held, v.State.Lasting.Held())
		add(&c.GaveUp, a.GaveUp)
		add(&c.Invalid, v.Invalid != "")
	}
	return c
}
