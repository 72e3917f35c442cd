package runtime

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// fakeEngine is an engine in memory. Its calls take a millisecond.
type fakeEngine struct {
	mu           sync.Mutex
	containers   map[string]*Container
	order        []string
	stream       *fakeStream
	down         error
	inspectHangs map[string]bool // inspections that do not return
	inspectErr   map[string]error
	pingHangs    bool // pings are not answered
	lists        int
	inspected    []string
	shares       map[string]string // container → the one whose network it shares

	restarts         int
	emitted          []emittedEvent // all events ever
	lastSubscription subscription
	history          []Event       // events that it still has
	historyMax       int           // at most so many
	historyErr       error         // of EventHistory and KillEvents
	historyHangs     bool          // EventHistory does not return
	historyDelay     time.Duration // until a stream sends the history
	killEventsCalls  int           // number of calls of KillEvents
	dropsEvents      bool          // events reach no stream
	liveRestore      bool          // the engine's live-restore
	listsNothing     bool          // List returns nothing
	clockOffset      time.Duration
	clockSet         bool
}

type emittedEvent struct {
	Event
	restarts int
}

// subscription is one call of Subscribe.
type subscription struct {
	since    time.Time
	complete bool // all events since then are in the history
}

type fakeStream struct {
	ctx    context.Context
	events chan Event
	broken chan error
}

func newFakeEngine() *fakeEngine {
	return &fakeEngine{
		containers: map[string]*Container{}, inspectHangs: map[string]bool{}, inspectErr: map[string]error{},
		shares: map[string]string{}, historyMax: 256,
	}
}

func (f *fakeEngine) Subscribe(ctx context.Context, since time.Time) (Stream, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.down != nil {
		return nil, f.down
	}
	forgotten := f.emitted[:len(f.emitted)-len(f.history)]
	f.lastSubscription = subscription{since, f.numberLocked(since) >= len(forgotten)}
	if f.numberLocked(since) == 0 {
		f.lastSubscription.complete = !slices.ContainsFunc(forgotten, func(e emittedEvent) bool { return e.Time.After(since) })
	}
	f.stream = &fakeStream{ctx: ctx, events: make(chan Event, 10000), broken: make(chan error, 1)}
	if f.historyDelay > 0 {
		stream, history := f.stream, slices.Clone(f.history)
		time.AfterFunc(f.historyDelay, func() {
			for _, ev := range history {
				stream.events <- ev
			}
		})
		return f.stream, nil
	}
	for _, ev := range f.history {
		f.stream.events <- ev
	}
	return f.stream, nil
}

func (s *fakeStream) Next() (Event, error) {
	select {
	case ev := <-s.events:
		return ev, nil
	default:
	}
	select {
	case ev := <-s.events:
		return ev, nil
	case err := <-s.broken:
		return Event{}, err
	case <-s.ctx.Done():
		return Event{}, s.ctx.Err()
	}
}

func (f *fakeEngine) List(ctx context.Context) ([]Summary, error) {
	time.Sleep(time.Millisecond)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.down != nil {
		return nil, f.down
	}
	f.lists++
	var all []Summary
	if f.listsNothing {
		return all, nil
	}
	for _, id := range f.order {
		c := f.containers[id]
		at := c.FinishedAt
		if c.State.Alive() {
			at = c.StartedAt
		}
		all = append(all, Summary{ID: id, Name: c.Name, Labels: c.Labels, State: c.State, Fingerprint: c.Fingerprint, EarliestChange: at, LatestChange: at})
	}
	return all, ctx.Err()
}

