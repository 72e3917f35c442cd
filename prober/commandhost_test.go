package prober

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"
)

const (
	forever = 100 * 365 * 24 * time.Hour
	// startCost is how long a start takes on an idle host.
	startCost = 40 * time.Millisecond
)

// behaviour is how the commands of one container behave.
type behaviour struct {
	starts time.Duration // 0: startCost
	runs   time.Duration // unless it is killed
	code   int
	immune bool // it cannot be killed
}

// commandHost is an Engine in virtual time. A container that it does not know has commands
// that succeed at once.
type commandHost struct {
	fakeEngine

	mu          sync.Mutex
	containers  map[string]behaviour
	away        bool           // it cannot tell what runs
	looks       int            // at commands that could not be killed
	begun       map[string]int // commands so far, by container
	running     map[string]int // commands that run or start
	starting    int
	mostStarts  int // at once
	mostRunning map[string]int
}

func newCommandHost() *commandHost {
	return &commandHost{containers: map[string]behaviour{}, begun: map[string]int{}, running: map[string]int{}, mostRunning: map[string]int{}}
}

func (h *commandHost) behave(container string, b behaviour) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.containers[container] = b
}

func (h *commandHost) begins(container string) behaviour {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.begun[container]++
	h.running[container]++
	h.mostRunning[container] = max(h.mostRunning[container], h.running[container])
	h.starting++
	h.mostStarts = max(h.mostStarts, h.starting)
	b := h.containers[container]
	if b.starts == 0 {
		b.starts = startCost
	}
	return b
}

func (h *commandHost) hasStarted() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.starting--
}

func (h *commandHost) ends(container string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.running[container]--
}

func (h *commandHost) count(of map[string]int, container string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return of[container]
}

// Exec implements Execer.
func (h *commandHost) Exec(ctx context.Context, container string, _ []string, timeout time.Duration, _ int, started func()) ([]byte, int, bool, error) {
	b := h.begins(container)
	err := sleep(ctx, b.starts)
	h.hasStarted()
	if err != nil {
		h.ends(container)
		return nil, 0, false, err
	}
	started()
	ended := time.Now().Add(b.runs)
	err = sleep(ctx, min(b.runs, timeout))
	if (err != nil || b.runs > timeout) && b.immune {
		time.AfterFunc(time.Until(ended), func() { h.ends(container) })
		return nil, 0, err == nil, errors.Join(err, immuneCommand{h, ended})
	}
	h.ends(container)
	return nil, b.code, err == nil && b.runs > timeout, err
}

// immuneCommand is the error about a command that could not be killed.
type immuneCommand struct {
	host  *commandHost
	until time.Time
}

var errNoProcess = errors.New("there is no such process here")

func (immuneCommand) Error() string { return "cannot kill the command: " + errNoProcess.Error() }

// StillRuns has the results that Execer promises.
func (c immuneCommand) StillRuns(context.Context) (bool, error) {
	c.host.mu.Lock()
	defer c.host.mu.Unlock()
	c.host.looks++
	switch {
	case c.host.away:
		return false, errors.New("the engine is away")
	case time.Now().Before(c.until):
		return true, c
	}
	return false, nil
}

// sleep returns nil after d, and the error of ctx when that ends before.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 { // such a timer in a bubble can crash Go 1.26 with -race
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func probeOf(t *testing.T, prober *Prober, container string, argv ...string) Probe {
	t.Helper()
	p, err := prober.Probe(execs(argv...), Target{Runtime: "fake", ID: container})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// askedProbe is a probe that is asked once each period.
type askedProbe struct {
	container       string
	period, timeout time.Duration
	offset          time.Duration // of the first time

	mu      sync.Mutex
	count   map[Outcome]int
	last    Result
	longest time.Duration // of the times asked
}

// askPeriodically asks until the time is over, as the supervisor does: a probe does not overlap
// itself, and after a late answer the next one follows at once.
func (a *askedProbe) askPeriodically(ctx context.Context, p Probe, until time.Time) {
	for due := time.Now().Add(a.offset); due.Before(until); {
		if sleep(ctx, time.Until(due)) != nil {
			return
		}
		began := time.Now()
		r := p.Ask(ctx, a.timeout)
		if ctx.Err() != nil {
			return
		}
		a.mu.Lock()
		a.count[r.Outcome]++
		a.last, a.longest = r, max(a.longest, time.Since(began))
		a.mu.Unlock()
		due = due.Add(max(1, time.Since(due)/a.period) * a.period)
	}
}

func (a *askedProbe) want(t *testing.T, success, failure, unknown int) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.count[Success] != success || a.count[Failure] != failure || a.count[Unknown] != unknown {
		t.Errorf("%s: %d successes, %d failures, %d unknown, want %d, %d, %d; the last one: %+v",
			a.container, a.count[Success], a.count[Failure], a.count[Unknown], success, failure, unknown, a.last)
	}
}

// askAll asks all probes during that time, then ends them all and waits for them.
func askAll(t *testing.T, p *Prober, during time.Duration, probes ...*askedProbe) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	until := time.Now().Add(during)
	for _, a := range probes {
		a.count = map[Outcome]int{}
		probe := probeOf(t, p, a.container, "ask")
		wg.Go(func() { a.askPeriodically(ctx, probe, until) })
	}
	time.Sleep(during)
	cancel()
	wg.Wait()
}

// hung returns probes of n containers, which do not begin all at once.
func hung(n int, period, timeout time.Duration) []*askedProbe {
	var all []*askedProbe
	for i := range n {
		all = append(all, &askedProbe{container: fmt.Sprintf("hung-%d", i), offset: time.Duration(i) * time.Millisecond, period: period, timeout: timeout})
	}
	return all
}
