package fleet

import (
	"context"
	"errors"
	"testing"
	"time"

	"healthd/runtime"
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
	if err := h2.Resume(t.Context(), runtime.IDPrefix+own); err != nil { // somebody on that host
		t.Fatal(err)
	}
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

// A hold for some time ends by itself, by etcd's clock.
func TestHoldForSomeTime(t *testing.T) {
	t.Parallel()
	c := sharedCluster(t)
	h1 := newDaemon(t, "h1", c.Endpoints, nil)
	h1.has("a", stateReady)
	h1.start()
	h1.until(func() bool { return h1.fleet.Status().Connected }, "a connection")
	if err := h1.fleet.Hold(t.Context(), "web", 3*time.Second); err != nil {
		t.Fatal(err)
	}
	h1.awaitHeld("a")
	if all := h1.fleet.Holds(); len(all) != 1 || all[0].For != "3s" {
		t.Errorf("the holds are %+v", all)
	}
	h1.awaitHeld("")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := h1.fleet.Hold(ctx, "web", 0); err == nil {
		t.Error("a hold that nobody waits for succeeds")
	}
}