func (f *fakeEngine) Inspect(ctx context.Context, id string) (*Container, error) {
	time.Sleep(time.Millisecond)
	f.mu.Lock()
	hung := f.inspectHangs[id]
	f.mu.Unlock()
	if hung {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.inspected = append(f.inspected, id)
	if err := errors.Join(f.down, f.inspectErr[id]); err != nil {
		return nil, err
	}
	c := f.describe(id)
	if c == nil {
		return nil, fmt.Errorf("cannot inspect container %s: %w", id, ErrNotFound)
	}
	return c, nil
}

// describe returns what an inspection shows, and nil when there is no such container.
func (f *fakeEngine) describe(id string) *Container {
	c := f.containers[id]
	if c == nil {
		return nil
	}
	copied := *c
	if copied.NetworkOwner = f.shares[id]; copied.NetworkOwner == "" {
		return &copied
	}
	other := f.containers[copied.NetworkOwner]
	copied.NetworkOwnerGone = other == nil
	if other != nil && other.State.Alive() {
		copied.NetworkOwnerStartedAt = other.StartedAt
	}
	return &copied
}

// now is the time by the engine's clock. No two events have the same.
func (f *fakeEngine) now() time.Time {
	at := time.Now().Add(f.clockOffset)
	for f.numberLocked(at) > 0 {
		at = at.Add(1)
	}
	return at
}

// number returns how many events were emitted up to the one of that time; 0 for none.
func (f *fakeEngine) number(at time.Time) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.numberLocked(at)
}

func (f *fakeEngine) numberLocked(at time.Time) int {
	return 1 + slices.IndexFunc(f.emitted, func(e emittedEvent) bool { return e.Time.Equal(at) })
}

func (f *fakeEngine) Clock(context.Context) (time.Time, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now(), f.down
}

func (f *fakeEngine) KillEvents(_ context.Context, run Run) ([]Event, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.historyErr != nil {
		return nil, f.historyErr
	}
	f.killEventsCalls++
	kills := FindKillsOf(run, len(f.history))
	for _, ev := range f.history {
		kills.Add(ev)
	}
	return kills.Kills(), nil
}

func (f *fakeEngine) EventHistory(ctx context.Context, at time.Time) (EventHistory, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.historyHangs {
		f.mu.Unlock()
		<-ctx.Done()
		f.mu.Lock()
		return EventHistory{}, ctx.Err()
	}
	m := EventHistory{LiveRestore: f.liveRestore, Full: len(f.history) >= f.historyMax}
	for _, ev := range f.history {
		m.HasEvent = m.HasEvent || ev.Time.Equal(at)
		m.Oldest = earlier(m.Oldest, ev.Time)
	}
	return m, f.historyErr
}

func (f *fakeEngine) Ping(ctx context.Context) error {
	f.mu.Lock()
	mute := f.pingHangs
	f.mu.Unlock()
	if mute {
		<-ctx.Done()
		return ctx.Err()
	}
	return nil
}

// silently changes the engine's state without an event.
func (f *fakeEngine) silently(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

func (f *fakeEngine) run(id string) {
	c := f.containers[id]
	if c == nil {
		c = &Container{ID: id, Name: id}
		f.order = append(f.order, id)
	}
	next := *c
	next.State, next.StartedAt, next.Address, next.Fingerprint = Running, f.now(), "10.0.0.1", "10.0.0.1"
	f.containers[id] = &next
}

func (f *fakeEngine) end(id string, code int) {
	next := *f.containers[id]
	next.State, next.FinishedAt, next.ExitCode, next.Address, next.Fingerprint = Exited, f.now(), code, "", fmt.Sprint("exit ", code)
	f.containers[id] = &next
}

func (f *fakeEngine) drop(id string) {
	delete(f.containers, id)
	f.order = slices.DeleteFunc(f.order, func(o string) bool { return o == id })
}

func (f *fakeEngine) emit(id string, action Action, number int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	ev := Event{ID: id, Action: action, Time: f.now()}
	switch action {
	case ActionKill:
		ev.Signal = number
	case ActionDie:
		ev.ExitCode = number
	}
	if c := f.containers[id]; c != nil {
		ev.Name, ev.Labels = c.Name, map[string]string{}
	}
	f.emitted = append(f.emitted, emittedEvent{ev, f.restarts})
	f.history = append(f.history[max(0, len(f.history)-f.historyMax+1):], ev)
	if f.stream == nil || f.dropsEvents {
		return
	}
	select {
	case f.stream.events <- ev:
	default:
	}
}

// start, die, kill and remove do as an engine does: change the state, then emit the event.
func (f *fakeEngine) start(id string) {
	f.silently(func() { f.run(id) })
	f.emit(id, ActionStart, 0)
}

func (f *fakeEngine) die(id string, code int) {
	f.silently(func() { f.end(id, code) })
	f.emit(id, ActionDie, code)
}

func (f *fakeEngine) kill(id string, signal int) {
	f.emit(id, ActionKill, signal)
	f.die(id, 128+signal)
}

func (f *fakeEngine) remove(id string) {
	f.emit(id, ActionDestroy, 0)
	f.silently(func() { f.drop(id) })
}

func (f *fakeEngine) crash(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.down = err
	f.stream.broken <- err
}

// comeBack starts the engine after a crash; its history is empty then.
func (f *fakeEngine) comeBack() { f.silently(func() { f.down = nil; f.restart() }) }

func (f *fakeEngine) restart() { f.restarts++; f.history = nil }

// diary runs a Watcher while script acts on its engine, and returns the updates, one line
// each, with the time since the start.
func record(t *testing.T, w *Watcher, script func(*fakeEngine)) []string {
	t.Helper()
	f := w.Source.(*fakeEngine)
	var mu sync.Mutex
	var lines []string
	began := time.Now()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		time.Sleep(time.Nanosecond) // until the script waits: what it does at first is there before the Watcher is
		done <- w.Run(ctx, func(_ context.Context, u Update) error {
			mu.Lock()
			defer mu.Unlock()
			lines = append(lines, fmt.Sprintf("%v %s", time.Since(began).Round(10*time.Millisecond), formatUpdate(u)))
			return nil
		})
	}()
	script(f)
	synctest.Wait()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("Run returned %v", err)
	}
	return lines
}

