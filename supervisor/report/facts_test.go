package report

import (
	"testing"
	"time"

	"healthd/runtime"
	"healthd/supervisor"
	"healthd/supervisor/core"
)

// A container that is made again has the count of the one before it, as soon as it runs: these are no new restarts.
func TestInheritedRestartsAreNotNew(t *testing.T) {
	now := time.Unix(1_000_000_000, 0)
	look := func(id string, started int64, n int) (seen sight) {
		state := core.State{Kept: &core.Kept{}}
		if state.Lasting.Restarts[core.ByExit] = n; started > 0 {
			state.Run.ID = runtime.Run{ID: id, Started: started}
		}
		v := &core.View{Container: &runtime.Container{Runtime: "docker", ID: id, Name: "web"}, Spec: &core.Spec{}, Service: "web", State: state}
		seen.read(supervisor.NewBoard([]supervisor.RuntimeView{{Name: "docker", Up: true, Synced: true}}, v), now)
		return seen
	}
	l := &ledger{counts: map[string][numCauses]int{}, before: map[string][numCauses]int{}, services: map[string]*service{"web": {}}}
	for _, seen := range []sight{look("c1", 1, 4), look("c1", 2, 5), look("c2", 0, 0), look("c2", 3, 5), look("c2", 4, 6)} {
		l.countRestarts(seen.restarts, now)
	}
	if got := l.services["web"].total.Restarts[core.ByExit]; got != 2 {
		t.Errorf("%d restarts, want 2", got)
	}
}

// A deploy whose only container the engine does not start is not ready, and nobody has stopped it.
func TestRefusedStartIsNotStopped(t *testing.T) {
	now := time.Unix(1_000_000_000, 0)
	for refusal, want := range map[string]Phase{"": Stopped, "port is already allocated": Starting} {
		v := &core.View{Container: &runtime.Container{Runtime: "docker", ID: "c1", Name: "web", Error: refusal}, Spec: &core.Spec{}, Service: "web", State: core.NewState()}
		v.State.Engine.State = runtime.Created
		var seen sight
		seen.read(supervisor.NewBoard([]supervisor.RuntimeView{{Name: "docker", Up: true, Synced: true}}, v), now)
		if got := (&service{}).next(&seen.facts[0]); got != want {
			t.Errorf("%q: phase %d, want %d", refusal, got, want)
		}
	}
}
