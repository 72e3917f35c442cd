package runtime

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// child uses the network of parent, which is not wanted itself.
func TestWatchSharedNetwork(t *testing.T) {
	for _, tt := range []struct {
		name   string
		script func(*fakeEngine)
		want   string
	}{
		{"a new address", func(f *fakeEngine) {
			f.silently(func() {
				c := *f.containers["child"]
				c.Address = "10.0.0.9"
				f.containers["child"] = &c
			})
			f.emit("parent", ActionNetwork, 0)
			time.Sleep(time.Second)
		}, `
			10s observed child running 10.0.0.9 of one since -10s`},
		{"a new run", func(f *fakeEngine) {
			f.kill("parent", 15)
			time.Sleep(time.Second)
			f.start("parent")
			time.Sleep(time.Second)
		}, `
			10s observed child running 10.0.0.1 of a stopped one
			11s observed child running 10.0.0.1 of one since 0s`},
		{"a new run that no event reported", func(f *fakeEngine) {
			f.silently(func() { f.run("parent") })
			time.Sleep(time.Minute)
		}, `
			1m0s observed child running 10.0.0.1 of one since -50s
			1m0s synced interval`},
		{"an end that no event reported", func(f *fakeEngine) {
			f.silently(func() { f.end("parent", 0) })
			time.Sleep(time.Minute)
		}, `
			1m0s observed child running 10.0.0.1 of a stopped one
			1m0s synced interval`},
		{"removed", func(f *fakeEngine) {
			f.kill("parent", 9)
			f.silently(func() { f.drop("parent") })
			f.emit("parent", ActionDestroy, 0)
			time.Sleep(time.Minute)
		}, `
			10s observed child running 10.0.0.1 of none
			1m0s synced interval`},
		{"a removal that no event reported", func(f *fakeEngine) {
			f.silently(func() { f.drop("parent") })
			time.Sleep(time.Minute)
		}, `
			1m0s observed child running 10.0.0.1 of none
			1m0s synced interval`},
		{"replaced by another of its name", func(f *fakeEngine) {
			f.silently(func() { f.drop("parent"); f.run("other") })
			f.emit("parent", ActionDestroy, 0)
			f.emit("other", ActionStart, 0)
			time.Sleep(time.Second)
			f.silently(func() { f.shares["next"] = "other" })
			f.start("next")
			time.Sleep(time.Second)
		}, `
			10s observed child running 10.0.0.1 of none
			11s observed next running 10.0.0.1 of one since -1s`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeEngine()
				f.run("parent")
				f.shares["child"] = "parent"
				f.run("child")
				w := &Watcher{Name: "fake", Source: f, Wanted: func(c Traits) bool { return c.Name == "child" || c.Name == "next" }}
				got := record(t, w, func(f *fakeEngine) {
					time.Sleep(10 * time.Second)
					tt.script(f)
				})
				compare(t, got, `
					0s connected unknown
					0s observed child running 10.0.0.1 of one since 0s
					0s synced start`+tt.want)
			})
		})
	}
}

// Only the first inspection of child shows that it uses parent's network.
func TestSharedNetworkChangesWhileFirstInspected(t *testing.T) {
	v := newView(func(c Traits) bool { return c.Name == "child" })
	v.applyList([]Summary{{ID: "child", Name: "child", State: Running}, {ID: "parent", Name: "parent", State: Running}}, time.Unix(1, 0))
	e := v.nextToInspect()
	v.applyEvent(Event{ID: "parent", Action: ActionDie, Time: time.Unix(3, 0), Name: "parent", Labels: map[string]string{}}, 0, time.Unix(9, 0))
	v.applyInspection(e, &Container{ID: "child", Name: "child", State: Running, NetworkOwner: "parent", NetworkOwnerStartedAt: time.Unix(1, 0)}, nil, time.Unix(4, 0))
	if v.nextToInspect() != e {
		t.Fatal("not inspected again")
	}
	v.applyInspection(e, &Container{ID: "child", Name: "child", State: Running, NetworkOwner: "parent"}, nil, time.Unix(5, 0))
	if v.nextToInspect() != nil {
		t.Error("inspected once too often")
	}
	if n := len(v.out); n != 2 || !v.out[1].Container.NetworkOwnerStartedAt.IsZero() {
		t.Errorf("sent %+v", v.out)
	}
}

// c uses b's network, which is a's. An event of a concerns both. Nor does a circle hang.
func TestNetworkSharedInAChain(t *testing.T) {
	for _, last := range []string{"", "c"} {
		v := newView(nil)
		owners := map[string]string{"a": last, "b": "a", "c": "b"}
		v.applyList([]Summary{{ID: "a", State: Running}, {ID: "b", State: Running}, {ID: "c", State: Running}}, time.Unix(1, 0))
		for e := v.nextToInspect(); e != nil; e = v.nextToInspect() {
			v.applyInspection(e, &Container{ID: e.id, State: Running, NetworkOwner: owners[e.id]}, nil, time.Unix(1, 0))
		}
		v.synced, v.replaying = true, false
		v.applyEvent(Event{ID: "a", Action: ActionNetwork, Time: time.Unix(3, 0)}, 0, time.Unix(3, 0))
		var inspected []string
		for e := v.nextToInspect(); e != nil; e = v.nextToInspect() {
			inspected = append(inspected, e.id)
		}
		slices.Sort(inspected)
		if want := []string{"a", "b", "c"}; !slices.Equal(inspected, want) {
			t.Errorf("a uses the network of %q: inspected %v, want %v", last, inspected, want)
		}
	}
}
