package scenarios

import (
	"context"
	"slices"
	"testing"
	"time"

	"healthd/runtime"
)

func sharedNetwork(t *testing.T, p Private) {
	e := connect(t, p)
	owner := p.Run(t, Container{Name: "lender", Cmd: deaf})
	child := p.Run(t, watched(t, Container{Name: "borrower", Network: "container:" + owner, Cmd: deaf}))
	l := Watch(t, e)
	l.WaitFor(t, 0, "synced start")
	waitFor := func(what string, ok func(c *runtime.Container) bool) {
		t.Helper()
		Eventually(t, what+" is observed", func() bool { return ok(l.Newest(child)) })
	}
	first := inspect(t, e, owner).StartedAt
	waitFor("the owner's run", func(c *runtime.Container) bool {
		return c.NetworkOwner == owner && !c.NetworkOwnerGone && c.NetworkOwnerStartedAt.Equal(first)
	})
	p.OperatorRestarts(t, owner)
	second := inspect(t, e, owner).StartedAt
	waitFor("the owner's new run", func(c *runtime.Container) bool {
		return second.After(first) && c.NetworkOwnerStartedAt.Equal(second)
	})
	stop(t, e, owner, 0)
	waitFor("the owner's end", func(c *runtime.Container) bool {
		return c.NetworkOwnerStartedAt.IsZero() && !c.NetworkOwnerGone && c.Address == ""
	})
	p.Remove(t, owner)
	waitFor("the owner's removal", func(c *runtime.Container) bool { return c.NetworkOwner == owner && c.NetworkOwnerGone })
	replaced := p.Run(t, Container{Name: "lender", Cmd: deaf})
	next := p.Run(t, Container{Name: "borrower2", Network: "container:" + replaced, Cmd: deaf})
	if c := inspect(t, e, next); c.NetworkOwner != replaced || c.NetworkOwnerGone {
		t.Errorf("got %+v", c)
	}
	if c := l.Newest(child); c.NetworkOwner != owner || !c.NetworkOwnerGone {
		t.Errorf("got %+v: a running container does not get another network", c)
	}
}

// eventHidingEngine hides the events of one container.
type eventHidingEngine struct {
	Engine
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

func sharedNetworkWithoutEvents(t *testing.T, p Private) {
	e := connect(t, p)
	owner := p.Run(t, Container{Name: "hidden-lender", Cmd: deaf})
	child := p.Run(t, Container{Name: "hidden-borrower", Network: "container:" + owner, Cmd: deaf})
	refresh := make(chan struct{})
	l := Record(t, &runtime.Watcher{
		Name: p.Name(), Source: eventHidingEngine{e, owner}, Refresh: refresh, Relist: time.Hour,
		Wanted: func(c runtime.Traits) bool { return c.Name == "hidden-borrower" },
	})
	n := l.WaitFor(t, 0, "synced start")
	if c := l.Newest(child); c.NetworkOwnerStartedAt.IsZero() {
		t.Errorf("got %+v", c)
	}
	stop(t, e, owner, 0)
	// From Docker 26 on a list may show it as running for a moment after the call that stopped it.
	Eventually(t, "a list shows the owner's end", func() bool {
		list, err := e.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return !slices.ContainsFunc(list, func(s runtime.Summary) bool { return s.ID == owner && s.State.Alive() })
	})
	refresh <- struct{}{}
	n = l.WaitFor(t, n, "observed hidden-borrower running", "synced refresh")
	if c := l.Newest(child); !c.NetworkOwnerStartedAt.IsZero() || c.NetworkOwnerGone {
		t.Errorf("got %+v of a stopped one", c)
	}
	p.Remove(t, owner)
	refresh <- struct{}{}
	l.WaitFor(t, n, "observed hidden-borrower running", "synced refresh")
	if c := l.Newest(child); !c.NetworkOwnerGone {
		t.Errorf("got %+v of a removed one", c)
	}
}
