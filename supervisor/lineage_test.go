package supervisor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"healthd/runtime"
	"healthd/supervisor/core"
)

// replacement is how tools put a new container in the place of an old one: the container "old" runs as web, and "new" is
// to.
type replacement struct {
	*fakeHost
	labels map[string]string // of both; nil: the name is the identity
}

// replacementSteps are what tools do, each at most once, in any order that engines allow.
var replacementSteps = map[string]func(*replacement){
	"rename the old one": func(r *replacement) { r.rename("old", "web-old") },
	"stop the old one":   func(r *replacement) { r.operatorStop("old") },
	"remove the old one": func(r *replacement) { r.remove("old") },
	"create the new one": func(r *replacement) {
		name := "web"
		if r.nameTaken(name) {
			name = "web-new"
		}
		r.create("new", name)
	},
	"rename the new one": func(r *replacement) { r.rename("new", "web") },
	"start the new one":  func(r *replacement) { r.engine.run("new") },
}

// possible says whether an engine allows the step.
func (r *replacement) possible(step string) bool {
	old, here := r.engine.containers["old"], r.engine.containers["new"]
	switch step {
	case "rename the old one":
		return old != nil && old.Name == "web"
	case "stop the old one":
		return old != nil && old.State.Alive()
	case "remove the old one":
		return old != nil
	case "create the new one":
		return here == nil
	case "rename the new one":
		return here != nil && here.Name != "web" && !r.nameTaken("web")
	}
	return here != nil && !here.State.Alive()
}

func (r *replacement) nameTaken(name string) bool {
	return slices.ContainsFunc([]string{"old", "new"}, func(id string) bool {
		c := r.engine.containers[id]
		return c != nil && c.Name == name
	})
}

func (r *replacement) create(id, name string) {
	r.engine.mu.Lock()
	r.engine.names[id] = name
	r.engine.containers[id] = &runtime.Container{
		Runtime: "docker", ID: id, Name: name, Labels: r.labels, State: runtime.Created, StopTimeout: -1, RestartPolicy: "no",
	}
	r.engine.mu.Unlock()
	r.engine.deliver(r.engine.observation(id))
}

func (r *replacement) rename(id, name string) {
	r.engine.mu.Lock()
	c := *r.engine.containers[id]
	c.Name, r.engine.names[id] = name, name
	r.engine.containers[id] = &c
	r.engine.mu.Unlock()
	r.engine.deliver(r.engine.observation(id))
}

func (r *replacement) remove(id string) {
	r.engine.delete(id)
	r.engine.deliver(runtime.Update{Kind: runtime.Removed, Runtime: "docker", ID: id})
}

// ordersOf returns all orders in which the new container comes to run in the old one's place.
func ordersOf(t *testing.T, labels map[string]string) (orders [][]string) {
	names := []string{"create the new one", "remove the old one", "rename the new one", "rename the old one", "start the new one", "stop the old one"}
	var extend func(done []string)
	extend = func(done []string) {
		r := &replacement{newFakeHost(t, plainSpec(core.Always)), labels}
		r.engine.deliver = func(runtime.Update) {}
		r.create("old", "web")
		r.engine.beginRun("old")
		for _, step := range done {
			if step == "start the new one" {
				r.engine.beginRun("new")
			} else {
				replacementSteps[step](r)
			}
		}
		old, here := r.engine.containers["old"], r.engine.containers["new"]
		if old == nil && here != nil && here.Name == "web" && here.State.Alive() {
			orders = append(orders, done)
		}
		for _, step := range names {
			if !slices.Contains(done, step) && r.possible(step) {
				extend(append(slices.Clone(done), step))
			}
		}
	}
	extend(nil)
	return orders
}

// What belongs to an identity goes to the next container of it, once, whatever the order of the steps, and also if
// healthd is killed after any of them. A container that came later than that gets nothing of it.
func TestLineageInEveryOrder(t *testing.T) {
	compose := map[string]string{core.ComposeProject: "shop", core.ComposeService: "web", core.ComposeNumber: "1"}
	for name, labels := range map[string]map[string]string{"by name": nil, "by Compose's labels": compose} {
		t.Run(name, func(t *testing.T) {
			orders := ordersOf(t, labels)
			if len(orders) < 20 {
				t.Fatalf("only %d orders", len(orders))
			}
			for _, order := range orders {
				for killBefore := range len(order) + 1 { // the last: it is not killed
					synctest.Test(t, func(t *testing.T) {
						r := &replacement{newFakeHost(t, plainSpec(core.Always)), labels}
						defer r.shutDown()
						if !r.replaces(order, killBefore) {
							t.Errorf("%s; healthd killed before step %d", strings.Join(order, ", "), killBefore)
						}
					})
				}
			}
		})
	}
}

