package supervisor

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"healthd/prober"
	"healthd/runtime"
	"healthd/supervisor/core"
)

// memoryEngine is an engine in memory. Its containers do what the test makes them
// do; stops and starts are carried out and reported as a real engine does.
type memoryEngine struct {
	mu         sync.Mutex
	containers map[string]*runtime.Container
	names      map[string]string // by ID, where not "n-ID"
	started    time.Time         // newest start of any
	runs       int               // all starts
	policy     string            // restart policy of what is started; empty: "no"
	calls      []string          // "stop c1 30s", "start c1"
	deliver    func(runtime.Update)
	stopTakes  time.Duration
	called     chan string // every call, when not nil
	onStop     func()
	stopping   func(id string)
	ending     bool // it takes no connections
}

func newMemoryEngine() *memoryEngine {
	return &memoryEngine{containers: make(map[string]*runtime.Container), names: make(map[string]string), deliver: func(runtime.Update) {}}
}

// run starts a run of a container that somebody else asked for, and reports it.
func (e *memoryEngine) run(id string) {
	e.begin(id)
	e.deliver(e.seen(id))
}

func (e *memoryEngine) begin(id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	// No two runs start at the same moment, even where time stands still.
	e.started = later(time.Now(), e.started.Add(1))
	e.runs++
	c := runtime.Container{
		ID: id, Name: "n-" + id, Runtime: "docker", State: runtime.Running, StartedAt: e.started,
		StopTimeout: -1, RestartPolicy: "no", Address: "127.0.0.1",
	}
	if e.policy != "" {
		c.RestartPolicy = e.policy
	}
	if old := e.containers[id]; old != nil {
		c.Labels, c.AutoRemove, c.FinishedAt = old.Labels, old.AutoRemove, old.FinishedAt
		c.Image, c.ImageID, c.Resources = old.Image, old.ImageID, old.Resources
	}
	if name, ok := e.names[id]; ok {
		c.Name = name
	}
	e.containers[id] = &c
}

// seen is the update that an inspection of the container now gives.
func (e *memoryEngine) seen(id string) runtime.Update {
	c, _ := e.Inspect(context.Background(), id)
	return runtime.Update{Kind: runtime.Observed, Runtime: "docker", ID: id, Container: c}
}

// exit lets the container end by itself and reports it.
func (e *memoryEngine) exit(id string, code int) {
	e.end(id, code)
	e.deliver(runtime.Update{Kind: runtime.Died, Runtime: "docker", ID: id, ExitCode: code, Time: time.Now()})
	e.deliver(e.seen(id))
}

func (e *memoryEngine) end(id string, code int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	c := *e.containers[id]
	c.State, c.ExitCode, c.FinishedAt = runtime.Exited, code, time.Now()
	e.containers[id] = &c
}

// gone removes a container.
func (e *memoryEngine) gone(id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.containers, id)
}

func (e *memoryEngine) note(format string, args ...any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	call := fmt.Sprintf(format, args...)
	e.calls = append(e.calls, call)
	if e.called != nil {
		e.called <- call
	}
}

func (e *memoryEngine) madeCalls() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]string(nil), e.calls...)
}

func (e *memoryEngine) Stop(ctx context.Context, id string, grace time.Duration) error {
	e.note("stop %s %v", id, grace)
	if e.onStop != nil {
		e.onStop()
	}
	if e.stopping != nil {
		e.stopping(id)
	}
	if c, err := e.Inspect(ctx, id); err != nil || !c.State.Alive() {
		return err
	}
	e.deliver(runtime.Update{Kind: runtime.Killed, Runtime: "docker", ID: id, Signal: 15, Time: time.Now()})
	if e.stopTakes > 0 {
		time.Sleep(e.stopTakes) // virtual: only tests in a bubble set it
	}
	e.end(id, 0)
	e.deliver(e.seen(id))
	return nil
}

func (e *memoryEngine) Start(ctx context.Context, id string) error {
	e.note("start %s", id)
	if _, err := e.Inspect(ctx, id); err != nil {
		return err
	}
	e.run(id)
	return nil
}

func (e *memoryEngine) Inspect(ctx context.Context, id string) (*runtime.Container, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	c, ok := e.containers[id]
	if !ok {
		return nil, fmt.Errorf("cannot inspect %s: %w", id, runtime.ErrNotFound)
	}
	copied := *c
	return &copied, nil
}

func (e *memoryEngine) Accept(context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ending {
		return errors.New("connection refused")
	}
	return nil
}

// scripted answers probes by what the test says of their container.
type scripted struct {
	mu      sync.Mutex
	answers map[string]prober.Result // by container ID and port: "c1:80"
	asked   map[string]int
	where   map[string]string // address of the newest probe
	hang    map[string]bool
}

func newScripted() *scripted {
	return &scripted{answers: make(map[string]prober.Result), asked: make(map[string]int), where: make(map[string]string), hang: make(map[string]bool)}
}

func (s *scripted) say(key string, r prober.Result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers[key] = r
}

func (s *scripted) hangs(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hang[key] = true
}

func (s *scripted) times(key string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[key]
}

func (s *scripted) address(key string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.where[key]
}

func (s *scripted) Probe(h prober.Handler, t prober.Target) (prober.Probe, error) {
	if h.TCPSocket == nil {
		return nil, errors.New("no such handler")
	}
	key := fmt.Sprintf("%s:%d", t.ID, h.TCPSocket.Port)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.where[key] = t.Address
	return &scriptedProbe{s, key}, nil
}

// Hook runs hooks as the test says of "ID:post_start" and "ID:pre_stop"; there they
// are told apart by their command.
func (s *scripted) Hook(h prober.LifecycleHandler, t prober.Target) (prober.Hook, error) {
	if h.Exec == nil {
		return nil, errors.New("no such handler")
	}
	return &scriptedProbe{s, t.ID + ":" + h.Exec.Command[0]}, nil
}

// Run is a hook's.
func (p *scriptedProbe) Run(ctx context.Context) prober.HookResult {
	if r := p.Ask(ctx, 0); r.Outcome != prober.Success {
		return prober.HookResult{Err: errors.New(r.Output), NotAsked: r.Outcome == prober.Unknown}
	}
	return prober.HookResult{}
}

type scriptedProbe struct {
	s   *scripted
	key string
}

func (p *scriptedProbe) Ask(ctx context.Context, timeout time.Duration) prober.Result {
	p.s.mu.Lock()
	p.s.asked[p.key]++
	r, ok := p.s.answers[p.key]
	hang := p.s.hang[p.key]
	p.s.mu.Unlock()
	if hang {
		<-ctx.Done()
		return prober.Result{Cause: prober.Pending, Output: ctx.Err().Error()}
	}
	if !ok {
		return prober.Result{Outcome: prober.Success}
	}
	return r
}

// diary is a Journal that remembers.
type diary struct {
	mu     sync.Mutex
	events []core.Event
}

func (d *diary) Record(e core.Event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.events = append(d.events, e)
}

// reasons returns the reasons of a container's events in order.
func (d *diary) reasons(container string) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []string
	for _, e := range d.events {
		if e.Container == container {
			all = append(all, e.Reason)
		}
	}
	return all
}
