package supervisor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing/synctest"
	"time"

	"healthd/prober"
	"healthd/runtime"
	"healthd/supervisor/core"
)

// fakeEngine is an engine in memory. Tests decide what its containers do. It carries out
// stops and starts and reports them as a real engine does.
type fakeEngine struct {
	mu         sync.Mutex
	containers map[string]*runtime.Container
	names      map[string]string // by ID; without an entry the name is "n-ID"
	started    time.Time         // newest start of any container
	runs       int               // starts so far
	policy     string            // engine restart policy of new runs; empty: "no"
	callLog    []string          // "stop c1 30s", "start c1"
	deliver    func(runtime.Update)
	stopTakes  time.Duration
	startTakes time.Duration
	starting   int           // start calls under way
	mostStarts int           // that were under way at once
	stopUntold bool          // no event tells the signal of a stop
	survives   int           // stops that do not end the container
	called     chan string   // gets every call; nil: nobody waits for them
	inspected  int           // how often a container was inspected
	lookTakes  time.Duration // that of an inspection that fails; 0: none fails
	onStop     func()
	onStopOf   func(id string)
	refuses    bool                   // new connections
	lostKills  []runtime.Event        // signals that only KillEvents tells
	reported   map[string]runtime.Run // newest run that was reported
	lifeBegan  time.Time              // start of the engine's present life
}

func newFakeEngine() *fakeEngine {
	return &fakeEngine{containers: make(map[string]*runtime.Container), names: make(map[string]string), reported: make(map[string]runtime.Run), deliver: func(runtime.Update) {}}
}

// asWatcher returns u as a Watcher sends it: with the run that an event belongs to.
func (e *fakeEngine) asWatcher(u runtime.Update) runtime.Update {
	e.mu.Lock()
	defer e.mu.Unlock()
	c := e.containers[u.ID]
	switch u.Kind {
	case runtime.Observed:
		e.reported[u.ID] = u.Container.Run()
	case runtime.Killed, runtime.Died, runtime.Stopped:
		if c != nil && u.Of == (runtime.RunHint{}) {
			u.Of = runtime.RunHint{Run: e.reported[u.ID], Newer: e.reported[u.ID] != c.Run()}
			if !c.StartedAt.Before(e.lifeBegan) {
				u.Of.Started = c.StartedAt
			}
		}
	}
	return u
}

// setLookTakes makes inspections fail after that time; 0: none fails.
func (e *fakeEngine) setLookTakes(d time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lookTakes = d
}

// run starts a run that healthd did not ask for, and reports it.
// run begins a run, and returns when what begins with it has been done: what a test sets then is not for its first probe.
func (e *fakeEngine) run(id string) {
	e.tellRun(id)
	synctest.Wait()
}

func (e *fakeEngine) tellRun(id string) {
	e.beginRun(id)
	e.deliver(e.observation(id))
}

func (e *fakeEngine) beginRun(id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	// No two runs start at the same time, even where time stands still.
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

// observation returns the update with an inspection of the container now.
func (e *fakeEngine) observation(id string) runtime.Update {
	c, _ := e.Inspect(context.Background(), id)
	return runtime.Update{Kind: runtime.Observed, Runtime: "docker", ID: id, Container: c}
}

// exit ends the container's run and reports it.
func (e *fakeEngine) exit(id string, code int) {
	e.endRun(id, code)
	e.deliver(runtime.Update{Kind: runtime.Died, Runtime: "docker", ID: id, ExitCode: code, Time: time.Now()})
	e.deliver(e.observation(id))
}

func (e *fakeEngine) endRun(id string, code int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.containers[id] == nil { // it was removed meanwhile
		return
	}
	c := *e.containers[id]
	c.State, c.ExitCode, c.FinishedAt = runtime.Exited, code, time.Now()
	e.containers[id] = &c
}

// delete removes a container without a report.
func (e *fakeEngine) delete(id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.containers, id)
}

func (e *fakeEngine) noteCall(format string, args ...any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	call := fmt.Sprintf(format, args...)
	e.callLog = append(e.callLog, call)
	if e.called != nil {
		e.called <- call
	}
}

func (e *fakeEngine) calls() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]string(nil), e.callLog...)
}