// What belongs to an identity is not lost if healthd is killed at any of its writes.
func TestLineageAtEveryWrite(t *testing.T) {
	for _, order := range ordersOf(t, nil) {
		for write, all := 1, false; !all; write++ {
			synctest.Test(t, func(t *testing.T) {
				r := &replacement{newFakeHost(t, plainSpec(core.Always)), nil}
				defer func() { r.shutDown() }()
				r.holdsOld()
				r.killAfterWrite = r.writes + write
				for _, step := range order {
					replacementSteps[step](r)
					r.sleep(time.Second)
					if daemon, _ := r.current(); daemon == nil {
						r.startDaemon(runtime.ReplayComplete, 0)
						r.sleep(time.Second)
					}
				}
				all = r.writes < r.killAfterWrite // it was not killed any more
				if got := r.view("new").State.Lasting; !got.HeldHere || (got.Restarts[core.ByExit] == 1) != r.takesAll(order) {
					t.Errorf("%s; killed at write %d: %+v", strings.Join(order, ", "), write, got)
				}
			})
		}
	}
}

// takesAll says that the new one has its identity at its first run: else its restarts are its own.
func (r *replacement) takesAll(order []string) bool {
	named := slices.Index(order, "rename the new one")
	return r.labels != nil || slices.Index(order, "start the new one") > named
}

// holdsOld starts a healthd that restarts the old container and holds it.
func (r *replacement) holdsOld() {
	r.startDaemon(runtime.ReplayUnknown, 0)
	r.create("old", "web")
	r.engine.run("old")
	r.engine.exit("old", 1)
	r.sleep(time.Second)
	daemon, _ := r.current()
	_ = daemon.Hold(context.Background(), "web", time.Time{})
	synctest.Wait()
}

// replaces plays an order with a healthd that is killed before that step, and says whether all is right.
func (r *replacement) replaces(order []string, killBefore int) bool {
	r.holdsOld()
	for i, step := range order {
		if i == killBefore {
			r.kill()
			r.startDaemon(runtime.ReplayComplete, 0)
		}
		replacementSteps[step](r)
		r.sleep(time.Second)
	}
	all := r.takesAll(order)
	if got := r.view("new").State.Lasting; !got.HeldHere || (got.Restarts[core.ByExit] == 1) != all || got.Backoff.Active != all {
		r.t.Errorf("the new one has %+v", got)
	}
	told := fmt.Sprint(r.journal.reasons("web"), r.journal.reasons("web-new"))
	if n := strings.Count(told, core.EventHeld); n != 2 { // of the old one, and of the new one
		r.t.Errorf("%d times Held: %s", n, told)
	}
	daemon, _ := r.current()
	_ = daemon.Resume(context.Background(), "web")
	r.remove("new")
	r.create("newer", "web")
	r.engine.run("newer")
	if got := r.view("newer").State.Lasting; got.Held() || (got.Restarts[core.ByExit] == 1) != all {
		r.t.Errorf("the one after the hold has %+v", got)
	}
	return !r.t.Failed()
}

