package fleet

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"healthd/e2e/patience"
	"healthd/supervisor/core"
	"healthd/supervisor/fleet/etcdtest"
)

func (d *daemon) PlacesChanged(context.Context) error { return nil }

// granted says whether a container may be restarted.
func (d *daemon) granted(id string) bool { return d.fleet.places.State(id).Granted }

func (d *daemon) awaitGranted(id string) {
	d.t.Helper()
	d.until(func() bool { return d.granted(id) }, "a place of %s on %s: %+v", id[:12], d.config.Host, d.fleet.places.State(id))
}

// places returns the places that are taken.
func (d *daemon) placeKeys(t *testing.T) string {
	return strings.Join(keys(t, spineCluster(t).Client(t), d.config.Prefix+layout+"places/"), " ")
}

var three = core.Share{Number: 3}

// Twenty hosts share three places. Never more are held, everybody gets one each time, and in the end all are free.
func TestPlacesOfManyHosts(t *testing.T) {
	const hosts, restarts = 20, 3
	cluster := sharedCluster(t)
	var down, most, done atomic.Int64
	var goroutines sync.WaitGroup
	all := make([]*daemon, hosts)
	for i := range all {
		all[i] = newDaemon(t, fmt.Sprint("h", i), cluster.Endpoints, nil).start()
	}
	for _, d := range all {
		id := d.has("web-1", stateReady)
		goroutines.Go(func() {
			for range restarts {
				d.fleet.places.Want(id, "web", three)
				if err := patience.Try("a place is free", func() error { return unless(d.granted(id)) }); err != nil {
					t.Errorf("%s waits for %+v", d.config.Host, d.fleet.places.State(id))
					return
				}
				if n := down.Add(1); n > most.Load() {
					most.Store(n)
				}
				_ = patience.Try("all places are taken once", func() error { return unless(most.Load() >= 3) })
				time.Sleep(30 * time.Millisecond)
				down.Add(-1)
				done.Add(1)
				d.fleet.places.Release(id)
			}
		})
	}
	goroutines.Wait()
	if most.Load() != 3 || done.Load() != hosts*restarts {
		t.Errorf("at most %d held a place at once, and %d restarts were made", most.Load(), done.Load())
	}
	all[0].until(func() bool { return all[0].placeKeys(t) == "" }, "all places to be free")
}

// Whatever k was before, and whoever else takes a place at the same moment: never more than k are held.
func TestRoomAmongPlaces(t *testing.T) {
	for _, tt := range []struct {
		taken string // x: it is
		k     int
		want  int
	}{
		{"", 3, 3}, {"x", 3, 3}, {".xx", 3, 3}, {"xxx", 3, 0}, {"...x", 2, 1}, {"x..x", 2, 0}, {"..xx", 3, 1}, {"x.x.", 2, 0}, {".....xx", 3, 1}, {"...xxx", 3, 0}, {"..x", 1, 0},
	} {
		spots := map[int]spot{}
		for n, c := range tt.taken {
			spots[n] = spot{free: c != 'x'}
		}
		got := roomAmong(spots, tt.k)
		if got != tt.want {
			t.Errorf("%q, %d: got %d, want %d", tt.taken, tt.k, got, tt.want)
		}
		held := strings.Count(tt.taken, "x")
		for n := range got { // each taken by another host
			if s, ok := spots[n]; !ok || s.free {
				held++
			}
		}
		if got > 0 && held > tt.k {
			t.Errorf("%q, %d: %d may be held", tt.taken, tt.k, held)
		}
	}
}

