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

// estate is an engine that outlives daemons, with what they have kept.
type estate struct {
	t       *testing.T
	engine  *memoryEngine
	probes  *scripted
	diary   *diary
	resolve Resolver
	guard   core.Guard

	mu     sync.Mutex
	daemon *Supervisor // nil while none lives
	stop   context.CancelFunc
	ended  sync.WaitGroup
	gen    int // of the daemon
	killed chan struct{}

	kept  map[string]core.Memory
	seen  time.Time
	log   []runtime.Update // what events told, oldest first
	stamp time.Time

	writes, calls int
	afterWrite    int    // the daemon is killed after so many writes; 0: not
	beforeCall    int    // or before that call is made
	afterCall     int    // or after it, and before it is answered
	starts        int    // calls that started what ran already
	hung          string // container that cannot be inspected by those who list
}

func newEstate(t *testing.T, spec *core.Spec) *estate {
	e := &estate{
		t: t, engine: newMemoryEngine(), probes: newScripted(), diary: &diary{}, kept: make(map[string]core.Memory), killed: make(chan struct{}),
		resolve: func(string, map[string]string) (*core.Spec, error) { return spec, nil },
	}
	e.engine.deliver = e.happened
	return e
}

// happened notes what events told and tells it the daemon, if one lives.
func (e *estate) happened(u runtime.Update) {
	e.mu.Lock()
	e.stamp = later(later(time.Now(), e.stamp.Add(1)), e.engine.newestStart())
	u.SeenUntil = e.stamp
	if u.Kind == runtime.Killed || u.Kind == runtime.Died || u.Kind == runtime.Stopped {
		u.Time = e.stamp
	}
	e.log = append(e.log, u)
	daemon := e.daemon
	e.mu.Unlock()
	if daemon != nil {
		_ = daemon.Deliver(context.Background(), u)
	}
}

// ends lets the engine take no more connections, or take them again.
func (e *memoryEngine) ends(ending bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ending = ending
}

func (e *memoryEngine) newestStart() time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.started
}

// kill is kill -9 of the daemon: nothing that it does from now on has any effect.
func (e *estate) kill() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.killNow()
}

func (e *estate) killNow() {
	if e.daemon == nil {
		return
	}
	e.daemon = nil
	e.gen++
	e.stop()
	close(e.killed)
	e.killed = make(chan struct{})
}

// living returns the daemon, nil while none lives, and what is closed when it is killed.
func (e *estate) living() (*Supervisor, <-chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.daemon, e.killed
}

// end ends the daemon in good order.
func (e *estate) end() {
	e.stop()
	e.ended.Wait()
	e.kill()
}

