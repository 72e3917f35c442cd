package supervisor

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"healthd/prober"
	"healthd/runtime"
	"healthd/supervisor/core"
)

// handPlaces is a Places of which the test decides all.
type handPlaces struct {
	mu    sync.Mutex
	calls []string // "want a web", "release a"
	state PlaceState
}

func (p *handPlaces) Want(id, group string, _ core.Share) { p.note("want " + id + " " + group) }
func (p *handPlaces) Release(id string)                   { p.note("release " + id) }

func (p *handPlaces) note(call string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls = append(p.calls, call)
}

func (p *handPlaces) State(string) PlaceState {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state
}

// take returns the calls since the last take.
func (p *handPlaces) take() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	calls := strings.Join(p.calls, ", ")
	p.calls = nil
	return calls
}

// placesHarness is a harness with n ready containers of a group of a fleet.
type placesHarness struct {
	*harness
	t      *testing.T
	places *handPlaces
}

func newPlacesHarness(t *testing.T, n int, guard core.Guard, group core.Group) *placesHarness {
	places := &handPlaces{}
	h := &placesHarness{newHarnessWith(t, slowReadySpec(group), func(c *Config) { c.Places, c.Guard = places, guard }), t, places}
	startReplicas(h.harness, n)
	return h
}

// set sets the state of all places, and tells of it.
func (h *placesHarness) set(s PlaceState) {
	h.places.mu.Lock()
	h.places.state = s
	h.places.mu.Unlock()
	if err := h.PlacesChanged(h.t.Context()); err != nil {
		h.t.Fatal(err)
	}
	synctest.Wait()
}

func (h *placesHarness) expect(what, got, want string) {
	h.t.Helper()
	if got != want {
		h.t.Errorf("%s: %q, want %q", what, got, want)
	}
}

func (h *placesHarness) expectCalls(want string) {
	h.t.Helper()
	h.expect("calls", strings.Join(h.engine.calls(), ", "), want)
}

var fleetGroup = core.Group{Name: "web", Fleet: true}

// The only member of a group on this host needs a place as well. It wants it until it is ready again.
func TestRestartNeedsAPlaceOfTheFleet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newPlacesHarness(t, 1, core.Guard{}, fleetGroup)
		defer h.close()
		h.expect("before", h.places.take(), "")
		h.failLiveness("a")
		h.expect("wait", h.waitReason("a"), "GroupLimit failed liveness probe, its restart waits for a place of the fleet")
		h.expect("places", h.places.take(), "want a web")
		h.set(PlaceState{On: "h1:web-1 and 2 more"})
		h.expect("wait", h.waitReason("a"), "GroupLimit failed liveness probe, its restart waits for h1:web-1 and 2 more")
		h.set(PlaceState{On: "h1:web-1 and 2 more", Unreachable: true})
		h.set(PlaceState{On: "h1:web-1"})
		h.expectCalls("stop a 30s, start a") // unreachable = "local"
		h.expect("places", h.places.take(), "")
		pass(6 * time.Second)
		h.expect("places", h.places.take(), "release a")
	})
}

func TestRestartWaitsWhileTheFleetIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newPlacesHarness(t, 1, core.Guard{}, core.Group{Name: "web", Fleet: true, FleetWait: true})
		defer h.close()
		h.set(PlaceState{Unreachable: true})
		h.failLiveness("a")
		time.Sleep(time.Hour)
		h.expect("wait", h.waitReason("a"), "GroupLimit failed liveness probe, its restart waits for etcd, which cannot be reached")
		h.expectCalls("")
		h.set(PlaceState{Granted: true})
		h.expectCalls("stop a 30s, start a")
	})
}

// The next member of the host waits for the first one, which waits for a place, and the view names it.
func TestOneMemberOfAHostWaitsForAPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newPlacesHarness(t, 3, core.Guard{}, fleetGroup)
		defer h.close()
		h.failLiveness("b")
		h.failLiveness("a")
		h.expect("wait", h.waitReason("a"), "GroupLimit failed liveness probe, its restart waits for n-b")
		h.expect("places", h.places.take(), "want b web")
		h.set(PlaceState{Granted: true})
		pass(time.Minute)
		h.expectCalls("stop b 30s, start b, stop a 30s, start a")
		h.expect("places", h.places.take(), "release b, want a web, release a")
	})
}

