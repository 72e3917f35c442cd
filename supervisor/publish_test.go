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

// listener is a Publisher that remembers when it was told of changes, and whether the
// Board showed the container as ready then.
type listener struct {
	mu    sync.Mutex
	house *house
	told  []string
	last  string
}

func (l *listener) Changed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	shown := "none"
	if v, ok := l.house.Board().Find("c1"); ok {
		ready, reason, _ := v.Readiness()
		shown = map[bool]string{true: "ready", false: reason}[ready]
	}
	l.told = append(l.told, shown)
}

func (l *listener) LastUp(id string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if id != "c1" {
		return ""
	}
	return l.last
}

// heard returns what was told since the last time.
func (l *listener) heard() []string {
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	told := l.told
	l.told = nil
	return told
}

func openPublished(t *testing.T) (*house, *listener) {
	l := &listener{}
	l.mu.Lock() // nobody is told before there is a house
	h := openWith(t, webSpec(), func(c *Config) { c.Publisher = l })
	l.house = h
	l.mu.Unlock()
	return h, l
}

// What load balancers see is told when it changes, the Board being up to date, and what
// they do not see is not.
func TestPublisherIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, l := openPublished(t)
		defer h.close(t)
		h.synced()
		if got := l.heard(); !slices.Equal(got, []string{"none"}) {
			t.Errorf("at the first sync: %v", got)
		}
		h.probes.say("c1:1", prober.Result{Outcome: prober.Success})
		h.probes.say("c1:2", prober.Result{Outcome: prober.Success})
		h.engine.run("c1")
		if got := l.heard(); !slices.Equal(got, []string{"ReadinessPending", "ready"}) {
			t.Errorf("when it begins: %v", got)
		}
		time.Sleep(time.Minute)
		if got := l.heard(); len(got) != 0 {
			t.Errorf("while nothing changes: %v", got)
		}
		h.tell(runtime.Killed, "c1", 15)
		if got := l.heard(); !slices.Equal(got, []string{"Draining"}) {
			t.Errorf("at an operator's signal: %v", got)
		}
		h.engine.exit("c1", 143)
		if got := l.heard(); !slices.Contains(got, "NotRunning") {
			t.Errorf("at its end: %v", got)
		}
		h.removes("c1")
		if got := l.heard(); !slices.Equal(got, []string{"none"}) {
			t.Errorf("when it is gone: %v", got)
		}
	})
}

// The news of an end withdraws a container before any inspection shows it.
func TestDeathWithdrawsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, l := openPublished(t)
		defer h.close(t)
		h.synced()
		h.probes.say("c1:2", prober.Result{Outcome: prober.Success})
		h.engine.run("c1")
		l.heard()
		h.engine.deliver(runtime.Update{Kind: runtime.Died, Runtime: "docker", ID: "c1", ExitCode: 1, Time: time.Now()})
		if got := l.heard(); !slices.Equal(got, []string{"NotRunning"}) {
			t.Errorf("at the news: %v", got)
		}
		h.engine.deliver(h.engine.seen("c1")) // it was of another run
		if got := l.heard(); !slices.Equal(got, []string{"ready"}) {
			t.Errorf("when it is seen to run: %v", got)
		}
		began := h.view(t, "c1").State.Run.StartedAt
		h.engine.deliver(runtime.Update{Kind: runtime.Died, Runtime: "docker", ID: "c1", ExitCode: 1, Time: began.Add(-time.Millisecond)})
		if got := l.heard(); len(got) != 0 {
			t.Errorf("at the late news of an earlier end: %v", got)
		}
	})
}

func TestDrainedEndsTheDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, l := openPublished(t)
		defer h.close(t)
		h.synced()
		h.probes.say("c1:2", prober.Result{Outcome: prober.Success})
		h.engine.run("c1")
		l.last = "backend web"
		h.probes.say("c1:1", refused)
		time.Sleep(20*time.Second + time.Millisecond) // the third failure
		run := h.view(t, "c1").State.Run.ID
		if !h.view(t, "c1").State.AwaitsDrain() {
			t.Fatalf("it does not drain: %+v", h.view(t, "c1").State)
		}
		for _, other := range []runtime.Run{{}, {ID: "c1", Started: run.Started - 1}, {ID: "c2", Started: run.Started}} {
			if err := h.Drained(context.Background(), other); err != nil {
				t.Error(err)
			}
		}
		if synctest.Wait(); len(h.engine.madeCalls()) > 0 {
			t.Errorf("%v for the drain of others", h.engine.madeCalls())
		}
		if err := h.Drained(context.Background(), run); err != nil {
			t.Error(err)
		}
		if synctest.Wait(); !slices.Contains(h.engine.madeCalls(), "stop c1 30s") {
			t.Errorf("calls %v, want a stop at once", h.engine.madeCalls())
		}
		said := slices.ContainsFunc(h.diary.events, func(e core.Event) bool {
			return e.Reason == core.EventKilling && strings.HasSuffix(e.Message, ", although it is the last one that is up in backend web")
		})
		if !said {
			t.Errorf("no event says that it was the last one: %v", h.diary.events)
		}
	})
}
