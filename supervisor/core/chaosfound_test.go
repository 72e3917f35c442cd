package core

import (
	"testing"
	"time"
)

// These are minimal tales of what chaos has found.

// A start that an ending daemon has tried in vain is the next one's.
func TestStartLeftOver(t *testing.T) {
	w := newWorld(t)
	w.spec.RestartPolicy = Always
	for _, line := range [][]string{{"runs"}, {"start-fails", "yes"}, {"exits", "1"}, {"shutdown"}} {
		if err := w.happen(line[0], line[1:]); err != nil {
			t.Fatal(err)
		}
		w.goTo(w.now.Add(time.Second))
	}
	m := Memory{Facts: Remember(&w.c, "web", &w.state)}
	if s := m.State(w.spec, w.now); !w.state.Settled() || s.Action.Restart != ByExit || s.Shutdown.LeftOver {
		t.Errorf("settled %v, recalled %+v", w.state.Settled(), s)
	}
}