// The place of a host that dies is free when its lease has ended. Others see who holds it.
func TestPlaceOfADeadHost(t *testing.T) {
	t.Parallel()
	cluster := spineCluster(t)
	a, b := newDaemon(t, "a", cluster.Endpoints, nil).start(), newDaemon(t, "b", cluster.Endpoints, nil).start()
	idA, idB := a.has("web-1", stateReady), b.has("web-1", stateReady)
	a.fleet.places.Want(idA, "shop/web", core.Share{})
	a.awaitGranted(idA)
	b.await("a:web-1 ready")
	b.fleet.places.Want(idB, "shop/web", core.Share{})
	b.until(func() bool { return b.fleet.places.State(idB).On == "a:web-1" }, "who holds the place: %+v", b.fleet.places.State(idB))
	lease := a.leaseID()
	a.end()
	other := b.has("other-1", stateReady)
	b.fleet.places.Want(other, "other", core.Share{})
	b.awaitGranted(other) // b has looked again
	if b.granted(idB) {
		t.Error("the place was free before the lease of the dead host had ended")
	}
	expire(t, cluster, lease)
	b.awaitGranted(idB)
	if got := b.placeKeys(t); got != "other/0 shop%2Fweb/0" {
		t.Errorf("taken: %s", got)
	}
}

// A holder that was stopped for longer than its lease lives has no place when it goes on: somebody else has it.
func TestPlaceOfAStoppedHolder(t *testing.T) {
	t.Parallel()
	cluster := sharedCluster(t)
	a, b := newDaemon(t, "a", cluster.Endpoints, short).start(), newDaemon(t, "b", cluster.Endpoints, nil).start()
	idA, idB := a.has("web-1", stateReady), b.has("web-2", stateReady)
	a.fleet.places.Want(idA, "web", core.Share{})
	a.awaitGranted(idA)
	b.fleet.places.Want(idB, "web", core.Share{})
	a.fleet.lease.mu.Lock() // nothing that has to do with the lease goes on, nor does State
	b.awaitGranted(idB)
	a.fleet.lease.mu.Unlock()
	a.until(func() bool {
		s := a.fleet.places.State(idA)
		if s.Granted {
			t.Fatal("the place is granted twice")
		}
		return s.On == "b:web-2"
	}, "a to know who holds the place")
	b.fleet.places.Release(idB)
	a.awaitGranted(idA)
}

// The next daemon of a host finds the place of a restart that is under way. It gives back what nobody wants any more.
func TestPlaceOfTheNextDaemon(t *testing.T) {
	t.Parallel()
	d := newDaemon(t, "a", sharedCluster(t).Endpoints, nil).start()
	one, two := d.has("web-1", stateReady), d.has("web-2", stateReady)
	for _, id := range []string{one, two} {
		d.fleet.places.Want(id, "web", three)
		d.awaitGranted(id)
	}
	d.restart()
	d.fleet.places.Want(two, "web", three)
	d.awaitGranted(two)
	if got := d.placeKeys(t); got != "web/0 web/1" {
		t.Errorf("taken: %s", got)
	}
	d.until(func() bool { return d.placeKeys(t) == "web/1" }, "the place of web-1 to be free, not %s", func() string { return d.placeKeys(t) })
	if !d.granted(two) {
		t.Error("the place of web-2 is lost")
	}
}

// Whatever a group is called, its places are seen by all.
func TestPlacesOfOddGroups(t *testing.T) {
	t.Parallel()
	a, b := newDaemon(t, "a", sharedCluster(t).Endpoints, nil).start(), newDaemon(t, "b", sharedCluster(t).Endpoints, nil).start()
	id := a.has("web-1", stateReady)
	for _, group := range []string{strings.Repeat("x", 257), "web\n1", "%", "a/b/0", "web 1"} {
		a.fleet.places.Want(id, group, core.Share{})
		a.awaitGranted(id)
		b.fleet.places.Want(id, group, core.Share{})
		b.until(func() bool { return strings.HasPrefix(b.fleet.places.State(id).On, "a:") }, "who holds the place of %q", group)
		a.fleet.places.Release(id)
		b.awaitGranted(id)
		b.fleet.places.Release(id)
		b.until(func() bool { return b.placeKeys(t) == "" }, "all places of %q to be free", group)
	}
	if wrong := a.fleet.Status().WrongKeys; len(wrong) > 0 {
		t.Errorf("%q are wrong", wrong)
	}
}