// What goes from one container to the next where tools do otherwise.
func TestLineage(t *testing.T) {
	holds := func(name string) func(*replacement) {
		return func(r *replacement) {
			daemon, _ := r.current()
			_ = daemon.Hold(context.Background(), name, time.Time{})
		}
	}
	resumes := func(name string) func(*replacement) {
		return func(r *replacement) {
			daemon, _ := r.current()
			_ = daemon.Resume(context.Background(), name)
		}
	}
	makes := func(id, name string) func(*replacement) { return func(r *replacement) { r.create(id, name) } }
	starts := func(id string) func(*replacement) { return func(r *replacement) { r.engine.run(id) } }
	runs := func(id, name string) func(*replacement) {
		return func(r *replacement) {
			r.create(id, name)
			r.engine.run(id)
		}
	}
	renames := func(id, name string) func(*replacement) { return func(r *replacement) { r.rename(id, name) } }
	removes := func(id string) func(*replacement) { return func(r *replacement) { r.remove(id) } }
	ends := func(id string) func(*replacement) { return func(r *replacement) { r.engine.exit(id, 0) } }
	dies := func(r *replacement) { r.kill() }
	comes := func(r *replacement) { r.startDaemon(runtime.ReplayComplete, 0) }
	hour := func(*replacement) { time.Sleep(forgetAfter + time.Second) }
	compose := map[string]string{core.ComposeProject: "shop", core.ComposeService: "web", core.ComposeNumber: "1"}
	for _, tt := range []struct {
		name   string
		labels map[string]string
		steps  []func(*replacement)
		id     string
		held   bool
		told   string // the last event about a hold
	}{
		{"a deploy that is given up leaves the hold with the old one", compose, []func(*replacement){
			runs("a", "x"), holds("x"), runs("b", "y"), removes("b")}, "a", true, core.EventHeld},
		{"the same, and the hold was ended meanwhile", compose, []func(*replacement){
			runs("a", "x"), holds("x"), runs("b", "y"), resumes("y"), removes("b")}, "a", false, core.EventResumed},
		{"the same, and healthd was killed meanwhile", compose, []func(*replacement){
			runs("a", "x"), holds("x"), runs("b", "y"), resumes("y"), dies, comes, removes("b")}, "a", false, core.EventResumed},
		{"the old one is taken back by its name", nil, []func(*replacement){
			runs("a", "web"), holds("web"), renames("a", "web-old"), runs("b", "web"), resumes("web"), removes("b"), renames("a", "web")}, "a", false, core.EventResumed},
		{"the new one runs before it gets the name", nil, []func(*replacement){
			runs("a", "web"), holds("web"), runs("b", "web.upcoming"), renames("a", "web.1"), renames("b", "web"), removes("a")}, "b", true, core.EventHeld},
		{"and is held by itself", nil, []func(*replacement){
			runs("a", "web"), runs("b", "web.upcoming"), holds("web.upcoming"), renames("a", "web.1"), renames("b", "web"), removes("a")}, "b", true, ""},
		{"the next one under that other name gets nothing", nil, []func(*replacement){
			runs("a", "web"), holds("web"), runs("b", "web.new"), renames("a", "web.old"), renames("b", "web"), removes("a"), runs("c", "web.new")}, "c", false, ""},
		{"the next one out of the way gets nothing", nil, []func(*replacement){
			runs("a", "web"), holds("web"), renames("a", "web.old"), runs("b", "web"), resumes("web"), removes("a"), renames("b", "web.old")}, "b", false, ""},
		{"renamed for good", nil, []func(*replacement){
			runs("a", "web"), holds("web"), renames("a", "shop"), removes("a"), runs("b", "shop")}, "b", true, core.EventHeld},
		{"renamed before its first run", nil, []func(*replacement){
			makes("a", "tmp"), renames("a", "web"), starts("a"), holds("web"), runs("b", "tmp")}, "b", false, ""},
		{"all while healthd was away", nil, []func(*replacement){
			runs("a", "web"), holds("web"), dies, renames("a", "web.old"), runs("b", "web"), comes, removes("a")}, "b", true, core.EventHeld},
		{"no longer supervised under its other name", nil, []func(*replacement){
			runs("a", "web"), holds("web"), renames("a", "apart"), runs("b", "web"), removes("a")}, "b", true, core.EventHeld},
		{"the old one is held by itself, beside a twin that goes", compose, []func(*replacement){
			runs("a", "x"), runs("b", "y"), holds("x"), removes("b")}, "a", true, core.EventHeld},
		{"the same, and it is put in its place again", compose, []func(*replacement){
			runs("a", "x"), runs("b", "y"), holds("x"), removes("a"), runs("c", "x")}, "c", true, core.EventHeld},
		{"the same, and the twin takes its place", compose, []func(*replacement){
			runs("a", "x"), runs("b", "y"), holds("x"), removes("a")}, "b", true, core.EventHeld},
		{"an older twin that gets a spec is not the next one", compose, []func(*replacement){
			runs("z", "apart"), ends("z"), runs("a", "x"), holds("x"), renames("z", "y")}, "z", false, ""},
		{"an older twin gets a spec, and the hold is ended", compose, []func(*replacement){
			runs("z", "apart"), ends("z"), runs("a", "x"), holds("x"), renames("z", "y"), resumes("x"), removes("a"), runs("c", "x")}, "c", false, core.EventResumed},
		{"the same, and the hold goes on", compose, []func(*replacement){
			runs("z", "apart"), ends("z"), runs("a", "x"), holds("x"), renames("z", "y"), removes("a"), runs("c", "x")}, "c", true, core.EventHeld},
		{"two swap their names, and the one that had been superseded is held", nil, []func(*replacement){
			runs("a", "web"), runs("b", "web2"), renames("a", "tmp"), renames("b", "web"), renames("a", "web2"), holds("web2"), removes("a"), runs("c", "web2")},
			"c", true, core.EventHeld},
		{"gone for too long", nil, []func(*replacement){
			runs("a", "web"), holds("web"), removes("a"), hour, runs("b", "web")}, "b", false, core.EventResumed},
		{"gone for too long, seen by the next healthd", nil, []func(*replacement){
			runs("a", "web"), holds("web"), removes("a"), dies, hour, comes, runs("b", "web")}, "b", false, core.EventResumed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			playHost(t, plainSpec(core.Always), func(h *fakeHost) {
				always := h.resolve
				h.resolve = func(c runtime.Traits) (*core.Spec, error) {
					if c.Name == "apart" {
						return nil, nil
					}
					return always(c)
				}
				r := &replacement{h, tt.labels}
				r.startDaemon(runtime.ReplayUnknown, 0)
				for _, step := range tt.steps {
					step(r)
					r.sleep(time.Second)
				}
				if got := r.view(tt.id); got.State.Lasting.Held() != tt.held {
					t.Errorf("held: %v, want %v", !tt.held, tt.held)
				}
				if got := r.lastOfHold(tt.id); got != tt.told {
					t.Errorf("told: %q, want %q", got, tt.told)
				}
			})
		})
	}
}

