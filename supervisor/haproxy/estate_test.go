package haproxy

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"healthd/prober"
	"healthd/runtime"
	"healthd/supervisor"
	"healthd/supervisor/core"
)

// estate is what a supervisor would know, for one HAProxy to be told.
type estate struct {
	t testing.TB
	b *balancer
	h *HAProxy

	pushed    prometheus.Observer // nil: nobody wants to know
	agent     string              // empty: where nobody answers
	lingering time.Duration       // zero: all processes count as old

	mu      sync.Mutex
	board   *supervisor.Board
	synced  bool
	views   map[string]*core.View
	events  []core.Event
	drained []runtime.Run
}

// tell tells HAProxy of an estate until the test ends.
func (b *balancer) tell() *estate {
	b.t.Helper()
	e := b.estate()
	e.begin(b.socket())
	return e
}

func (b *balancer) estate() *estate {
	return &estate{t: b.t, b: b, synced: true, views: map[string]*core.View{}}
}

// forget lets the next daemon not know of these containers.
func (e *estate) forget(names ...string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, name := range names {
		delete(e.views, name)
	}
}

// begin is a new daemon, which knows of no other. What ends it is returned.
func (e *estate) begin(sockets ...string) (end func()) {
	e.t.Helper()
	h, err := New(Config{Sockets: sockets, Agent: cmp.Or(e.agent, "127.0.0.1:9"), Journal: e})
	if err != nil {
		e.t.Fatal(err)
	}
	h.lingering = cmp.Or(e.lingering, -1)
	e.h = h
	if e.pushed != nil {
		h.metrics.pushed = e.pushed
	}
	e.show()
	return e.run()
}

// run is what a daemon does with it.
func (e *estate) run() (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- e.h.Run(ctx, e) }()
	end = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			e.t.Error(err)
		}
	})
	e.t.Cleanup(end)
	return end
}

func (e *estate) Board() *supervisor.Board {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.board
}

func (e *estate) Drained(_ context.Context, run runtime.Run) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.drained = append(e.drained, run)
	return nil
}

func (e *estate) Record(event core.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.events = append(e.events, event)
}

// recorded returns the messages of the events of that reason.
func (e *estate) recorded(reason string) []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var all []string
	for _, event := range e.events {
		if event.Reason == reason {
			all = append(all, event.Message)
		}
	}
	return all
}

// records waits until an event of that reason says that.
func (e *estate) records(reason, text string) {
	e.t.Helper()
	eventually(e.t, "an event", func() error {
		all := e.recorded(reason)
		if slices.ContainsFunc(all, func(m string) bool { return strings.Contains(m, text) }) {
			return nil
		}
		return fmt.Errorf("events %s: %q, want %q", reason, all, text)
	})
}

// show makes the board anew; the caller holds no lock.
func (e *estate) show() {
	e.mu.Lock()
	var all []*core.View
	for _, v := range e.views {
		all = append(all, v)
	}
	e.board = supervisor.NewBoard([]supervisor.RuntimeView{{Name: "docker", Up: true, Synced: e.synced}}, all...)
	e.mu.Unlock()
	e.h.Changed()
}

// is makes a container of backend web, whose application has that letter, what is
// wanted: "up", "down", "draining", "stopping" (by healthd, after the drain), "hangs and
// draining" or "gone".
func (e *estate) is(name, letter string, what string) {
	e.in("web", name, "127.0.0.1", e.b.port(letter), what)
}

func (e *estate) in(backend, name, address string, port int, what string) {
	e.mu.Lock()
	e.views[name] = newView(backend, name, address, port, what)
	if what == "gone" {
		delete(e.views, name)
	}
	e.mu.Unlock()
	e.show()
}

func newView(backend, name, address string, port int, what string) *core.View {
	v := &core.View{
		Container: &runtime.Container{ID: "id-" + name, Name: name, Address: address, State: runtime.Running, Runtime: "docker"},
		Spec: &core.Spec{Publish: core.Publish{
			Service: "web", Port: port, HAProxy: core.HAProxy{Backend: backend},
		}},
		Service: "web",
		State:   core.State{Kept: core.Kept{Engine: core.Engine{State: runtime.Running}, Run: core.Run{ID: runtime.Run{ID: "id-" + name, Started: 1}}, Conditions: core.Conditions{Started: core.Condition{Status: true}}}},
	}
	readiness := &v.State.Health.Probes[core.Readiness].Result
	*readiness = prober.Success
	switch what {
	case "up":
		v.State.Conditions.Ready.Status, v.State.Conditions.ContainerReady.Status = true, true
	case "down":
		*readiness = prober.Failure
	case "hangs and draining":
		*readiness = prober.Failure
		v.State.Action.Stopping = core.ByLiveness
	case "draining":
		v.State.Ending.First = time.Unix(1, 0)
	case "stopping":
		v.State.Action.Stopping = core.ByLiveness
	}
	return v
}
