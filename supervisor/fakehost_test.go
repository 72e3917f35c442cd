package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"healthd/runtime"
	"healthd/supervisor/core"
)

// fakeHost is an engine that outlives daemons, and what they have stored.
type fakeHost struct {
	t       *testing.T
	engine  *fakeEngine
	probes  *fakeProber
	journal *fakeJournal
	resolve Resolver
	guard   core.Guard

	mu         sync.Mutex
	daemon     *Supervisor // nil: none runs
	stop       context.CancelFunc
	ended      sync.WaitGroup
	generation int // of the daemon
	killed     chan struct{}

	stored    map[string]core.Memory
	seenUntil time.Time
	events    []runtime.Update // oldest first
	clock     time.Time

	writes, calls  int
	killAfterWrite int    // kill the daemon after so many writes; 0: never
	killBeforeCall int    // kill it before it makes that call
	killAfterCall  int    // kill it after that call, before the reply
	needlessStarts int    // starts of a container that ran already
	notInspectable string // container whose inspection fails in a list
}

func newFakeHost(t *testing.T, spec *core.Spec) *fakeHost {
	e := &fakeHost{
		t: t, engine: newFakeEngine(), probes: newFakeProber(), journal: &fakeJournal{}, stored: make(map[string]core.Memory), killed: make(chan struct{}),
		resolve: func(string, map[string]string) (*core.Spec, error) { return spec, nil },
	}
	e.engine.deliver = e.report
	return e
}

// report keeps an event in the history and delivers it to the daemon, if one runs.
func (e *fakeHost) report(u runtime.Update) {
	e.mu.Lock()
	e.clock = later(later(time.Now(), e.clock.Add(1)), e.engine.newestStart())
	u.SeenUntil = e.clock
	if u.Kind == runtime.Killed || u.Kind == runtime.Died || u.Kind == runtime.Stopped {
		u.Time = e.clock
	}
	e.events = append(e.events, u)
	daemon := e.daemon
	e.mu.Unlock()
	if daemon != nil {
		_ = daemon.Deliver(context.Background(), u)
	}
}

// refuseConnections has the engine refuse or accept new connections.
func (e *fakeEngine) refuseConnections(ending bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.refuses = ending
}

func (e *fakeEngine) newestStart() time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.started
}

// kill is kill -9 of the daemon: nothing that it still does has any effect.
func (e *fakeHost) kill() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.killLocked()
}

func (e *fakeHost) killLocked() {
	if e.daemon == nil {
		return
	}
	e.daemon = nil
	e.generation++
	e.stop()
	close(e.killed)
	e.killed = make(chan struct{})
}

// current returns the daemon, nil when none runs, and a channel that is closed when it
// is killed.
func (e *fakeHost) current() (*Supervisor, <-chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.daemon, e.killed
}

// shutDown stops the daemon with SIGTERM.
func (e *fakeHost) shutDown() {
	e.stop()
	e.ended.Wait()
	e.kill()
}

// startDaemon starts a daemon. replay says how many of the missed events the engine
// sends; repeated, how many events that the last daemon has seen it sends again.
func (e *fakeHost) startDaemon(replay runtime.Replay, again int, rebooted bool) {
	e.t.Helper()
	e.mu.Lock()
	var past []core.Memory
	for _, m := range e.stored { // as the journal does
		text, err := json.Marshal(m)
		if err != nil {
			e.t.Fatal(err)
		}
		var copied core.Memory
		if err := json.Unmarshal(text, &copied); err != nil {
			e.t.Fatal(err)
		}
		past = append(past, copied)
	}
	from, _ := slices.BinarySearchFunc(e.events, e.seenUntil.Add(1), func(u runtime.Update, at time.Time) int { return u.SeenUntil.Compare(at) })
	var news []runtime.Update
	if replay == runtime.ReplayComplete {
		news = slices.Clone(e.events[max(0, from-again):])
	}
	s := New(Config{
		Resolve: e.resolve, Runtimes: map[string]Restarter{"docker": hostEngine{e, e.generation}}, Prober: e.probes, Journal: e.journal,
		Guard: e.guard, Store: hostStore{e, e.generation}, Memories: past, Rebooted: rebooted,
	})
	ctx, cancel := context.WithCancel(context.Background())
	e.daemon, e.stop = s, cancel
	e.ended.Go(func() { _ = s.Run(ctx) })
	e.mu.Unlock()
	e.deliverList(s, replay, news)
	synctest.Wait()
}

// deliverList delivers to a daemon what a Watcher does after it has subscribed.
func (e *fakeHost) deliverList(s *Supervisor, replay runtime.Replay, news []runtime.Update) {
	tell := func(u runtime.Update) {
		u.Runtime = "docker"
		_ = s.Deliver(context.Background(), u)
	}
	tell(runtime.Update{Kind: runtime.Connected, Replay: replay})
	e.engine.mu.Lock()
	ids := slices.Sorted(maps.Keys(e.engine.containers))
	e.engine.mu.Unlock()
	var unseen []string
	for _, id := range ids {
		if id == e.notInspectable {
			unseen = append(unseen, id)
			continue
		}
		u := e.engine.observation(id)
		for _, n := range news {
			u.StateFromEvent = u.StateFromEvent || n.ID == id
			if n.ID == id && n.Kind != runtime.Observed && !n.Time.Before(u.Container.StartedAt) {
				u.Causes = append(u.Causes, n)
			}
		}
		tell(u)
	}
	tell(runtime.Update{Kind: runtime.Synced, Reason: runtime.RelistStart, NotInspected: unseen})
}