// lastOfHold returns the reason of the last event that tells of a container's hold, under its present name.
func (r *replacement) lastOfHold(id string) (last string) {
	for _, reason := range r.journal.reasons(r.view(id).Container.Name) {
		if reason == core.EventHeld || reason == core.EventResumed {
			last = reason
		}
	}
	return last
}

// A replica's number that is used again is another container, if its service has gone on under another number meanwhile. It
// is the same one where the whole service was put down and up.
func TestNumberUsedAgain(t *testing.T) {
	numbered := func(number string) map[string]string {
		return map[string]string{core.ComposeProject: "shop", core.ComposeService: "web", core.ComposeNumber: number}
	}
	for _, tt := range []struct {
		name  string
		alone time.Duration // the second one, after the first one was removed
		held  bool
	}{
		{"put down and up", 10 * time.Second, true},
		{"the second one took its place", 10 * time.Minute, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			playHost(t, plainSpec(core.Always), func(h *fakeHost) {
				one, two := &replacement{h, numbered("1")}, &replacement{h, numbered("2")}
				h.startDaemon(runtime.ReplayUnknown, 0)
				one.create("a", "web-1")
				h.engine.run("a")
				daemon, _ := h.current()
				_ = daemon.Hold(context.Background(), "web-1", time.Time{})
				h.sleep(time.Minute)
				two.create("b", "web-2")
				h.engine.run("b")
				one.remove("a")
				h.sleep(tt.alone)
				two.remove("b")
				one.create("c", "web-1")
				h.engine.run("c")
				if got := h.view("c").State.Lasting.Held(); got != tt.held {
					t.Errorf("held: %v, want %v", got, tt.held)
				}
			})
		})
	}
}

// A container that takes a hold in its drain is not stopped, as one that is held then.
func TestHoldTakenInADrain(t *testing.T) {
	compose := map[string]string{core.ComposeProject: "shop", core.ComposeService: "web", core.ComposeNumber: "1"}
	spec := probesSpec(time.Second, core.Liveness)
	spec.Publish.Drain = 10 * time.Second
	playHost(t, spec, func(h *fakeHost) {
		r := &replacement{h, compose}
		r.startDaemon(runtime.ReplayUnknown, 0)
		r.create("a", "web")
		r.engine.run("a")
		r.sleep(time.Second)
		r.create("b", "web-new")
		r.engine.run("b")
		daemon, _ := r.current()
		_ = daemon.Hold(context.Background(), "web-new", time.Time{})
		r.probes.setResult("a:2", refused)
		r.sleep(2 * time.Second)
		if r.view("a").State.Action.Stopping != core.ByLiveness {
			t.Fatal("it is not being stopped")
		}
		r.remove("b")
		r.sleep(time.Minute)
		if s := r.view("a").State; !s.Lasting.Held() || len(r.engine.calls()) > 0 {
			t.Errorf("held %v, calls %v", s.Lasting.Held(), r.engine.calls())
		}
	})
}

// What a twin has done by itself is not given back with what it has taken.
func TestTwinKeepsItsCrashes(t *testing.T) {
	compose := map[string]string{core.ComposeProject: "shop", core.ComposeService: "web", core.ComposeNumber: "1"}
	playHost(t, plainSpec(core.Always), func(h *fakeHost) {
		r := &replacement{h, compose}
		r.startDaemon(runtime.ReplayUnknown, 0)
		r.create("a", "web")
		r.engine.run("a")
		r.create("twin", "other")
		r.engine.run("twin")
		for range 5 {
			r.engine.exit("twin", 1)
			r.sleep(2 * time.Minute)
		}
		r.remove("twin")
		if got := r.view("a").State.Lasting; got.Backoff.Active || got.Restarts[core.ByExit] != 0 {
			t.Errorf("%+v", got)
		}
	})
}
