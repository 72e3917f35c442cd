package docker_test

import (
	"context"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"

	"healthd/runtime"
	"healthd/runtime/docker"
	"healthd/runtime/docker/dockertest"
)

// newest returns the newest observation of a container, and an empty one before the
// first.
func (d *updateLog) newest(id string) *runtime.Container {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := &runtime.Container{}
	for _, u := range d.updates {
		if u.Kind == runtime.Observed && u.ID == id {
			c = u.Container
		}
	}
	return c
}

func TestSharedNetwork(t *testing.T) {
	e, private := engine(t)
	sleep := []string{"sleep", "1000"}
	parent := private.Run(t, dockertest.RunOptions{Name: "lender", Cmd: sleep})
	child := private.Run(t, dockertest.RunOptions{Name: "borrower", Network: "container:lender", Cmd: sleep})
	d := watch(t, private, func(name string, _ map[string]string) bool { return name == "borrower" })
	d.waitFor(t, 0, "synced start")
	waitFor := func(what string, ok func(c *runtime.Container) bool) {
		t.Helper()
		eventually(t, what, func() bool { return ok(d.newest(child)) })
	}
	startedAt := func() time.Time {
		t.Helper()
		c, err := e.Inspect(t.Context(), parent)
		if err != nil {
			t.Fatal(err)
		}
		return c.StartedAt
	}
	first := startedAt()
	waitFor("the owner's run is observed", func(c *runtime.Container) bool {
		return c.NetworkOwner == parent && !c.NetworkOwnerGone && c.NetworkOwnerStartedAt.Equal(first)
	})
	now := 0
	if err := private.Client().ContainerRestart(t.Context(), parent, container.StopOptions{Timeout: &now}); err != nil {
		t.Fatal(err)
	}
	second := startedAt()
	waitFor("the owner's new run is observed", func(c *runtime.Container) bool { return second.After(first) && c.NetworkOwnerStartedAt.Equal(second) })
	if err := e.Stop(t.Context(), parent, 0); err != nil {
		t.Fatal(err)
	}
	waitFor("the owner's end is observed", func(c *runtime.Container) bool {
		return c.NetworkOwnerStartedAt.IsZero() && !c.NetworkOwnerGone && c.Address == ""
	})
	private.Remove(t, parent)
	waitFor("the owner's removal is observed", func(c *runtime.Container) bool { return c.NetworkOwner == parent && c.NetworkOwnerGone })
	replaced := private.Run(t, dockertest.RunOptions{Name: "lender", Cmd: sleep})
	next := private.Run(t, dockertest.RunOptions{Name: "borrower2", Network: "container:lender", Cmd: sleep})
	if c, err := e.Inspect(t.Context(), next); err != nil || c.NetworkOwner != replaced || c.NetworkOwnerGone {
		t.Errorf("got %+v, %v", c, err)
	}
	if c := d.newest(child); c.NetworkOwner != parent || !c.NetworkOwnerGone {
		t.Errorf("got %+v: a running container does not get another network", c)
	}
}

// eventHidingEngine hides the events of one container.
type eventHidingEngine struct {
	*docker.Engine
	id string
}

type eventHidingStream struct {
	runtime.Stream
	id string
}

func (e eventHidingEngine) Subscribe(ctx context.Context, since time.Time) (runtime.Stream, error) {
	s, err := e.Engine.Subscribe(ctx, since)
	return eventHidingStream{s, e.id}, err
}

func (s eventHidingStream) Next() (runtime.Event, error) {
	for {
		if ev, err := s.Stream.Next(); err != nil || ev.ID != s.id {
			return ev, err
		}
	}
}

func TestSharedNetworkWithoutEvents(t *testing.T) {
	e, private := engine(t)
	sleep := []string{"sleep", "1000"}
	parent := private.Run(t, dockertest.RunOptions{Name: "hidden-lender", Cmd: sleep})
	child := private.Run(t, dockertest.RunOptions{Name: "hidden-borrower", Network: "container:hidden-lender", Cmd: sleep})
	refresh := make(chan struct{})
	d := startWatcher(t, &runtime.Watcher{
		Name: "docker", Source: eventHidingEngine{e, parent}, Refresh: refresh, Relist: time.Hour,
		Wanted: func(name string, _ map[string]string) bool { return name == "hidden-borrower" },
	})
	n := d.waitFor(t, 0, "synced start")
	if c := d.newest(child); c.NetworkOwnerStartedAt.IsZero() {
		t.Errorf("got %+v", c)
	}
	if err := e.Stop(t.Context(), parent, 0); err != nil {
		t.Fatal(err)
	}
	refresh <- struct{}{}
	n = d.waitFor(t, n, "observed hidden-borrower running", "synced refresh")
	if c := d.newest(child); !c.NetworkOwnerStartedAt.IsZero() || c.NetworkOwnerGone {
		t.Errorf("got %+v of a stopped one", c)
	}
	private.Remove(t, parent)
	refresh <- struct{}{}
	d.waitFor(t, n, "observed hidden-borrower running", "synced refresh")
	if c := d.newest(child); !c.NetworkOwnerGone {
		t.Errorf("got %+v of a removed one", c)
	}
}
