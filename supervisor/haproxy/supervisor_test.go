package haproxy

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"healthd/e2e/patience"
	"healthd/prober"
	"healthd/runtime"
	"healthd/supervisor"
	"healthd/supervisor/core"
)

// fakeSupervisor is a Supervisor for one HAProxy.
type fakeSupervisor struct {
	t testing.TB
	b *balancer
	h *HAProxy

	pushed    prometheus.Observer // nil: nobody wants to know
	agent     string              // empty: where nobody answers
	lingering time.Duration       // zero: all processes count as old

	mu           sync.Mutex
	board        *supervisor.Board
	synced       bool
	views        map[string]*core.View
	events       []core.Event
	drained      []runtime.Run
	unserved     []runtime.Run
	remote       map[string]supervisor.Member // by ID
	fleet, known bool                         // there is one; its members are known
}

// startPushing pushes a fakeSupervisor's board to HAProxy until the test ends.
func (b *balancer) startPushing() *fakeSupervisor {
	b.t.Helper()
	e := b.newSupervisor()
	e.startDaemon(b.socket())
	return e
}

func (b *balancer) newSupervisor() *fakeSupervisor {
	return &fakeSupervisor{t: b.t, b: b, synced: true, views: map[string]*core.View{}, remote: map[string]supervisor.Member{}}
}

// forget removes these containers from the next daemon's board.
func (e *fakeSupervisor) forget(names ...string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, name := range names {
		delete(e.views, name)
	}
}

// startDaemon is a new daemon, which knows of no other. What ends it is returned.
func (e *fakeSupervisor) startDaemon(sockets ...string) (end func()) {
	e.t.Helper()
	h, err := New(Config{Sockets: sockets, Agent: cmp.Or(e.agent, "127.0.0.1:9"), Journal: e})
	if err != nil {
		e.t.Fatal(err)
	}
	h.reloadGrace = cmp.Or(e.lingering, -1)
	e.h = h
	if e.pushed != nil {
		h.metrics.pushed = e.pushed
	}
	e.updateBoard()
	return e.run()
}

// run is what a daemon does with it.
func (e *fakeSupervisor) run() (end func()) {
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

func (e *fakeSupervisor) Board() *supervisor.Board {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.board
}

func (e *fakeSupervisor) Drained(_ context.Context, run runtime.Run) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.drained = append(e.drained, run)
	return nil
}

func (e *fakeSupervisor) NotServed(_ context.Context, run runtime.Run) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.unserved = append(e.unserved, run)
	return nil
}

func (e *fakeSupervisor) Record(event core.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.events = append(e.events, event)
}

// recorded returns the messages of the events of that reason.
func (e *fakeSupervisor) recorded(reason string) []string {
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

// waitForEvent waits until an event of that reason says that.
func (e *fakeSupervisor) waitForEvent(reason, text string) {
	e.t.Helper()
	patience.Until(e.t, "an event", func() error {
		all := e.recorded(reason)
		if slices.ContainsFunc(all, func(m string) bool { return strings.Contains(m, text) }) {
			return nil
		}
		return fmt.Errorf("events %s: %q, want %q", reason, all, text)
	})
}

// updateBoard makes the board anew, on which the containers with these IDs have changed, or without any anything may have; the
// caller holds no lock.
func (e *fakeSupervisor) updateBoard(ids ...string) {
	e.mu.Lock()
	var all []*core.View
	for _, v := range e.views {
		all = append(all, v)
	}
	e.board = supervisor.NewBoard([]supervisor.RuntimeView{{Name: "docker", Up: true, Synced: e.synced}}, all...)
	if e.fleet {
		e.board.ExpectRemote()
	}
	e.board.ShowRemote(slices.Collect(maps.Values(e.remote)), nil)
	if e.known {
		e.board.RemoteKnown()
	}
	e.mu.Unlock()
	if len(ids) == 0 {
		e.h.Changed("")
	}
	for _, id := range ids {
		e.h.Changed(id)
	}
}

// set sets the state of a container of backend web, whose application has that letter: "up", "down", "draining", "stopping" (by healthd, after the drain), "hangs and
// draining" or "gone".
func (e *fakeSupervisor) set(name, letter string, what string) {
	e.setIn("web", name, "127.0.0.1", e.b.port(letter), what)
}

func (e *fakeSupervisor) setIn(backend, name, address string, port int, what string) {
	e.mu.Lock()
	e.views[name] = newView(backend, name, address, port, what)
	if what == "gone" {
		delete(e.views, name)
	}
	e.mu.Unlock()
	e.updateBoard("id-" + name)
}

func newView(backend, name, address string, port int, what string) *core.View {
	v := &core.View{
		Container: &runtime.Container{ID: "id-" + name, Name: name, Address: address, State: runtime.Running, Runtime: "docker"},
		Spec: &core.Spec{Publish: core.Publish{
			Service: "web", Port: port, HAProxy: core.HAProxy{Backend: backend},
		}},
		Service: "web",
		State:   core.State{Kept: &core.Kept{Engine: core.Engine{State: runtime.Running}, Run: core.Run{ID: runtime.Run{ID: "id-" + name, Started: 1}}, Conditions: core.Conditions{Started: core.Condition{Status: true}}}},
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