// A wait that ends without a restart gives the place back.
func TestEndOfAWaitForAPlace(t *testing.T) {
	for _, tt := range []struct {
		name string
		do   func(*placesHarness) error
		then string
	}{
		{"recovered", func(h *placesHarness) error { h.probes.setResult("a:2", success); return nil }, "release a"},
		{"held", func(h *placesHarness) error { return h.Hold(h.t.Context(), "a", time.Time{}) }, "release a"},
		{"removed", func(h *placesHarness) error { h.remove("a"); return nil }, "release a"},
		{"ended", func(h *placesHarness) error {
			h.probes.setResult("a:2", success)
			h.engine.exit("a", 1)
			return nil
		}, "release a"},
		{"an operator restarts it", func(h *placesHarness) error { return h.Restart(h.t.Context(), "a") }, "release a"},
		{"the engine is lost", func(h *placesHarness) error { h.event(runtime.Lost, "", 0); return nil }, "release a"},
		{"its group is of this host now", func(h *placesHarness) error {
			h.reload(map[string]*core.Spec{"": slowReadySpec(core.Group{Name: "web"})})
			return nil
		}, "release a"},
		{"another group", func(h *placesHarness) error {
			h.reload(map[string]*core.Spec{"": slowReadySpec(core.Group{Name: "api", Fleet: true})})
			return nil
		}, "release a, want a api"},
		{"another share", func(h *placesHarness) error {
			h.reload(map[string]*core.Spec{"": slowReadySpec(core.Group{Name: "web", Fleet: true, MaxUnavailable: core.Share{Number: 2}})})
			return nil
		}, "want a web"},
		{"nothing in particular", func(h *placesHarness) error {
			h.reload(map[string]*core.Spec{"": slowReadySpec(fleetGroup)})
			return nil
		}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newPlacesHarness(t, 1, core.Guard{}, fleetGroup)
				defer h.close()
				h.failLiveness("a")
				h.places.take()
				if err := tt.do(h); err != nil {
					t.Fatal(err)
				}
				pass(2 * time.Second)
				h.expect("places", h.places.take(), tt.then)
			})
		})
	}
}

// Who waits for the budget of the host wants no place. Who waits for a place uses nothing of the budget. A place that
// comes when the budget is used up is kept if the budget has room soon, and given back otherwise.
func TestPlacesAndTheBudgetOfTheHost(t *testing.T) {
	for _, tt := range []struct {
		window time.Duration
		then   string
	}{
		{30 * time.Second, ""},
		{10 * time.Minute, "release b"},
	} {
		synctest.Test(t, func(t *testing.T) {
			h := newPlacesHarness(t, 2, core.Guard{MaxRestarts: 1, Window: tt.window}, core.Group{Name: "web", Fleet: true, MaxUnavailable: core.Share{Number: 5}})
			defer h.close()
			h.specs["n-c"] = slowReadySpec(core.Group{})
			h.engine.run("c")
			time.Sleep(6 * time.Second)
			h.failLiveness("b")
			h.expect("places", h.places.take(), "want b web")
			h.failLiveness("c")
			h.expectCalls("stop c 30s, start c")
			h.failLiveness("a")
			h.expect("places of a, which waits for the budget", h.places.take(), "")
			h.set(PlaceState{Granted: true})
			h.expect("places of b, granted when the budget is used up", h.places.take(), tt.then)
			h.expect("wait", strings.Split(h.waitReason("b"), " ")[0], core.WaitRestartBudget)
			pass(tt.window)
			if calls := h.engine.calls(); !slices.Equal(calls[2:], []string{"stop b 30s", "start b"}) {
				t.Errorf("calls %v", calls)
			}
		})
	}
}

// An engine that is away tells nothing of a member that is down. Its place is not kept for ever.
func TestPlaceIsGivenBackWithoutTheEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newPlacesHarness(t, 1, core.Guard{}, fleetGroup)
		defer h.close()
		h.set(PlaceState{Granted: true})
		h.engine.stopTakes = time.Hour
		h.failLiveness("a")
		h.expect("places", h.places.take(), "want a web")
		h.event(runtime.Lost, "", 0)
		pass(maxOutage - 5*time.Second)
		h.expect("places", h.places.take(), "")
		pass(5 * time.Second)
		h.expect("places", h.places.take(), "release a")
	})
}

// A restart that was under way when the daemon was killed wants its place from the next one.
func TestPlaceOutlivesTheDaemon(t *testing.T) {
	spec := slowReadySpec(fleetGroup)
	spec.Publish.Drain = 20 * time.Second
	playHost(t, spec, func(h *fakeHost) {
		var places *handPlaces
		h.places, h.log = func() Places {
			places = &handPlaces{state: PlaceState{Granted: true}}
			return places
		}, h.journal
		h.startDaemon(runtime.ReplayUnknown, 0)
		h.engine.run("a")
		h.sleep(6500 * time.Millisecond)
		h.probes.setResult("a:2", refused)
		h.engine.onStopOf = func(id string) { h.probes.setResult(id+":2", prober.Result{Outcome: prober.Success}) }
		h.sleep(time.Second)
		h.kill()
		if calls := places.take(); calls != "want a web" {
			h.t.Errorf("of the first daemon: %s", calls)
		}
		h.startDaemon(runtime.ReplayComplete, 0)
		h.sleep(time.Second)
		if calls := places.take(); calls != "want a web" {
			h.t.Errorf("of the next daemon: %s", calls)
		}
		h.sleep(time.Minute)
		if calls := places.take(); calls != "release a" {
			h.t.Errorf("in the end: %s", calls)
		}
	})
}
