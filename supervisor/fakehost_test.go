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
	t        *testing.T
	engine   *fakeEngine
	probes   *fakeProber
	journal  *fakeJournal
	resolve  Resolver
	guard    core.Guard
	shutdown time.Duration // Config.Shutdown
	places   func() Places // of the next daemon, whose Journal is log then; nil: there is no fleet
	log      Journal

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
	killAfterWrite int                                // kill the daemon after so many writes; 0: never
	killBeforeCall int                                // kill it before it makes that call
	killAfterCall  int                                // kill it after that call, before the reply
	needlessStarts int                                // starts of a container that ran already
	notInspectable string                             // container whose inspection fails in a list
	broken         func(deliver func(runtime.Update)) // a connection before the one that lasts; nil: none
	engineBegan    time.Time                          // runtime.Update.EngineBegan
}

// playHost runs a test in virtual time, on a host whose last daemon is shut down at the end.
func playHost(t *testing.T, spec *core.Spec, do func(h *fakeHost)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := newFakeHost(t, spec)
		defer h.shutDown()
		do(h)
	})
}

func newFakeHost(t *testing.T, spec *core.Spec) *fakeHost {
	h := &fakeHost{
		t: t, engine: newFakeEngine(), probes: newFakeProber(), journal: &fakeJournal{}, stored: make(map[string]core.Memory), killed: make(chan struct{}),
		resolve: func(runtime.Traits) (*core.Spec, error) { return spec, nil },
	}
	h.engine.deliver = h.report
	return h
}

// report keeps an event in the history and delivers it to the daemon, if one runs.
func (h *fakeHost) report(u runtime.Update) {
	h.mu.Lock()
	h.clock = later(later(time.Now(), h.clock.Add(1)), h.engine.newestStart())
	u = h.engine.asWatcher(u)
	u.SeenUntil = h.clock
	if u.Kind == runtime.Killed || u.Kind == runtime.Died || u.Kind == runtime.Stopped {
		u.Time = h.clock
	}
	h.events = append(h.events, u)
	daemon := h.daemon
	h.mu.Unlock()
	if daemon != nil {
		_ = daemon.Deliver(context.Background(), u)
	}
}

// kill is kill -9 of the daemon: nothing that it still does has any effect.
func (h *fakeHost) kill() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.killLocked()
}

func (h *fakeHost) killLocked() {
	if h.daemon == nil {
		return
	}
	h.daemon = nil
	h.generation++
	h.stop()
	close(h.killed)
	h.killed = make(chan struct{})
}

// current returns the daemon, nil when none runs, and a channel that is closed when it
// is killed.
func (h *fakeHost) current() (*Supervisor, <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.daemon, h.killed
}

// shutDown stops the daemon with SIGTERM.
func (h *fakeHost) shutDown() {
	h.stop()
	h.ended.Wait()
	h.kill()
}

// startDaemon starts a daemon. replay says how many of the missed events the engine
// sends; repeated, how many events that the last daemon has seen it sends again.
func (h *fakeHost) startDaemon(replay runtime.Replay, repeated int, rebooted ...string) {
	h.t.Helper()
	h.mu.Lock()
	past := readBack(h.t, h.stored)
	from, _ := slices.BinarySearchFunc(h.events, h.seenUntil.Add(1), func(u runtime.Update, at time.Time) int { return u.SeenUntil.Compare(at) })
	var missed []runtime.Update
	if replay == runtime.ReplayComplete {
		missed = slices.Clone(h.events[max(0, from-repeated):])
	}
	c := Config{
		Resolve: h.resolve, Runtimes: map[string]Restarter{"docker": hostEngine{h, h.generation}}, Prober: h.probes, Journal: h.journal,
		Guard: h.guard, Store: hostStore{h, h.generation}, Memories: past, Rebooted: rebooted, Shutdown: h.shutdown,
	}
	if h.places != nil {
		c.Journal, c.Places = h.log, h.places()
	}
	s := New(c)
	ctx, cancel := context.WithCancel(context.Background())
	h.daemon, h.stop = s, cancel
	h.ended.Go(func() { _ = s.Run(ctx) })
	h.mu.Unlock()
	h.deliverList(s, replay, missed)
	synctest.Wait()
}

// readBack returns what the next daemon reads of what the last one has stored, as the journal does.
func readBack(t *testing.T, stored map[string]core.Memory) (past []*core.Memory) {
	now := stamp()
	for _, id := range slices.Sorted(maps.Keys(stored)) {
		var m core.Memory
		text, err := json.Marshal(stored[id])
		if err = errors.Join(err, json.Unmarshal(text, &m)); err != nil {
			t.Error(err)
		}
		m = m.FromFile(now)
		past = append(past, &m)
	}
	return past
}

