package supervisor

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"healthd/prober"
	"healthd/runtime"
	"healthd/supervisor/core"
)

// fakePublisher keeps what the Board showed of c1 at each call of Changed; for another ID, it begins with that.
type fakePublisher struct {
	mu      sync.Mutex
	harness *harness
	changes []string
	lastUp  string
}

func (l *fakePublisher) Changed(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	shown := "none"
	if v, err := l.harness.Board().Find("c1"); err == nil {
		ready, reason, _ := v.Readiness()
		shown = map[bool]string{true: "ready", false: reason}[ready]
	}
	switch id {
	case "c1":
	case "":
		shown = "all: " + shown
	default:
		shown = id + ": " + shown
	}
	l.changes = append(l.changes, shown)
}

func (l *fakePublisher) LastUp(id string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if id != "c1" {
		return ""
	}
	return l.lastUp
}

// newChanges returns the changes since the last call.
func (l *fakePublisher) newChanges() []string {
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	changes := l.changes
	l.changes = nil
	return changes
}

func newPublisherHarness(t *testing.T) (*harness, *fakePublisher) {
	return newPublisherHarnessOf(t, webSpec())
}

func newPublisherHarnessOf(t *testing.T, spec *core.Spec) (*harness, *fakePublisher) {
	l := &fakePublisher{}
	l.mu.Lock() // Changed waits until the harness is set
	h := newHarnessWith(t, spec, func(c *Config) { c.Publisher = l })
	l.harness = h
	l.mu.Unlock()
	return h, l
}

// The publisher is told of a change that matters to load balancers, after the Board
// shows it, and of no other.
func TestPublisherIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, l := newPublisherHarness(t)
		defer h.close()
		h.sendSynced()
		if got := l.newChanges(); !slices.Equal(got, []string{"all: none"}) {
			t.Errorf("at the first sync: %v", got)
		}
		h.probes.setResult("c1:1", prober.Result{Outcome: prober.Success})
		h.probes.setResult("c1:2", prober.Result{Outcome: prober.Success})
		h.engine.run("c1")
		if got := l.newChanges(); !slices.Equal(got, []string{"ReadinessPending", "ready"}) {
			t.Errorf("at its start: %v", got)
		}
		time.Sleep(time.Minute)
		if got := l.newChanges(); len(got) != 0 {
			t.Errorf("while nothing changes: %v", got)
		}
		h.event(runtime.Killed, "c1", 15)
		if got := l.newChanges(); !slices.Equal(got, []string{"Draining"}) {
			t.Errorf("at an operator's signal: %v", got)
		}
		h.engine.exit("c1", 143)
		if got := l.newChanges(); !slices.Contains(got, "NotRunning") {
			t.Errorf("at its end: %v", got)
		}
		h.remove("c1")
		if got := l.newChanges(); !slices.Equal(got, []string{"none"}) {
			t.Errorf("at its removal: %v", got)
		}
	})
}

// The event of an end withdraws a container before an inspection shows the end.
func TestDiedWithdrawsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, l := newPublisherHarness(t)
		defer h.close()
		h.sendSynced()
		h.probes.setResult("c1:2", prober.Result{Outcome: prober.Success})
		h.engine.run("c1")
		l.newChanges()
		h.engine.deliver(runtime.Update{Kind: runtime.Died, Runtime: "docker", ID: "c1", ExitCode: 1, Time: time.Now()})
		if got := l.newChanges(); !slices.Equal(got, []string{"NotRunning"}) {
			t.Errorf("at the event: %v", got)
		}
		h.engine.deliver(h.engine.observation("c1")) // the event was of another run
		if got := l.newChanges(); !slices.Equal(got, []string{"ready"}) {
			t.Errorf("when it is seen to run: %v", got)
		}
		h.engine.deliver(runtime.Update{Kind: runtime.Died, Runtime: "docker", ID: "c1", ExitCode: 1, Time: time.Now(), Of: runtime.RunHint{Run: runtime.Run{ID: "c1", Started: 1}}})
		if got := l.newChanges(); len(got) != 0 {
			t.Errorf("at the late event of an earlier end: %v", got)
		}
	})
}

