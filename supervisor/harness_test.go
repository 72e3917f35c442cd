package supervisor

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"healthd/prober"
	"healthd/runtime"
	"healthd/supervisor/core"
)

// harness is a Supervisor with fakes of all that it talks to.
type harness struct {
	*Supervisor
	t        testing.TB
	engine   *fakeEngine
	probes   *fakeProber
	journal  *fakeJournal
	specs    map[string]*core.Spec // by container name; "": of all others
	stop     context.CancelFunc
	finished chan error
}

// play runs a test in virtual time, with a supervisor that has had its first list.
func play(t *testing.T, spec *core.Spec, do func(h *harness)) {
	t.Helper()
	playWith(t, spec, nil, func(h *harness) {
		h.sendSynced()
		do(h)
	})
}

// playWith is play with a changed configuration, before the first list.
func playWith(t *testing.T, spec *core.Spec, change func(*Config), do func(h *harness)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := newHarnessWith(t, spec, change)
		defer h.close()
		do(h)
	})
}

// newHarness runs a supervisor. Call close at the end.
func newHarness(t testing.TB, spec *core.Spec) *harness {
	t.Helper()
	return newHarnessWith(t, spec, nil)
}

// newHarnessWith is newHarness with a changed configuration.
func newHarnessWith(t testing.TB, spec *core.Spec, change func(*Config)) *harness {
	t.Helper()
	h := &harness{
		t:      t,
		engine: newFakeEngine(), probes: newFakeProber(), journal: &fakeJournal{},
		specs: map[string]*core.Spec{"": spec}, finished: make(chan error, 1),
	}
	c := Config{
		Resolve: func(c runtime.Traits) (*core.Spec, error) {
			if wrong := c.Labels["wrong"]; wrong != "" {
				return nil, errors.New(wrong)
			}
			if s, ok := h.specs[c.Name]; ok {
				return s, nil
			}
			return h.specs[""], nil
		},
		Runtimes: map[string]Restarter{"docker": h.engine},
		Prober:   h.probes,
		Journal:  h.journal,
		Shutdown: 10 * time.Minute,
	}
	if change != nil {
		change(&c)
	}
	h.Supervisor = New(c)
	ctx, cancel := context.WithCancel(context.Background())
	h.stop = cancel
	h.engine.deliver = func(u runtime.Update) { _ = h.Deliver(context.Background(), h.engine.asWatcher(u)) }
	go func() {
		defer close(h.finished)
		h.finished <- h.Run(ctx)
	}()
	return h
}

// sendSynced reports that the first list is complete.
func (h *harness) sendSynced() {
	h.engine.deliver(runtime.Update{Kind: runtime.Synced, Runtime: "docker", Reason: runtime.RelistStart})
}

// pass lets time pass in a bubble, and waits until all that follows is done.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// must ends the test when a request was refused.
func (h *harness) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

// close stops the supervisor and waits for it, unless the test has done that.
func (h *harness) close() {
	h.t.Helper()
	h.stop()
	if err, running := <-h.finished; running && err != nil {
		h.t.Errorf("Run: %v", err)
	}
}

// view returns the newest view of a container after the loop has handled all messages.
func (h *harness) view(name string) *core.View {
	h.t.Helper()
	h.must(h.Ping(context.Background()))
	v, err := h.Board().Find(name)
	if err != nil {
		h.t.Fatalf("container %s on the board: %v", name, err)
	}
	return v
}

func tcpProbe(port int, period time.Duration, failures int) *core.ProbeSpec {
	return &core.ProbeSpec{
		Handler: prober.Handler{TCPSocket: &prober.TCPSocket{Port: port}}, Period: period, Timeout: time.Second,
		SuccessThreshold: 1, FailureThreshold: failures,
	}
}

