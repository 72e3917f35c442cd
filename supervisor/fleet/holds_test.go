package fleet

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"healthd/supervisor/core"
	"healthd/supervisor/fleet/etcdtest"
)

// A hold of a service reaches all hosts, and who comes later. Its end resumes just those, also where healthd was away meanwhile.
func TestHoldOnAllHosts(t *testing.T) {
	t.Parallel()
	c := sharedCluster(t)
	h1, h2 := newDaemon(t, "h1", c.Endpoints, nil), newDaemon(t, "h2", c.Endpoints, nil)
	h1.has("a", stateReady)
	h2.has("b", stateReady)
	own := h2.has("own", stateReady)
	h1.start()
	h2.start()
	h1.await("h2:b ready, h2:own ready")
	if err := h1.fleet.Resume(t.Context(), "web"); !errors.Is(err, ErrNoHold) {
		t.Errorf("without a hold: %v", err)
	}
	if err := h1.fleet.Hold(t.Context(), "web", 0); err != nil {
		t.Fatal(err)
	}
	h1.awaitHeld("a")
	h2.awaitHeld("b own")
	h2.has("c", stateReady)
	h2.awaitHeld("b c own")
	h2.mu.Lock()
	h2.show(own, func(l *core.Lasting) { l.FleetHoldOver = true }) // a resume on that host
	h2.mu.Unlock()
	h2.has("d", stateReady)
	h2.awaitHeld("b c d")
	if all := h2.fleet.Holds(); len(all) != 1 || all[0].Service != "web" || all[0].By != "h1" || all[0].For != "" {
		t.Errorf("the holds are %+v", all)
	}
	h2.end()
	if err := h1.fleet.Resume(t.Context(), "web"); err != nil {
		t.Fatal(err)
	}
	h1.awaitHeld("")
	if got := h2.holding(); got != "b c d" {
		t.Errorf("without healthd, %q are held", got)
	}
	h2.restart()
	h2.awaitHeld("")
}

// A container that is re-created, or comes to another service, has the hold of its service, and no other. Another hold counts
// also where people on a host have ended the one before.
func TestHoldFollowsTheService(t *testing.T) {
	t.Parallel()
	c := sharedCluster(t)
	h1 := newDaemon(t, "h1", c.Endpoints, nil)
	a, b := h1.has("a", stateReady), h1.has("b", stateReady)
	h1.start()
	h1.until(func() bool { return h1.fleet.Status().Connected }, "a connection")
	hold := holdValue{By: "h2", Since: time.Now()}
	if err := h1.fleet.putHold(t.Context(), "web", hold, 0); err != nil {
		t.Fatal(err)
	}
	h1.awaitHeld("a b")
	h1.mu.Lock()
	moved := *h1.board.ByID(b)
	moved.Service = "other"
	h1.board.Show(&moved)
	h1.show(a, func(l *core.Lasting) { l.FleetHoldOver = true })
	h1.mu.Unlock()
	h1.awaitHeld("")
	hold.Since = hold.Since.Add(time.Hour)
	if err := h1.fleet.putHold(t.Context(), "web", hold, 0); err != nil {
		t.Fatal(err)
	}
	h1.awaitHeld("a")
	if err := h1.fleet.Resume(t.Context(), "web"); err != nil {
		t.Fatal(err)
	}
	h1.awaitHeld("")
}

// A container that comes with a hold which has ended meanwhile, as one that could not be inspected before, is freed.
func TestHoldThatEndedBeforeItsContainerCame(t *testing.T) {
	t.Parallel()
	c := sharedCluster(t)
	h1 := newDaemon(t, "h1", c.Endpoints, nil)
	a := h1.has("a", stateReady)
	h1.start()
	h1.until(func() bool { _, listed := h1.fleet.holds.known(); return listed }, "the list of holds")
	v := *h1.board.ByID(a)
	container, kept := *v.Container, *v.State.Kept
	container.ID, container.Name, kept.Lasting.FleetHold = strings.Repeat("9", len(a)), "late", "h2 2026-01-01T00:00:00Z"
	v.Container, v.State.Kept = &container, &kept
	h1.board.Show(&v)
	h1.until(func() bool { return h1.resumptions() == 1 }, "the hold to end")
}

// A hold for some time ends by itself, by etcd's clock.
func TestHoldForSomeTime(t *testing.T) {
	t.Parallel()
	c := sharedCluster(t)
	h1 := newDaemon(t, "h1", c.Endpoints, nil)
	h1.has("a", stateReady)
	h1.start()
	h1.until(func() bool { return h1.fleet.Status().Connected }, "a connection")
	if err := h1.fleet.Hold(t.Context(), "web", 20*time.Second); err != nil {
		t.Fatal(err)
	}
	h1.awaitHeld("a")
	if all := h1.fleet.Holds(); len(all) != 1 || all[0].For != "20s" {
		t.Errorf("the holds are %+v", all)
	}
	h1.awaitHeld("")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := h1.fleet.Hold(ctx, "web", 0); err == nil {
		t.Error("a hold that nobody waits for succeeds")
	}
}

// A store that has lost all, or some, gets the holds again as well: nobody has ended them.
func TestHoldsOutliveTheStore(t *testing.T) {
	t.Parallel()
	c := newCluster(t, etcdtest.Options{Members: 1})
	h1, h2 := newDaemon(t, "h1", c.Endpoints, nil), newDaemon(t, "h2", c.Endpoints, nil)
	h1.has("a", stateReady)
	h1.start()
	h2.has("b", stateReady)
	h2.start()
	h1.await("h2:b ready")
	h2.await("h1:a ready")
	for service, d := range map[string]time.Duration{"web": 0, "other": time.Hour, "short": 20 * time.Second} {
		if err := h1.fleet.Hold(t.Context(), service, d); err != nil {
			t.Fatal(err)
		}
	}
	h1.awaitHeld("a")
	h2.awaitHeld("b")
	began := time.Now()
	holds := func(h *daemon) string {
		var all []string
		for _, hold := range h.fleet.Holds() {
			all = append(all, hold.Service)
		}
		return strings.Join(all, " ")
	}
	h2.until(func() bool { return holds(h2) == "other short web" }, "all holds, not %q", func() string { return holds(h2) })
	c.Replace(t)
	client := c.Client(t)
	h1.awaitEvent(eventError, "older state")
	h2.awaitEvent(eventError, "older state")
	h1.until(func() bool {
		return time.Since(began) > 25*time.Second && holds(h1) == "other web" && holds(h2) == "other web"
	}, "two holds, not %q", func() string { return holds(h1) })
	if got := keys(t, client, h1.config.Prefix+layout+"holds/"); strings.Join(got, " ") != "other web" {
		t.Errorf("the store has the holds %q", got)
	}
	for _, h := range []*daemon{h1, h2} {
		if got := h.resumptions(); got > 0 {
			t.Errorf("%s has resumed %d containers that are held", h.config.Host, got)
		}
	}
	if err := h1.fleet.Resume(t.Context(), "web"); err != nil {
		t.Fatal(err)
	}
	h1.awaitHeld("")
	h2.awaitHeld("")
}