// A container that hangs while it drains no longer answers its last requests, which load
// balancers must know.
func TestFailureDuringDrainIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spec := webSpec()
		spec.Publish.Drain = 30 * time.Second
		h, l := newPublisherHarnessOf(t, spec)
		defer h.close()
		h.sendSynced()
		h.probes.setResult("c1:2", prober.Result{Outcome: prober.Success})
		h.probes.setResult("c1:1", refused)
		h.engine.run("c1")
		time.Sleep(20*time.Second + time.Millisecond) // the third failure of liveness
		l.newChanges()
		if v := h.view("c1"); !v.DrainingReady() {
			t.Fatalf("it does not drain while ready: %+v", v.State)
		}
		h.probes.setResult("c1:2", refused)
		time.Sleep(5 * time.Second)
		if got := l.newChanges(); !slices.Equal(got, []string{"Draining"}) || h.view("c1").DrainingReady() {
			t.Errorf("when readiness fails: %v", got)
		}
	})
}

// The drain begins with the word of those who reload balancers, and HAProxy's cannot end it before.
func TestWithdrawnBeginsTheDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spec := webSpec()
		spec.Publish.Drain, spec.Publish.LeastDrain, spec.Publish.WithdrawWithin = 10*time.Second, 2*time.Second, 20*time.Second
		h, _ := newPublisherHarnessOf(t, spec)
		defer h.close()
		h.sendSynced()
		h.probes.setResult("c1:2", prober.Result{Outcome: prober.Success})
		h.probes.setResult("c1:1", refused)
		h.engine.run("c1")
		time.Sleep(20*time.Second + time.Millisecond) // the third failure
		run := h.view("c1").State.Run.ID
		tell := func(what func(context.Context, runtime.Run) error, run runtime.Run) {
			if err := what(t.Context(), run); err != nil {
				t.Error(err)
			}
			synctest.Wait()
		}
		tell(h.Drained, run)
		tell(h.Withdrawn, runtime.Run{ID: "c1", Started: run.Started - 1})
		tell(h.Withdrawn, runtime.Run{ID: "c2", Started: run.Started})
		if !h.view("c1").State.AwaitsWithdrawal() {
			t.Fatal("others told of another run, and HAProxy of this one: it waits no more")
		}
		tell(h.Withdrawn, run)
		tell(h.Drained, run)
		if s := h.view("c1").State; s.AwaitsWithdrawal() || len(h.engine.calls()) > 0 {
			t.Fatalf("it does not drain: %v, %+v", h.engine.calls(), s)
		}
		if time.Sleep(2*time.Second + 10*time.Millisecond); !slices.Contains(h.engine.calls(), "stop c1 30s") {
			t.Errorf("calls %v, want a stop after the least drain: %+v", h.engine.calls(), h.view("c1").State.Action)
		}
	})
}

func TestDrainedEndsTheDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, l := newPublisherHarness(t)
		defer h.close()
		h.sendSynced()
		h.probes.setResult("c1:2", prober.Result{Outcome: prober.Success})
		l.lastUp = "backend web"
		h.probes.setResult("c1:1", refused)
		h.engine.run("c1")
		time.Sleep(20*time.Second + time.Millisecond) // the third failure
		run := h.view("c1").State.Run.ID
		if !h.view("c1").State.AwaitsDrain() {
			t.Fatalf("it does not drain: %+v", h.view("c1").State)
		}
		for _, other := range []runtime.Run{{}, {ID: "c1", Started: run.Started - 1}, {ID: "c2", Started: run.Started}} {
			if err := h.Drained(context.Background(), other); err != nil {
				t.Error(err)
			}
		}
		if synctest.Wait(); len(h.engine.calls()) > 0 {
			t.Errorf("%v after the drain of other runs", h.engine.calls())
		}
		if err := h.Drained(context.Background(), run); err != nil {
			t.Error(err)
		}
		if synctest.Wait(); !slices.Contains(h.engine.calls(), "stop c1 30s") {
			t.Errorf("calls %v, want a stop at once", h.engine.calls())
		}
		said := slices.ContainsFunc(h.journal.events, func(e core.Event) bool {
			return e.Reason == core.EventKilling && strings.HasSuffix(e.Message, ", although it is the last server up in backend web")
		})
		if !said {
			t.Errorf("no event names it as the last one: %v", h.journal.events)
		}
	})
}