func (e *fakeEngine) Stop(ctx context.Context, id string, grace time.Duration) error {
	e.noteCall("stop %s %v", id, grace)
	if e.onStop != nil {
		e.onStop()
	}
	if e.onStopOf != nil {
		e.onStopOf(id)
	}
	if c, err := e.Inspect(ctx, id); err != nil || !c.State.Alive() {
		return err
	}
	if !e.stopUntold {
		e.deliver(runtime.Update{Kind: runtime.Killed, Runtime: "docker", ID: id, Signal: 15, Time: time.Now()})
	}
	if e.survives > 0 {
		e.survives--
		return errors.New("tried to kill container, but did not receive an exit event")
	}
	if e.stopTakes > 0 {
		select {
		case <-time.After(e.stopTakes):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	e.endRun(id, 0)
	if u := e.observation(id); u.Container != nil {
		e.deliver(u)
	}
	return nil
}

func (e *fakeEngine) Start(ctx context.Context, id string) error {
	e.noteCall("start %s", id)
	defer e.countStart()()
	if e.startTakes > 0 {
		select {
		case <-time.After(e.startTakes):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if _, err := e.Inspect(ctx, id); err != nil {
		return err
	}
	e.tellRun(id)
	return nil
}

// countStart counts a start call that begins. The caller calls what it returns at the call's end.
func (e *fakeEngine) countStart() (end func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.starting++
	e.mostStarts = max(e.mostStarts, e.starting)
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.starting--
	}
}

func (e *fakeEngine) Inspect(ctx context.Context, id string) (*runtime.Container, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.inspected++
	if d := e.lookTakes; d > 0 {
		e.mu.Unlock()
		time.Sleep(d)
		e.mu.Lock()
		return nil, context.DeadlineExceeded
	}
	c, ok := e.containers[id]
	if !ok {
		return nil, fmt.Errorf("cannot inspect %s: %w", id, runtime.ErrNotFound)
	}
	copied := *c
	return &copied, nil
}

// inspections returns how often a container was inspected.
func (e *fakeEngine) inspections() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.inspected
}

func (e *fakeEngine) KillEvents(_ context.Context, run runtime.Run) ([]runtime.Event, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(e.lostKills), func(k runtime.Event) bool { return k.ID != run.ID }), nil
}

func (e *fakeEngine) Accept(context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.refuses {
		return errors.New("connection refused")
	}
	return nil
}

// refuseConnections has the engine refuse or accept new connections.
func (e *fakeEngine) refuseConnections(refuses bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.refuses = refuses
}

func (e *fakeEngine) newestStart() time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.started
}

// fakeProber answers probes with the results that the test sets for their container.
type fakeProber struct {
	mu         sync.Mutex
	results    map[string]prober.Result // by container ID and port: "c1:80"
	asked      map[string]int
	addresses  map[string]string // of the newest probe
	namespaces map[string]*prober.Namespace
	hanging    map[string]bool
	open       map[*fakeProbe]bool
}

func newFakeProber() *fakeProber {
	return &fakeProber{results: make(map[string]prober.Result), asked: make(map[string]int), addresses: make(map[string]string), namespaces: make(map[string]*prober.Namespace), hanging: make(map[string]bool), open: make(map[*fakeProbe]bool)}
}

func (s *fakeProber) setResult(key string, r prober.Result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.results[key] = r
}

func (s *fakeProber) setHanging(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hanging[key] = true
}

func (s *fakeProber) timesAsked(key string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[key]
}

func (s *fakeProber) address(key string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.addresses[key]
}

func (s *fakeProber) Probe(h prober.Handler, t prober.Target) (prober.Probe, error) {
	if h.TCPSocket == nil {
		return nil, errors.New("no such handler")
	}
	key := fmt.Sprintf("%s:%d", t.ID, h.TCPSocket.Port)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addresses[key] = t.Address
	s.namespaces[key] = t.Namespace
	p := &fakeProbe{s, key}
	s.open[p] = true
	return p, nil
}

// Hook returns a hook whose result the test sets as that of "ID:post_start" or
// "ID:pre_stop". The hook's command says which one it is.
func (s *fakeProber) Hook(h prober.LifecycleHandler, t prober.Target) (prober.Hook, error) {
	if h.Exec == nil {
		return nil, errors.New("no such handler")
	}
	return &fakeProbe{s, t.ID + ":" + h.Exec.Command[0]}, nil
}

// Run implements prober.Hook.
func (p *fakeProbe) Run(ctx context.Context) prober.HookResult {
	if r := p.Ask(ctx, 0); r.Outcome != prober.Success {
		return prober.HookResult{Err: errors.New(r.Output), NotAsked: r.Outcome == prober.Unknown}
	}
	return prober.HookResult{}
}

type fakeProbe struct {
	s   *fakeProber
	key string
}

func (p *fakeProbe) Close() {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	delete(p.s.open, p)
}

func (p *fakeProbe) Ask(ctx context.Context, timeout time.Duration) prober.Result {
	p.s.mu.Lock()
	p.s.asked[p.key]++
	r, ok := p.s.results[p.key]
	hang := p.s.hanging[p.key]
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

// fakeJournal is a Journal in memory.
type fakeJournal struct {
	mu     sync.Mutex
	events []core.Event
}

func (j *fakeJournal) Record(e core.Event) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.events = append(j.events, e)
}

// all returns all events, oldest first.
func (j *fakeJournal) all() []core.Event {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.events)
}

// reasons returns the reasons of a container's events, oldest first.
func (j *fakeJournal) reasons(container string) []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	var all []string
	for _, e := range j.events {
		if e.Container == container {
			all = append(all, e.Reason)
		}
	}
	return all
}