// webSpec has liveness on port 1 and readiness on port 2.
func webSpec() *core.Spec {
	return &core.Spec{
		Name: "web", RestartPolicy: core.Always,
		Probes:  [core.NumProbes]*core.ProbeSpec{core.Liveness: tcpProbe(1, 10*time.Second, 3), core.Readiness: tcpProbe(2, 5*time.Second, 1)},
		Backoff: core.Backoff{Initial: time.Second, Max: time.Minute, ResetAfter: core.DefaultBackoffReset},
		Publish: core.Publish{Service: "web", Drain: 5 * time.Second},
	}
}

var refused = prober.Result{Outcome: prober.Failure, Cause: prober.Refused, Output: "connection refused"}

// removedIdentities returns how many identities without a container the loop remembers.
func (h *harness) removedIdentities() int {
	h.t.Helper()
	n := make(chan int, 1)
	if err := h.send(h.t.Context(), inspectLoop(func(l *loop) { n <- len(l.removed) })); err != nil {
		h.t.Fatal(err)
	}
	return <-n
}

// create creates a container that has not run yet.
func (h *harness) create(c runtime.Container) {
	c.Runtime, c.State, c.StopTimeout, c.RestartPolicy = "docker", runtime.Created, -1, "no"
	h.engine.mu.Lock()
	h.engine.containers[c.ID], h.engine.names[c.ID] = &c, c.Name
	h.engine.mu.Unlock()
	h.engine.deliver(h.engine.observation(c.ID))
}

// crash starts a container and has it exit with 1 so many times, each time after healthd
// has started it again. At the end it waits for its back-off.
func (h *harness) crash(id string, times int) {
	h.engine.run(id)
	for range times {
		time.Sleep(2 * time.Minute) // longer than any back-off of webSpec
		synctest.Wait()
		h.engine.exit(id, 1)
	}
	synctest.Wait()
}

// remove removes a container and reports it.
func (h *harness) remove(id string) {
	h.engine.delete(id)
	h.reportRemoved(id)
}

func (h *harness) reportRemoved(id string) {
	h.engine.deliver(runtime.Update{Kind: runtime.Removed, Runtime: "docker", ID: id})
}

// event reports an event of a container, or of the runtime when id is empty. A Died has
// the exit code of that signal.
func (h *harness) event(kind runtime.UpdateKind, id string, signal int) {
	h.engine.deliver(runtime.Update{Kind: kind, Runtime: "docker", ID: id, Signal: signal, ExitCode: 128 + signal, Time: time.Now(), Err: errors.New("EOF")})
}

// exitOnTerm ends a container by SIGTERM and reports it, but not the signal.
func (h *harness) exitOnTerm(id string) {
	h.engine.endRun(id, 143)
	h.event(runtime.Died, id, 15)
	h.engine.deliver(h.engine.observation(id))
}

// drainInbox waits until the loop has handled all messages sent so far.
func (h *harness) drainInbox() {
	h.must(h.Ping(h.t.Context()))
}

// failLiveness has the liveness of these containers fail, and waits for the probe.
func (h *harness) failLiveness(ids ...string) {
	for _, id := range ids {
		h.probes.setResult(id+":2", refused)
	}
	pass(time.Second)
}

// waitReason returns what a container waits for; empty: nothing.
func (h *harness) waitReason(id string) string {
	h.t.Helper()
	if w := h.view(id).Waiting(); w != nil {
		return w.Reason + " " + w.Message
	}
	return ""
}

// reload makes these the specs, by container name; "": of all others.
func (h *harness) reload(specs map[string]*core.Spec) {
	h.t.Helper()
	err := h.Reload(h.t.Context(), func(c runtime.Traits) (*core.Spec, error) {
		if s, ok := specs[c.Name]; ok {
			return s, nil
		}
		return specs[""], nil
	}, core.Guard{})
	if err != nil {
		h.t.Fatal(err)
	}
}

// inspectLoop is a message that lets a test look at the loop's state.
type inspectLoop func(*loop)

func (p inspectLoop) apply(l *loop) { p(l) }