// A place that was taken, but whose answer was lost, is known by the watch, maybe when nobody wants it any more. It is given
// back then: nothing else would do that before the next restart on this host.
func TestPlaceWhoseAnswerWasLost(t *testing.T) {
	t.Parallel()
	d := newDaemon(t, "a", sharedCluster(t).Endpoints, nil).start()
	lease := d.leaseID()
	d.until(func() bool {
		p := d.fleet.places
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.settledLocked(time.Now().Add(-2 * time.Second)) // it has nothing to do for an hour
	}, "all who want a place to have said so")
	text, err := encode(placeValue{Host: "a", Instance: d.fleet.self.instance(), ID: "web-1", Run: 1})
	if err != nil {
		t.Fatal(err)
	}
	client := sharedCluster(t).Client(t)
	if _, err := client.Put(t.Context(), d.config.Prefix+layout+"places/web/0", text, clientv3.WithLease(lease)); err != nil {
		t.Fatal(err)
	}
	d.until(func() bool { return d.placeKeys(t) == "" }, "the place to be free")
}

// A store that does not answer is told within seconds, and so is its return.
func TestPlacesUnreachable(t *testing.T) {
	t.Parallel()
	cluster := sharedCluster(t)
	way := etcdtest.NewProxy(t, cluster.Endpoints[0])
	d := newDaemon(t, "a", []string{way.Endpoint}, ttl(10*time.Second)).start()
	id := d.has("web-1", stateReady)
	d.fleet.places.Want(id, "web", core.Share{})
	d.awaitGranted(id)
	way.Cut()
	d.until(func() bool { return d.fleet.places.State(id).Unreachable }, "the store to be unreachable for who holds a place")
	other := d.has("web-2", stateReady)
	d.fleet.places.Want(other, "web", three)
	d.until(func() bool { return d.fleet.places.State(other).Unreachable && !d.granted(id) }, "the store to be unreachable")
	way.Mend()
	d.awaitGranted(other)
	d.awaitGranted(id)
}

// A place that is being given back is not granted to a container that wants it again meanwhile: the answer may be late.
func TestPlaceThatIsBeingGivenBack(t *testing.T) {
	f, err := New(Config{Endpoints: []string{"http://127.0.0.1:1"}, Prefix: "/", Host: "a", TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer f.store.close()
	p := f.places
	f.lease.held = held{id: 7, renewed: time.Now(), claimed: true}
	text, err := encode(placeValue{Host: "a", Instance: f.self.instance(), ID: "web-1", Run: 1})
	if err != nil {
		t.Fatal(err)
	}
	taken := record{name: "places/web/0", value: []byte(text), rev: 5, lease: 7}
	p.told([]record{taken}, true)
	p.Want("web-1", "web", core.Share{})
	if s := p.State("web-1"); !s.Granted {
		t.Fatalf("it does not have its place: %+v", s)
	}
	p.Release("web-1")
	p.Want("web-1", "web", core.Share{})
	if _, left := p.leave(key{kind: placeKey, group: "web"}); left || !p.State("web-1").Granted {
		t.Error("it gives back what is wanted again")
	}
	p.Release("web-1")
	if _, left := p.leave(key{kind: placeKey, group: "web"}); !left {
		t.Fatal("it keeps what nobody wants")
	}
	p.Want("web-1", "web", core.Share{})
	p.told([]record{taken}, false)
	p.told([]record{taken}, true)
	if s := p.State("web-1"); s.Granted {
		t.Errorf("granted: %+v", s)
	}
	taken.rev = 9 // taken again
	p.told([]record{taken}, false)
	if s := p.State("web-1"); !s.Granted {
		t.Errorf("it does not have its new place: %+v", s)
	}
	f.lease.held.renewed = time.Now().Add(-f.config.TTL / 2)
	if s := p.State("web-1"); s.Granted {
		t.Error("granted, although the lease was not renewed for half its TTL")
	}
}
