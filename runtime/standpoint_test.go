package runtime

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// seen are the lines of a Watcher that looks from a container.
type seen struct {
	mu    sync.Mutex
	lines []string
}

func (s *seen) take() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	lines := s.lines
	s.lines = nil
	slices.Sort(lines)
	return lines
}

// watchFrom watches f from the container self until the test ends.
func watchFrom(t *testing.T, f *fakeEngine, has func(address string) bool) (*Standpoint, *seen) {
	t.Helper()
	refresh := make(chan struct{}, 1)
	point := &Standpoint{ID: "self", Sees: func(int) bool { return false }, Has: has, Changed: func() {
		select {
		case refresh <- struct{}{}:
		default:
		}
	}}
	w := &Watcher{Name: "docker", Source: point.Source("docker", f), Refresh: refresh, Wanted: func(t Traits) bool { return !t.Self }}
	s := &seen{}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- w.Run(ctx, func(_ context.Context, u Update) error {
			if u.Kind == Observed {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.lines = append(s.lines, fmt.Sprintf("%s at %q", u.Container.Name, u.Container.ProbeAddress()))
			}
			return nil
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Run returned %v", err)
		}
	})
	return point, s
}

// healthd's own container is left alone, and what it reaches follows its networks at once.
func TestWatchFromAContainer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeEngine()
		put := func(id string, networks ...string) {
			f.silently(func() {
				if f.containers[id] == nil {
					f.run(id)
				}
				c := *f.containers[id]
				c.Networks = nil
				for i, name := range networks {
					c.Networks = append(c.Networks, NetworkAddress{Network: name, Address: fmt.Sprintf("10.0.%d.1", i)})
				}
				c.Address, c.Network = c.Networks[0].Address, networks[0]
				f.containers[id] = &c
			})
		}
		put("self", "a")
		put("near", "a")
		put("far", "b")
		put("both", "b", "a")
		point, s := watchFrom(t, f, nil)
		time.Sleep(time.Second)
		want := func(what string, lines ...string) {
			t.Helper()
			if got := s.take(); !slices.Equal(slices.Compact(got), lines) {
				t.Errorf("%s: %q, want %q", what, got, lines)
			}
		}
		want("at first", `both at "10.0.1.1"`, `far at ""`, `near at "10.0.0.1"`)
		if from := point.From("docker"); !from.Blind || from.CannotEnter == "" || point.Own() == nil {
			t.Errorf("from %+v", from)
		}
		if other := point.From("containerd"); len(other.Networks) != 0 || !other.Confined() {
			t.Errorf("another engine from %+v", other)
		}
		put("self", "a", "b")
		f.emit("self", ActionNetwork, 0)
		time.Sleep(time.Second)
		want("connected", `both at "10.0.1.1"`, `far at "10.0.0.1"`, `near at "10.0.0.1"`)
		put("self", "b")
		f.emit("self", ActionNetwork, 0)
		time.Sleep(time.Second)
		want("disconnected", `both at "10.0.0.1"`, `far at "10.0.0.1"`, `near at ""`)
		time.Sleep(3 * time.Minute)
		want("nothing changes")
	})
}

// isolating is an engine whose network "a" keeps its containers apart.
type isolating struct{ *fakeEngine }

func (isolating) Isolates(_ context.Context, network string) (string, error) {
	if network == "a" {
		return "they are apart", nil
	}
	return "", nil
}