// deliverList delivers to a daemon what a Watcher does after it has subscribed.
func (h *fakeHost) deliverList(s *Supervisor, replay runtime.Replay, missed []runtime.Update) {
	deliver := func(u runtime.Update) {
		u.Runtime = "docker"
		_ = s.Deliver(context.Background(), u)
	}
	if h.broken != nil {
		h.broken(deliver)
	}
	deliver(runtime.Update{Kind: runtime.Connected, Replay: replay, EngineBegan: h.engineBegan})
	h.engine.mu.Lock()
	ids := slices.Sorted(maps.Keys(h.engine.containers))
	h.engine.mu.Unlock()
	var notInspected []string
	for _, id := range ids {
		if id == h.notInspectable {
			notInspected = append(notInspected, id)
			continue
		}
		u := h.engine.observation(id)
		for _, n := range missed {
			u.StateFromEvent = u.StateFromEvent || n.ID == id
			if n.ID == id && n.Kind != runtime.Observed && !n.Time.Before(u.Container.StartedAt) {
				n.Of.Run, n.Of.Newer = u.Container.Run(), false
				u.Causes = append(u.Causes, n)
			}
		}
		deliver(u)
	}
	deliver(runtime.Update{Kind: runtime.Synced, Reason: runtime.RelistStart, NotInspected: notInspected})
}

// view returns the daemon's view of a container after it has handled all messages.
func (h *fakeHost) view(id string) *core.View {
	h.t.Helper()
	synctest.Wait()
	daemon, _ := h.current()
	if err := daemon.Ping(context.Background()); err != nil {
		h.t.Fatal(err)
	}
	v, err := daemon.Board().Find(id)
	if err != nil {
		h.t.Fatalf("container %s on the board: %v", id, err)
	}
	return v
}

func (h *fakeHost) running(id string) bool {
	c, _ := h.engine.Inspect(context.Background(), id)
	return c.State == runtime.Running
}

// eventCount counts the events of that reason in the container's history.
func (h *fakeHost) eventCount(id, reason string) int {
	n := 0
	for _, r := range h.journal.reasons("n-" + id) {
		if r == reason {
			n++
		}
	}
	return n
}

// signal is a signal to the container that healthd did not send.
func (h *fakeHost) signal(id string, number int) {
	h.engine.deliver(runtime.Update{Kind: runtime.Killed, Runtime: "docker", ID: id, Signal: number})
}

// operatorStop is docker stop.
func (h *fakeHost) operatorStop(id string) {
	h.signal(id, 15)
	h.engine.exit(id, 143)
	h.engine.deliver(runtime.Update{Kind: runtime.Stopped, Runtime: "docker", ID: id})
}

// killEngine ends the engine and its containers; no event tells of it.
func (h *fakeHost) killEngine() {
	if daemon, _ := h.current(); daemon != nil {
		_ = daemon.Deliver(context.Background(), runtime.Update{Kind: runtime.Lost, Runtime: "docker", Err: errors.New("EOF")})
	}
	h.engine.mu.Lock()
	all := slices.Sorted(maps.Keys(h.engine.containers))
	h.engine.mu.Unlock()
	for _, id := range all {
		if h.running(id) {
			h.engine.endRun(id, 137)
		}
	}
}

// stopEngine is a shutdown of the engine: it stops those containers first.
func (h *fakeHost) stopEngine(ids ...string) {
	h.engine.refuseConnections(true)
	for _, id := range ids {
		h.signal(id, 15)
	}
	for _, id := range ids {
		h.engine.exit(id, 143)
	}
	time.Sleep(time.Second)
	h.killEngine()
}

// startEngine starts the engine again; the daemon, which ran on, connects to it.
func (h *fakeHost) startEngine() {
	h.engine.refuseConnections(false)
	daemon, _ := h.current()
	h.deliverList(daemon, runtime.ReplayRestart, nil)
	synctest.Wait()
}

// stamp is the present moment of a host whose boot began with the test.
func stamp() core.Stamp {
	return core.Stamp{Wall: time.Now(), Monotonic: time.Since(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)), Boot: "boot"}
}

// hostStore is the Store of one daemon.
type hostStore struct {
	host       *fakeHost
	generation int
}

func (s hostStore) Remember(m *core.Memory) <-chan struct{} {
	s.host.mu.Lock()
	defer s.host.mu.Unlock()
	if s.generation != s.host.generation {
		return closedChannel
	}
	if m.Conditions.Ready.Status && !m.Engine.State.Alive() {
		s.host.t.Errorf("kept as ready, but not alive: %+v", m)
	}
	s.host.stored[m.ID] = m.ForFile(stamp())
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
			if v, err := daemon.Board().Find(id); err == nil && v.State.Conditions.Ready.Status {
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

func (h hostEngine) KillEvents(ctx context.Context, run runtime.Run) ([]runtime.Event, error) {
	return h.host.engine.KillEvents(ctx, run)
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