func formatUpdate(u Update) string {
	switch u.Kind {
	case Observed:
		text := strings.TrimSpace(fmt.Sprintf("observed %s %s %s", u.Container.Name, u.Container.State, u.Container.Address))
		switch c := u.Container; {
		case c.NetworkOwnerGone:
			text += " of none"
		case c.NetworkOwner != "" && c.NetworkOwnerStartedAt.IsZero():
			text += " of a stopped one"
		case c.NetworkOwner != "":
			text += fmt.Sprintf(" of one since %v", time.Until(c.NetworkOwnerStartedAt).Round(time.Second))
		}
		for _, cause := range u.Causes {
			text += " after " + formatUpdate(cause)
		}
		return text
	case Removed:
		if u.Unwanted {
			return "unwanted " + u.ID
		}
		return "removed " + u.ID
	case Killed:
		return fmt.Sprintf("killed %s %d", u.ID, u.Signal)
	case Died:
		return fmt.Sprintf("died %s %d", u.ID, u.ExitCode)
	case Stopped:
		return "stopped " + u.ID
	case Lost:
		return fmt.Sprintf("lost: %v", u.Err)
	case Synced:
		text := "synced " + u.Reason
		if len(u.NotInspected) > 0 {
			text += fmt.Sprintf(" but for %d", len(u.NotInspected))
		}
		return text
	case Connected:
		text := "connected " + [...]string{"unknown", "complete", "restart"}[u.Replay]
		if u.EngineKills {
			text += " and engine kills"
		}
		return text
	case Bookmark:
		return "bookmark"
	}
	return fmt.Sprintf("kind %d", u.Kind)
}

// sortLooks sorts what inspections made at the same moment have shown.
func sortSimultaneous(lines []string) {
	for i := 0; i < len(lines); {
		moment, _, _ := strings.Cut(lines[i], " ")
		j := i
		for j < len(lines) && (strings.HasPrefix(lines[j], moment+" observed ") || strings.HasPrefix(lines[j], moment+" removed ")) {
			j++
		}
		slices.Sort(lines[i:j])
		i = max(j, i+1)
	}
}

// compare ignores the order of inspections at the same moment, and times that are ~ in want
// because of jitter.
func compare(t *testing.T, got []string, want string) {
	t.Helper()
	var lines []string
	for l := range strings.Lines(want) {
		if l = strings.TrimSpace(l); l != "" {
			lines = append(lines, l)
		}
	}
	for i := range got {
		if i < len(lines) && strings.HasPrefix(lines[i], "~ ") {
			_, rest, _ := strings.Cut(got[i], " ")
			got[i] = "~ " + rest
		}
	}
	sortSimultaneous(got)
	sortSimultaneous(lines)
	if !slices.Equal(got, lines) {
		t.Errorf("got:\n\t%s\nwant:\n\t%s", strings.Join(got, "\n\t"), strings.Join(lines, "\n\t"))
	}
}
