package haproxy

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"healthd/runtime"
	"healthd/supervisor"
	"healthd/supervisor/core"
)

// placed is a container of backend and service, of an engine where names are unique, or are not.
func placed(backend, service, engine, id, name, what string) *core.View {
	v := newView(backend, name, "127.0.0.1", 80, what)
	v.Container = &runtime.Container{Runtime: engine, ID: id, Name: name, SharesName: engine == "containerd", Address: "127.0.0.1"}
	v.Service, v.State.Run.ID = service, runtime.Run{ID: id, Started: 1}
	return v
}

// A change of readiness touches a member, and no more; other changes make the members of a backend anew, and of those alone.
func TestRosterChanges(t *testing.T) {
	t.Parallel()
	start := func() map[string]*core.View {
		return map[string]*core.View{
			"a": placed("web", "shop", "docker", "a", "c1", "up"), "b": placed("web", "shop", "docker", "b", "c2", "up"),
			"c": placed("api", "api", "docker", "c", "c3", "up"), "d": placed("", "shop", "docker", "d", "c4", "up"),
		}
	}
	for name, tc := range map[string]struct {
		id            string
		view          *core.View // nil: it is gone
		touched, made []string   // members that are touched, backends that are made anew
	}{
		"readiness":           {"a", placed("web", "shop", "docker", "a", "c1", "down"), []string{"c1"}, nil},
		"a drain":             {"b", placed("web", "shop", "docker", "b", "c2", "stopping"), []string{"c2"}, nil},
		"nothing":             {"a", placed("web", "shop", "docker", "a", "c1", "up"), nil, nil},
		"it is gone":          {"a", nil, nil, []string{"web"}},
		"it is new":           {"e", placed("api", "api", "docker", "e", "c5", "up"), nil, []string{"api"}},
		"another backend":     {"a", placed("api", "shop", "docker", "a", "c1", "up"), nil, []string{"api", "web"}},
		"a new backend":       {"a", placed("new", "shop", "docker", "a", "c1", "up"), nil, []string{"new", "web"}},
		"another name":        {"a", placed("web", "shop", "docker", "a", "c9", "up"), nil, []string{"web"}},
		"a namesake":          {"e", placed("api", "api", "containerd", "e", "c3", "up"), nil, []string{"api"}},
		"a namesake, outside": {"e", placed("", "shop", "podman", "e", "c1", "up"), nil, []string{"web"}},
		"of no backend":       {"d", placed("", "shop", "docker", "d", "c4", "down"), nil, nil},
		"never seen and gone": {"z", nil, nil, nil},
	} {
		views := start()
		r := newRoster()
		r.takeAll(boardOf(views))
		for _, l := range r.backends {
			l.clear()
		}
		views[tc.id] = tc.view
		if tc.view == nil {
			delete(views, tc.id)
		}
		r.take(map[string]bool{tc.id: true}, boardOf(views))
		var touched, made []string
		for backend, l := range r.backends {
			for member := range l.touched {
				touched = append(touched, member)
			}
			if l.remade {
				made = append(made, backend)
			}
		}
		slices.Sort(made)
		if !slices.Equal(touched, tc.touched) || !slices.Equal(made, tc.made) {
			t.Errorf("%s: touched %v, want %v; made anew %v, want %v", name, touched, tc.touched, made, tc.made)
		}
		compareRosters(t, name, r, boardOf(views))
	}
}

func boardOf(views map[string]*core.View) *supervisor.Board {
	var all []*core.View
	for _, v := range views {
		all = append(all, v)
	}
	return supervisor.NewBoard(nil, all...)
}

// compareRosters fails the test when a roster is not as if it had taken in the whole board.
func compareRosters(t *testing.T, when string, r *roster, board *supervisor.Board) {
	t.Helper()
	want := newRoster()
	want.takeAll(board)
	for backend, l := range r.backends {
		w := want.roll(backend)
		if !slices.Equal(l.members, w.members) || l.awaiting != w.awaiting {
			t.Errorf("%s: %s has %+v, %d await a drain; want %+v, %d", when, backend, l.members, l.awaiting, w.members, w.awaiting)
		}
	}
	for backend := range want.backends {
		if r.backends[backend] == nil {
			t.Errorf("%s: %s is missing", when, backend)
		}
	}
}