// healthd reaches nobody in a network that keeps its containers apart, and in one where it has no address
// whatever its engine says.
func TestBarredNetworks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeEngine()
		f.silently(func() { f.run("self") })
		c := *f.containers["self"]
		c.Networks = []NetworkAddress{{"a", "10.0.0.1"}, {"b", "10.0.1.1"}, {"c", "10.0.2.1"}}
		f.containers["self"] = &c
		point := &Standpoint{ID: "self", Sees: func(int) bool { return true }, Has: func(address string) bool { return address != "10.0.2.1" }}
		if _, err := point.Source("docker", isolating{f}).List(t.Context()); err != nil {
			t.Fatal(err)
		}
		from := point.From("docker")
		if want := map[string]string{
			"a": "they are apart: connect healthd's own container (" + c.Name + ") to another one of its networks, or run healthd with --network=host",
			"c": "healthd has lost its address in the network c: restart its own container (" + c.Name + ")",
		}; !slices.Equal(from.Networks, []string{"b"}) || !maps.Equal(from.Barred, want) || from.Blind {
			t.Errorf("from %+v", from)
		}
	})
}

// The network that healthd uses ends, and begins anew, with the container that has it.
func TestNetworkOfAnotherContainer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeEngine()
		f.silently(func() { f.run("self"); f.run("owner"); f.run("web") })
		f.silently(func() {
			for _, id := range []string{"self", "web"} {
				c := *f.containers[id]
				c.Networks, c.Address, c.Network = []NetworkAddress{{"a", "10.0.0.1"}}, "10.0.0.1", "a"
				f.containers[id] = &c
			}
			f.shares["self"] = "owner"
		})
		var has atomic.Bool
		has.Store(true)
		_, s := watchFrom(t, f, func(string) bool { return has.Load() })
		time.Sleep(time.Second)
		s.take()
		has.Store(false)
		f.emit("owner", ActionDie, 0)
		time.Sleep(time.Second)
		if got := s.take(); !slices.Contains(got, `web at ""`) {
			t.Errorf("without its network healthd sees %q", got)
		}
	})
}

// Two endpoints of one engine show the same. An engine that claims to have healthd's container as well, rightly or
// not, changes nothing for the other, and the two do not have each other looked at again and again.
func TestTwoEnginesWithTheOwnContainer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		changes := 0
		point := &Standpoint{ID: "self", Sees: func(int) bool { return false }, Changed: func() { changes++ }}
		var sources []Source
		for i, network := range []string{"a", "host"} {
			f := newFakeEngine()
			f.silently(func() { f.run("self") })
			c := *f.containers["self"]
			c.Address, c.Network, c.Networks = "10.0.0.1", network, []NetworkAddress{{network, "10.0.0.1"}}
			f.containers["self"] = &c
			sources = append(sources, point.Source(fmt.Sprintf("docker-%d", i), f))
		}
		for range 3 {
			for _, s := range sources {
				if all, err := s.List(t.Context()); err != nil || len(all) != 1 || !all[0].Self {
					t.Errorf("got %+v, %v", all, err)
				}
			}
		}
		if from := point.From("docker-0"); from.HostNetwork || !slices.Equal(from.Networks, []string{"a"}) || changes != 2 {
			t.Errorf("from %+v after %d changes", from, changes)
		}
		if third := point.From("docker-2"); third.HostNetwork || len(third.Networks) != 0 {
			t.Errorf("a third one from %+v", third)
		}
	})
}

// An engine that does not have healthd's container looks as from the host, unless another one has it.
func TestAnotherEnginesContainer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeEngine()
		f.silently(func() { f.run("web") })
		point, s := watchFrom(t, f, nil)
		time.Sleep(time.Second)
		if got := s.take(); len(got) != 1 || got[0] == `web at ""` || point.Own() != nil {
			t.Errorf("got %q, own container %v", got, point.Own())
		}
		point.found(ownShown{runtime: "containerd", container: &Container{ID: "self", Name: "healthd", Network: "b", Networks: []NetworkAddress{{"b", "10.0.0.1"}}}})
		time.Sleep(time.Second)
		if got := s.take(); !slices.Equal(got, []string{`web at ""`}) {
			t.Errorf("from another engine: %q", got)
		}
	})
}

// An engine may know healthd's own container by a longer ID.
type qualifying struct{ *fakeEngine }

func (qualifying) IDs(own string) []string { return []string{"default:" + own, "shop:" + own} }