// begin starts a daemon whose engine can tell that much of the time before. Of the
// newest events that were heard by the one before, it hears so many again.
func (e *estate) begin(replay runtime.Replay, again int, rebooted bool) {
	e.t.Helper()
	e.mu.Lock()
	var past []core.Memory
	for _, m := range e.kept { // as the journal keeps them
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
	from, _ := slices.BinarySearchFunc(e.log, e.seen.Add(1), func(u runtime.Update, at time.Time) int { return u.SeenUntil.Compare(at) })
	var news []runtime.Update
	if replay == runtime.ReplayComplete {
		news = slices.Clone(e.log[max(0, from-again):])
	}
	s := New(Config{
		Resolve: e.resolve, Runtimes: map[string]Restarter{"docker": hands{e, e.gen}}, Prober: e.probes, Journal: e.diary,
		Guard: e.guard, Store: keeper{e, e.gen}, Memories: past, Rebooted: rebooted,
	})
	ctx, cancel := context.WithCancel(context.Background())
	e.daemon, e.stop = s, cancel
	e.ended.Go(func() { _ = s.Run(ctx) })
	e.mu.Unlock()
	e.list(s, replay, news)
	synctest.Wait()
}

// list tells a daemon what Watch does after it has subscribed.
func (e *estate) list(s *Supervisor, replay runtime.Replay, news []runtime.Update) {
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
		if id == e.hung {
			unseen = append(unseen, id)
			continue
		}
		u := e.engine.seen(id)
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

// view is what the daemon shows of a container after all that was sent to it.
func (e *estate) view(id string) *core.View {
	e.t.Helper()
	synctest.Wait()
	daemon, _ := e.living()
	if err := daemon.Ping(context.Background()); err != nil {
		e.t.Fatal(err)
	}
	v, ok := daemon.Board().Find(id)
	if !ok {
		e.t.Fatalf("no container %s on the board", id)
	}
	return v
}

func (e *estate) running(id string) bool {
	c, _ := e.engine.Inspect(context.Background(), id)
	return c.State == runtime.Running
}

// told says how often the diary has an event of that reason for the container.
func (e *estate) told(id, reason string) int {
	n := 0
	for _, r := range e.diary.reasons("n-" + id) {
		if r == reason {
			n++
		}
	}
	return n
}

// signal is a signal to the container that healthd did not send.
func (e *estate) signal(id string, number int) {
	e.engine.deliver(runtime.Update{Kind: runtime.Killed, Runtime: "docker", ID: id, Signal: number})
}

// operatorStops is docker stop.
func (e *estate) operatorStops(id string) {
	e.signal(id, 15)
	e.engine.exit(id, 143)
	e.engine.deliver(runtime.Update{Kind: runtime.Stopped, Runtime: "docker", ID: id})
}

// engineDies lets the engine end with all that it runs; nobody hears of it.
func (e *estate) engineDies() {
	if daemon, _ := e.living(); daemon != nil {
		_ = daemon.Deliver(context.Background(), runtime.Update{Kind: runtime.Lost, Runtime: "docker", Err: errors.New("EOF")})
	}
	e.engine.mu.Lock()
	all := slices.Sorted(maps.Keys(e.engine.containers))
	e.engine.mu.Unlock()
	for _, id := range all {
		if e.running(id) {
			e.engine.end(id, 137)
		}
	}
}

// engineStops lets the engine stop what it runs, and end then.
func (e *estate) engineStops(ids ...string) {
	e.engine.ends(true)
	for _, id := range ids {
		e.signal(id, 15)
	}
	for _, id := range ids {
		e.engine.exit(id, 143)
	}
	time.Sleep(time.Second)
	e.engineDies()
}

// engineBegins lets the engine be back and the daemon, which lived on, hear of it.
func (e *estate) engineBegins() {
	e.engine.ends(false)
	daemon, _ := e.living()
	e.list(daemon, runtime.ReplayRestart, nil)
	synctest.Wait()
}

// keeper is the store of one daemon.
type keeper struct {
	e   *estate
	gen int
}

func (k keeper) Remember(m core.Memory) <-chan struct{} {
	k.e.mu.Lock()
	defer k.e.mu.Unlock()
	if k.gen != k.e.gen {
		return closedChannel
	}
	if m.Conditions.Ready.Status && !m.Engine.State.Alive() {
		k.e.t.Errorf("kept as ready, but not alive: %+v", m)
	}
	k.e.kept[m.ID] = m
	if k.e.writes++; k.e.writes == k.e.afterWrite {
		k.e.killNow()
	}
	return closedChannel
}

func (k keeper) Forget(id string) {
	k.e.mu.Lock()
	defer k.e.mu.Unlock()
	if k.gen == k.e.gen {
		delete(k.e.kept, id)
	}
}

func (k keeper) SetSeen(_ string, at time.Time) {
	k.e.mu.Lock()
	defer k.e.mu.Unlock()
	if k.gen == k.e.gen {
		k.e.seen = at
	}
}

// hands are how one daemon reaches the engine.
type hands struct {
	e   *estate
	gen int
}

var errDead = errors.New("nobody is there to ask")

func (h hands) call(do func() error) error {
	h.e.mu.Lock()
	if h.gen == h.e.gen {
		if h.e.calls++; h.e.calls == h.e.beforeCall {
			h.e.killNow()
		}
	}
	last := h.e.calls == h.e.afterCall
	dead := h.gen != h.e.gen
	h.e.mu.Unlock()
	if dead {
		return errDead
	}
	err := do()
	if last {
		h.e.kill()
		return errDead
	}
	return err
}

func (h hands) Stop(ctx context.Context, id string, grace time.Duration) error {
	return h.call(func() error {
		if daemon, _ := h.e.living(); daemon != nil {
			if v, ok := daemon.Board().Find(id); ok && v.State.Conditions.Ready.Status {
				h.e.t.Error("ready on the board while it is being stopped")
			}
		}
		return h.e.engine.Stop(ctx, id, grace)
	})
}

func (h hands) Start(ctx context.Context, id string) error {
	return h.call(func() error {
		if h.e.running(id) {
			h.e.starts++
			return nil
		}
		return h.e.engine.Start(ctx, id)
	})
}

func (h hands) Accept(ctx context.Context) error { return h.e.engine.Accept(ctx) }

func (h hands) Inspect(ctx context.Context, id string) (*runtime.Container, error) {
	h.e.mu.Lock()
	dead := h.gen != h.e.gen
	h.e.mu.Unlock()
	if dead {
		return nil, errDead
	}
	return h.e.engine.Inspect(ctx, id)
}