// Whatever changes in whatever order, the members are those of the whole board.
func TestRosterFollowsTheBoard(t *testing.T) {
	t.Parallel()
	for seed := range uint64(10) {
		random := rand.New(rand.NewPCG(seed, 1))
		pick := func(from ...string) string { return from[random.IntN(len(from))] }
		views, there := map[string]*core.View{}, map[string]supervisor.Member{}
		board := func() *supervisor.Board {
			b := boardOf(views)
			b.ShowRemote(slices.Collect(maps.Values(there)), nil)
			return b
		}
		r := newRoster()
		for turn := range 50 {
			ids := map[string]bool{}
			if name := pick("c1", "c2", "c3"); random.IntN(2) == 0 {
				m := elsewhere(pick("", "web", "api"), name, 80, pick("up", "down", "stopping"))
				m.Service = pick("shop", "blog")
				there[m.ID], ids[m.ID] = m, true
			} else {
				delete(there, "h2/id-"+name)
				ids["h2/id-"+name] = true
			}
			for range 1 + random.IntN(3)*20 {
				n := random.IntN(60)
				id, engine := fmt.Sprint(n), []string{"docker", "podman", "containerd"}[n%3]
				ids[id] = true
				switch old := views[id]; {
				case random.IntN(4) == 0:
					delete(views, id)
				case old != nil && random.IntN(3) > 0: // only its state changes
					views[id] = placed(old.Spec.Publish.HAProxy.Backend, old.Service, engine, id, old.Container.Name, pick("up", "down", "stopping"))
				default:
					views[id] = placed(pick("", "web", "api"), pick("shop", "blog"), engine, id, pick("c1", "c2", "c"+id), pick("up", "down", "stopping"))
				}
			}
			r.take(ids, board())
			compareRosters(t, fmt.Sprintf("seed %d, turn %d", seed, turn), r, board())
			if t.Failed() {
				return
			}
		}
	}
}

// While HAProxy is away for long, containers come, change and go: what is kept of them has a bound, and a whole look comes.
func TestTouchedMembersAreBounded(t *testing.T) {
	t.Parallel()
	r := newRoster()
	for i := range 10 * maxWatched {
		id := fmt.Sprint(i)
		for _, what := range []string{"up", "down"} {
			r.take(map[string]bool{id: true}, boardOf(map[string]*core.View{id: placed("web", "shop", "docker", id, "c"+id, what)}))
		}
		r.take(map[string]bool{id: true}, boardOf(nil))
	}
	if l := r.roll("web"); len(l.touched) > maxWatched || !l.remade {
		t.Errorf("%d are kept, want %d at most; remade: %v", len(l.touched), maxWatched, l.remade)
	}
}

// Changes are known one by one up to a bound, and each is taken once.
func TestChangesAreBounded(t *testing.T) {
	t.Parallel()
	c := newChanges()
	if _, all, _ := c.take(); !all {
		t.Error("the first time, not everything is new")
	}
	if ids, all, since := c.take(); len(ids) > 0 || all || !since.IsZero() {
		t.Errorf("with no change: %v, %v, %v", ids, all, since)
	}
	first := time.Unix(1, 0)
	c.tell("a", first)
	c.tell("b", first.Add(time.Second))
	select {
	case <-c.signal:
	default:
		t.Error("nobody is told")
	}
	if ids, all, since := c.take(); len(ids) != 2 || all || since != first {
		t.Errorf("with two changes: %v, %v, %v", ids, all, since)
	}
	for i := range maxChanges + 1 {
		c.tell(fmt.Sprint(i), first)
	}
	if ids, all, _ := c.take(); len(ids) > 0 || !all {
		t.Errorf("with many: %d, %v", len(ids), all)
	}
	c.tell("", first)
	if _, all, _ := c.take(); !all {
		t.Error("a change of anything is lost")
	}
}
