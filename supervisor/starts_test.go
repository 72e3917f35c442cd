package supervisor

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"healthd/runtime"
	"healthd/supervisor/core"
)

// playReboot runs a test on a host whose engine has just come back without its 20 containers. Each start takes
// that long.
func playReboot(t *testing.T, startTakes time.Duration, do func(h *fakeHost)) {
	t.Helper()
	playHost(t, plainSpec(core.Always), func(h *fakeHost) {
		h.startDaemon(runtime.ReplayUnknown, 0)
		for i := range 20 {
			h.engine.run(fmt.Sprintf("c%02d", i))
		}
		pass(time.Minute)
		h.killEngine()
		h.engine.startTakes = startTakes
		h.startEngine()
		do(h)
	})
}

// down returns the containers that do not run.
func (h *fakeHost) down() (ids []string) {
	synctest.Wait()
	for i := range 20 {
		if id := fmt.Sprintf("c%02d", i); !h.running(id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// waitsForTurn says that the container's start waits for other starts, and that its view says so.
func (h *fakeHost) waitsForTurn(id string) bool {
	w := h.view(id).Waiting()
	return w != nil && strings.Contains(w.Message, "fewer than 8 other starts")
}

// After a reboot a small engine has a few starts to carry out at once, and not those of all its containers.
func TestStartsTakeTurns(t *testing.T) {
	playReboot(t, time.Second, func(h *fakeHost) {
		waiting := 0
		for _, id := range h.down() {
			if h.waitsForTurn(id) {
				waiting++
			}
		}
		if calls := len(h.engine.calls()); calls != 8 || waiting != 12 {
			t.Errorf("%d starts begin at once, %d wait", calls, waiting)
		}
		pass(2500 * time.Millisecond)
		if down := h.down(); len(down) != 4 || len(h.engine.calls()) != 20 {
			t.Errorf("after two rounds %v are down, calls %v", down, h.engine.calls())
		}
		pass(time.Second)
		if down := h.down(); len(down) != 0 || h.engine.mostStarts != 8 {
			t.Errorf("%v are down, %d starts were under way at once", down, h.engine.mostStarts)
		}
	})
}

// Starts that hang hold up others for a moment only: a tenant may have its own hang.
func TestStartsThatHang(t *testing.T) {
	playReboot(t, 2*time.Minute, func(h *fakeHost) {
		pass(9 * time.Second)
		before := len(h.engine.calls())
		pass(12 * time.Second)
		if after := len(h.engine.calls()); before != 8 || after != 20 {
			t.Errorf("%d starts within 10 s, %d after 21 s", before, after)
		}
	})
}

// What leaves the queue by itself is not started, and takes no turn of another.
func TestStartsThatAreOver(t *testing.T) {
	playReboot(t, time.Second, func(h *fakeHost) {
		var waiting, under []string
		for _, id := range h.down() {
			if h.waitsForTurn(id) {
				waiting = append(waiting, id)
			} else {
				under = append(under, id)
			}
		}
		if len(waiting) != 12 || len(under) != 8 {
			t.Fatalf("%v wait, %v are being started", waiting, under)
		}
		remove := func(id string) {
			h.engine.delete(id)
			h.engine.deliver(runtime.Update{Kind: runtime.Removed, Runtime: "docker", ID: id})
		}
		remove(waiting[0])
		remove(under[0])
		h.engine.run(waiting[1])
		daemon, _ := h.current()
		for _, id := range waiting[2:4] {
			if err := daemon.Hold(context.Background(), id, time.Time{}); err != nil {
				t.Fatal(err)
			}
		}
		pass(time.Minute)
		want := len(under) + len(waiting) - 4
		calls := h.engine.calls()
		if len(calls) != want || h.engine.mostStarts != 8 {
			t.Errorf("%d starts, want %d, at once %d: %v", len(calls), want, h.engine.mostStarts, calls)
		}
		for _, call := range calls {
			for _, id := range waiting[:4] {
				if call == "start "+id {
					t.Errorf("%s was started", id)
				}
			}
		}
	})
}

// What an operator asks for waits for no turn.
func TestRequestedStartTakesNoTurn(t *testing.T) {
	playReboot(t, time.Second, func(h *fakeHost) {
		var last string
		for _, id := range h.down() {
			if h.waitsForTurn(id) {
				last = id
			}
		}
		daemon, _ := h.current()
		if err := daemon.Restart(context.Background(), last); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if calls := h.engine.calls(); len(calls) != 9 || calls[8] != "start "+last {
			t.Errorf("calls: %v, want that of %s", calls, last)
		}
	})
}

// Before healthd shuts down it starts what waits, by turns, too.
func TestShutdownStartsByTurns(t *testing.T) {
	playReboot(t, time.Second, func(h *fakeHost) {
		h.stop()
		h.ended.Wait()
		if down := h.down(); len(down) != 0 || h.engine.mostStarts != 8 {
			t.Errorf("healthd has ended: %v are down, %d starts were under way at once", down, h.engine.mostStarts)
		}
	})
}

// An engine that is lost again while starts wait has each of them at its return.
func TestStartsAfterEngineIsLostAgain(t *testing.T) {
	playReboot(t, time.Second, func(h *fakeHost) {
		h.killEngine()
		pass(time.Minute)
		if calls := h.engine.calls(); len(calls) != 8 {
			t.Errorf("healthd starts what it cannot reach: %v", calls)
		}
		h.startEngine()
		pass(time.Minute)
		if down := h.down(); len(down) != 0 || h.engine.mostStarts != 8 {
			t.Errorf("%v are down, %d starts were under way at once", down, h.engine.mostStarts)
		}
	})
}

// A shutdown starts what healthd has stopped, however many starts are due of what has ended by itself.
func TestShutdownStartsWhatItHasStopped(t *testing.T) {
	plain := plainSpec(core.Always)
	plain.Backoff.Initial, plain.Backoff.Max = 5*time.Minute, 5*time.Minute
	synctest.Test(t, func(t *testing.T) {
		h, web := newFakeHost(t, plain), webSpec()
		h.shutdown = 30 * time.Second
		h.resolve = func(c runtime.Traits) (*core.Spec, error) {
			if c.Name == "n-web" {
				return web, nil
			}
			return plain, nil
		}
		h.startDaemon(runtime.ReplayUnknown, 0)
		h.engine.run("web")
		pass(time.Minute)
		for i := range 40 {
			h.engine.run(fmt.Sprintf("c%02d", i))
		}
		for range 2 { // the second end has a back-off
			pass(20 * time.Second)
			for i := range 40 {
				h.engine.exit(fmt.Sprintf("c%02d", i), 1)
			}
		}
		synctest.Wait()
		h.engine.startTakes, h.engine.stopTakes = 6*time.Second, 5*time.Second
		h.probes.setResult("web:1", refused)
		for h.view("web").State.Action.Call != core.StopCall {
			pass(time.Second)
		}
		h.stop()
		h.ended.Wait()
		if !h.running("web") {
			t.Error("healthd has ended, and web is down, which it had stopped itself")
		}
		h.kill()
	})
}