// A healthd whose container no engine shows asks only where it has an interface, until one does.
func TestOwnContainerIsShownLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeEngine()
		f.silently(func() { f.run("web") })
		point := &Standpoint{ID: "self", Sees: func(int) bool { return false }, Links: func() []netip.Prefix { return []netip.Prefix{} }}
		source := point.Source("containerd", qualifying{f})
		look := func() (*Container, Summary) {
			all, err := source.List(t.Context())
			c, err2 := source.Inspect(t.Context(), "web")
			if err != nil || err2 != nil {
				t.Fatal(err, err2)
			}
			return c, all[0]
		}
		c, s := look()
		if !strings.Contains(c.Unreached(), "no engine of its configuration shows") || !s.Matches(c) {
			t.Errorf("unknown: %q, %+v", c.Unreached(), s)
		}
		f.silently(func() { f.run("shop:self") })
		if c, s := look(); !strings.Contains(c.Unreached(), "(shop:self) is not") || !s.Matches(c) || point.Own() == nil {
			t.Errorf("known: %q, %+v", c.Unreached(), s)
		}
	})
}

// While it is not known from where healthd looks, it sees nothing.
func TestOwnContainerThatCannotBeLookedAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeEngine()
		f.silently(func() { f.run("self"); f.run("web") })
		f.inspectErr["self"] = errors.New("refused")
		_, s := watchFrom(t, f, nil)
		time.Sleep(time.Second)
		if got := s.take(); len(got) != 0 {
			t.Errorf("got %q", got)
		}
	})
}

// farEngine is an engine that may be elsewhere.
type farEngine struct {
	*fakeEngine
	place  Place
	unsure bool
}

func (f *farEngine) Place(context.Context) (Place, bool) { return f.place, !f.unsure }

// Where an engine is shows at each connection; one that has healthd's own container is not elsewhere.
func TestEnginePlaces(t *testing.T) {
	far := &farEngine{fakeEngine: newFakeEngine(), place: Place{Elsewhere: "far"}}
	far.silently(func() { far.run("self") })
	from := func(point *Standpoint, source Source) string {
		t.Helper()
		if _, err := source.List(t.Context()); err != nil {
			t.Fatal(err)
		}
		v := point.From("docker")
		if v == nil {
			return ""
		}
		if v.Confined() != (v.Own != "") {
			t.Errorf("confined: %+v", v)
		}
		return v.Elsewhere
	}
	onHost := &Standpoint{}
	source := onHost.Source("docker", far)
	if got := from(onHost, source); got != "far" {
		t.Errorf("from the host: %q", got)
	}
	if got := onHost.From("another"); got != nil {
		t.Errorf("another engine: %+v", got)
	}
	far.place = Place{}
	if got := from(onHost, source); got != "far" {
		t.Errorf("during one connection: %q", got)
	}
	if _, err := source.Subscribe(t.Context(), time.Time{}); err != nil {
		t.Fatal(err)
	}
	if got := from(onHost, source); got != "" {
		t.Errorf("after the next one: %q", got)
	}
	far.place, far.unsure = Place{Elsewhere: "far"}, true
	if _, err := source.Subscribe(t.Context(), time.Time{}); err != nil {
		t.Fatal(err)
	}
	if got := from(onHost, source); got != "" {
		t.Errorf("after a connection that does not tell for sure: %q", got)
	}
	far.unsure = false
	if got := from(onHost, source); got != "far" {
		t.Errorf("asked again with the next list: %q", got)
	}
	beside := &Standpoint{ID: "other", Links: func() []netip.Prefix { return []netip.Prefix{} }}
	if got := from(beside, beside.Source("docker", far)); got != "far" {
		t.Errorf("from a container of another engine: %q", got)
	}
	within := &Standpoint{ID: "self", Sees: func(int) bool { return true }}
	if got := from(within, within.Source("docker", far)); got != "" {
		t.Errorf("from a container of its own: %q", got)
	}
}
