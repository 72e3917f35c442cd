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
func (d *diary) newest(id string) *runtime.Container {
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
	d.reads(t, 0, "synced start")
	told := func(what string, ok func(c *runtime.Container) bool) {
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
	told("the other's run is told", func(c *runtime.Container) bool {
		return c.NetworkOwner == parent && !c.NetworkOwnerGone && c.NetworkOwnerStartedAt.Equal(first)
	})
	now := 0
	if err := private.Client().ContainerRestart(t.Context(), parent, container.StopOptions{Timeout: &now}); err != nil {
		t.Fatal(err)
	}
	second := startedAt()
	told("the new run is told", func(c *runtime.Container) bool { return second.After(first) && c.NetworkOwnerStartedAt.Equal(second) })
	if err := e.Stop(t.Context(), parent, 0); err != nil {
		t.Fatal(err)
	}
	told("its end is told", func(c *runtime.Container) bool {
		return c.NetworkOwnerStartedAt.IsZero() && !c.NetworkOwnerGone && c.Address == ""
	})
	private.Remove(t, parent)
	told("its removal is told", func(c *runtime.Container) bool { return c.NetworkOwner == parent && c.NetworkOwnerGone })
	replaced := private.Run(t, dockertest.RunOptions{Name: "lender", Cmd: sleep})
	next := private.Run(t, dockertest.RunOptions{Name: "borrower2", Network: "container:lender", Cmd: sleep})
	if c, err := e.Inspect(t.Context(), next); err != nil || c.NetworkOwner != replaced || c.NetworkOwnerGone {
		t.Errorf("got %+v, %v", c, err)
	}
	if c := d.newest(child); c.NetworkOwner != parent || !c.NetworkOwnerGone {
		t.Errorf("got %+v: the engine does not give another network to what runs", c)
	}
}

// deafEngine hides the events of one container.
type deafEngine struct {
	*docker.Engine
	to string
}

type deafStream struct {
	runtime.Stream
	to string
}

func (e deafEngine) Subscribe(ctx context.Context, since time.Time) (runtime.Stream, error) {
	s, err := e.Engine.Subscribe(ctx, since)
	return deafStream{s, e.to}, err
}

func (s deafStream) Next() (runtime.Event, error) {
	for {
		if ev, err := s.Stream.Next(); err != nil || ev.ID != s.to {
			return ev, err
		}
	}
}

func TestSharedNetworkIsFoundByLists(t *testing.T) {
	e, private := engine(t)
	sleep := []string{"sleep", "1000"}
	parent := private.Run(t, dockertest.RunOptions{Name: "quiet-lender", Cmd: sleep})
	child := private.Run(t, dockertest.RunOptions{Name: "quiet-borrower", Network: "container:quiet-lender", Cmd: sleep})
	refresh := make(chan struct{})
	d := follow(t, &runtime.Watcher{
		Name: "docker", Source: deafEngine{e, parent}, Refresh: refresh, Relist: time.Hour,
		Wanted: func(name string, _ map[string]string) bool { return name == "quiet-borrower" },
	})
	n := d.reads(t, 0, "synced start")
	if c := d.newest(child); c.NetworkOwnerStartedAt.IsZero() {
		t.Errorf("got %+v", c)
	}
	if err := e.Stop(t.Context(), parent, 0); err != nil {
		t.Fatal(err)
	}
	refresh <- struct{}{}
	n = d.reads(t, n, "observed quiet-borrower running", "synced refresh")
	if c := d.newest(child); !c.NetworkOwnerStartedAt.IsZero() || c.NetworkOwnerGone {
		t.Errorf("got %+v of a stopped one", c)
	}
	private.Remove(t, parent)
	refresh <- struct{}{}
	d.reads(t, n, "observed quiet-borrower running", "synced refresh")
	if c := d.newest(child); !c.NetworkOwnerGone {
		t.Errorf("got %+v of a removed one", c)
	}
}