// view returns the daemon's view of a container after it has handled all messages.
func (e *fakeHost) view(id string) *core.View {
	e.t.Helper()
	synctest.Wait()
	daemon, _ := e.current()
	if err := daemon.Ping(context.Background()); err != nil {
		e.t.Fatal(err)
	}
	v, ok := daemon.Board().Find(id)
	if !ok {
		e.t.Fatalf("no container %s on the board", id)
	}
	return v
}

func (e *fakeHost) running(id string) bool {
	c, _ := e.engine.Inspect(context.Background(), id)
	return c.State == runtime.Running
}

// eventCount counts the events of that reason in the container's history.
func (e *fakeHost) eventCount(id, reason string) int {
	n := 0
	for _, r := range e.journal.reasons("n-" + id) {
		if r == reason {
			n++
		}
	}
	return n
}

// signal is a signal to the container that healthd did not send.
func (e *fakeHost) signal(id string, number int) {
	e.engine.deliver(runtime.Update{Kind: runtime.Killed, Runtime: "docker", ID: id, Signal: number})
}

// operatorStop is docker stop.
func (e *fakeHost) operatorStop(id string) {
	e.signal(id, 15)
	e.engine.exit(id, 143)
	e.engine.deliver(runtime.Update{Kind: runtime.Stopped, Runtime: "docker", ID: id})
}

// killEngine ends the engine and its containers; no event tells of it.
func (e *fakeHost) killEngine() {
	if daemon, _ := e.current(); daemon != nil {
		_ = daemon.Deliver(context.Background(), runtime.Update{Kind: runtime.Lost, Runtime: "docker", Err: errors.New("EOF")})
	}
	e.engine.mu.Lock()
	all := slices.Sorted(maps.Keys(e.engine.containers))
	e.engine.mu.Unlock()
	for _, id := range all {
		if e.running(id) {
			e.engine.endRun(id, 137)
		}
	}
}

// stopEngine is a shutdown of the engine: it stops those containers first.
func (e *fakeHost) stopEngine(ids ...string) {
	e.engine.refuseConnections(true)
	for _, id := range ids {
		e.signal(id, 15)
	}
	for _, id := range ids {
		e.engine.exit(id, 143)
	}
	time.Sleep(time.Second)
	e.killEngine()
}

// startEngine starts the engine again; the daemon, which ran on, connects to it.
func (e *fakeHost) startEngine() {
	e.engine.refuseConnections(false)
	daemon, _ := e.current()
	e.deliverList(daemon, runtime.ReplayRestart, nil)
	synctest.Wait()
}

// hostStore is the Store of one daemon.
type hostStore struct {
	host       *fakeHost
	generation int
}

func (s hostStore) Remember(m core.Memory) <-chan struct{} {
	s.host.mu.Lock()
	defer s.host.mu.Unlock()
	if s.generation != s.host.generation {
		return closedChannel
	}
	if m.Conditions.Ready.Status && !m.Engine.State.Alive() {
		s.host.t.Errorf("kept as ready, but not alive: %+v", m)
	}
	s.host.stored[m.ID] = m
	if s.host.writes++; s.host.writes == s.host.killAfterWrite {
		s.host.killLocked()
	}
	return closedChannel
}

func (s hostStore) Forget(id string) {
	s.host.mu.Lock()
	defer s.host.mu.Unlock()
	if s.generation == s.host.generation {
		delete(s.host.stored, id)
	}
}

func (s hostStore) SetSeen(_ string, at time.Time) {
	s.host.mu.Lock()
	defer s.host.mu.Unlock()
	if s.generation == s.host.generation {
		s.host.seenUntil = at
	}
}

// hostEngine is one daemon's connection to the engine.
type hostEngine struct {
	host       *fakeHost
	generation int
}

var errConnectionClosed = errors.New("connection closed")

func (h hostEngine) call(do func() error) error {
	h.host.mu.Lock()
	if h.generation == h.host.generation {
		if h.host.calls++; h.host.calls == h.host.killBeforeCall {
			h.host.killLocked()
		}
	}
	last := h.host.calls == h.host.killAfterCall
	dead := h.generation != h.host.generation
	h.host.mu.Unlock()
	if dead {
		return errConnectionClosed
	}
	err := do()
	if last {
		h.host.kill()
		return errConnectionClosed
	}
	return err
}

func (h hostEngine) Stop(ctx context.Context, id string, grace time.Duration) error {
	return h.call(func() error {
		if daemon, _ := h.host.current(); daemon != nil {
			if v, ok := daemon.Board().Find(id); ok && v.State.Conditions.Ready.Status {
				h.host.t.Error("ready on the board while it is being stopped")
			}
		}
		return h.host.engine.Stop(ctx, id, grace)
	})
}

func (h hostEngine) Start(ctx context.Context, id string) error {
	return h.call(func() error {
		if h.host.running(id) {
			h.host.needlessStarts++
			return nil
		}
		return h.host.engine.Start(ctx, id)
	})
}

func (h hostEngine) Accept(ctx context.Context) error { return h.host.engine.Accept(ctx) }

func (h hostEngine) Inspect(ctx context.Context, id string) (*runtime.Container, error) {
	h.host.mu.Lock()
	dead := h.generation != h.host.generation
	h.host.mu.Unlock()
	if dead {
		return nil, errConnectionClosed
	}
	return h.host.engine.Inspect(ctx, id)
}
