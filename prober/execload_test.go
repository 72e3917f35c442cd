package prober

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// loadedProbe is a probe that is asked once each period, without a goroutine in between: the race detector
// allows too few.
type loadedProbe struct {
	probe           Probe
	period, timeout time.Duration

	count map[Outcome]int
	last  Result // that is Unknown
}

// load asks many probes until the time is over.
type load struct {
	until time.Time
	mu    sync.Mutex
	wg    sync.WaitGroup
}

// begin asks a probe for the first time after a moment, which must not be 0.
func (l *load) begin(t *testing.T, a *loadedProbe, after time.Duration) {
	a.count = map[Outcome]int{}
	l.wg.Add(1)
	time.AfterFunc(after, func() { l.ask(t.Context(), a, time.Now()) })
}

func (l *load) ask(ctx context.Context, a *loadedProbe, due time.Time) {
	defer l.wg.Done()
	r := a.probe.Ask(ctx, a.timeout)
	l.mu.Lock()
	defer l.mu.Unlock()
	if a.count[r.Outcome]++; r.Outcome == Unknown {
		a.last = r
	}
	due = due.Add(max(1, (time.Since(due)+a.period-1)/a.period) * a.period)
	if due.After(l.until) {
		return
	}
	l.wg.Add(1)
	time.AfterFunc(max(1, time.Until(due)), func() { l.ask(ctx, a, due) })
}

// 10,000 containers want 1,000 commands a second, and the engine starts 200. What has no turn is Unknown, all have
// as many turns, no turn is lost, and what waits is bounded.
func TestMoreCommandsThanCanStart(t *testing.T) {
	const (
		containers = 10_000
		starts     = 8
		period     = 10 * time.Second
		perSecond  = int(starts * time.Second / startCost)
	)
	during := time.Duration(often(60, 20)) * time.Second
	synctest.Test(t, func(t *testing.T) {
		host := newCommandHost()
		p := New(Config{Engines: map[string]Engine{"fake": host}, MaxStarts: starts})
		l := &load{until: time.Now().Add(during)}
		var all []*loadedProbe
		before, most := runtime.NumGoroutine(), 0
		for i := range containers {
			a := &loadedProbe{probe: probeOf(t, p, fmt.Sprint("c", i), "ask"), period: period, timeout: time.Second}
			all = append(all, a)
			l.begin(t, a, time.Millisecond+time.Duration(i)*period/containers)
		}
		for range int(during/time.Second) - 1 {
			time.Sleep(time.Second)
			most = max(most, runtime.NumGoroutine()-before)
		}
		l.wg.Wait()
		turns, least, greatest := 0, 1<<30, 0
		for _, a := range all {
			n := a.count[Success]
			turns, least, greatest = turns+n, min(least, n), max(greatest, n)
			if a.count[Failure] > 0 || !strings.Contains(a.last.Output, "the engine is busy") {
				t.Fatalf("got %v, %+v", a.count, a.last)
			}
		}
		if want := int(during/time.Second) * perSecond; turns < want-perSecond || greatest-least > 1 {
			t.Errorf("%d turns, want %d; %d to %d for each container", turns, want, least, greatest)
		}
		if limit := 1200; most > limit { // those of a second wait, and some start
			t.Errorf("%d goroutines, want at most %d", most, limit)
		}
		if places := p.engines["fake"].probes.places; host.mostStarts > starts || len(places.waiting) > 0 || len(places.held) > 0 {
			t.Errorf("%d started at once, %d wait, %d places are held", host.mostStarts, len(places.waiting), len(places.held))
		}
	})
}

// busyEngine is an Engine in virtual time on a host with one CPU, which the commands that start share.
type busyEngine struct {
	fakeEngine
	cost time.Duration // of a start

	mu       sync.Mutex
	starting map[*costlyStart]bool
	most     int // at once
}

type costlyStart struct {
	left time.Duration
	done chan struct{}
}

// run starts commands until ctx ends.
func (e *busyEngine) run(ctx context.Context) {
	const slice = 5 * time.Millisecond
	for sleep(ctx, slice) == nil {
		e.mu.Lock()
		share := slice / time.Duration(max(1, len(e.starting)))
		for s := range e.starting {
			if s.left -= share; s.left <= 0 {
				close(s.done)
				delete(e.starting, s)
			}
		}
		e.mu.Unlock()
	}
}

// Exec implements Execer.
func (e *busyEngine) Exec(ctx context.Context, _ string, _ []string, _ time.Duration, _ int, started func()) ([]byte, int, bool, error) {
	s := &costlyStart{left: e.cost, done: make(chan struct{})}
	e.mu.Lock()
	e.starting[s] = true
	e.most = max(e.most, len(e.starting))
	e.mu.Unlock()
	select {
	case <-s.done:
		started()
		return nil, 0, false, nil
	case <-ctx.Done():
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.starting, s)
		return nil, 0, false, ctx.Err()
	}
}

// When each start takes longer than it may hold its place, as on a host that is busy with other things, the
// engine is not given ever more of them: it would end none in time.
func TestSlowEngineIsNotFlooded(t *testing.T) {
	const (
		containers = 1000
		starts     = 8
		cost       = 150 * time.Millisecond // with 8 at once 1.2 s
	)
	during := time.Duration(often(5, 1)) * time.Minute
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		host := &busyEngine{cost: cost, starting: map[*costlyStart]bool{}}
		var running sync.WaitGroup
		running.Go(func() { host.run(ctx) })
		p := New(Config{Engines: map[string]Engine{"fake": host}, MaxStarts: starts})
		l := &load{until: time.Now().Add(during)}
		var all []*loadedProbe
		for i := range containers {
			a := &loadedProbe{probe: probeOf(t, p, fmt.Sprint("c", i), "ask"), period: 10 * time.Second, timeout: time.Second}
			all = append(all, a)
			l.begin(t, a, time.Millisecond+time.Duration(i)*10*time.Millisecond)
		}
		time.Sleep(during)
		l.wg.Wait()
		cancel()
		running.Wait()
		turns := 0
		for _, a := range all {
			if turns += a.count[Success]; a.count[Failure] > 0 {
				t.Fatalf("got %v", a.count)
			}
		}
		if want := int(during / cost); turns < want*9/10 {
			t.Errorf("%d commands had an answer, want about %d", turns, want)
		}
		if host.most > 4*starts {
			t.Errorf("%d started at once", host.most)
		}
	})
}
