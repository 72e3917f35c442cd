package prober

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// askAtOnce asks new probes of a container, and returns how often each outcome came, and a
// result that is Unknown.
func askAtOnce(t *testing.T, p *Prober, n int, container string, timeout time.Duration) (map[Outcome]int, Result) {
	t.Helper()
	var wg sync.WaitGroup
	results := make(chan Result, n)
	for range n {
		probe := probeOf(t, p, container, "ask")
		wg.Go(func() { results <- probe.Ask(t.Context(), timeout) })
	}
	wg.Wait()
	close(results)
	count, unknown := map[Outcome]int{}, Result{}
	for r := range results {
		if count[r.Outcome]++; r.Outcome == Unknown {
			unknown = r
		}
	}
	return count, unknown
}

// However many ask, a container has few commands at once.
func TestCommandsOfOneContainerAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := newCommandHost()
		host.behave("c", behaviour{runs: forever})
		p := New(Config{Engines: map[string]Engine{"fake": host}})
		count, unknown := askAtOnce(t, p, 50, "c", 10*time.Second)
		if count[Failure] != maxPerContainer || count[Unknown] != 50-maxPerContainer {
			t.Errorf("got %v", count)
		}
		wantOutput(t, unknown, "4 commands of probes run in the container already, and no more may")
		host.behave("c", behaviour{})
		if count, _ := askAtOnce(t, p, maxPerContainer, "c", time.Second); count[Success] != maxPerContainer {
			t.Errorf("later: got %v", count)
		}
		if n := host.count(host.mostRunning, "c"); n != maxPerContainer {
			t.Errorf("%d commands at once", n)
		}
	})
}

// Commands that could not be killed count, too, until they have ended.
func TestLeftCommandsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := newCommandHost()
		host.behave("c", behaviour{runs: time.Minute, immune: true})
		p := New(Config{Engines: map[string]Engine{"fake": host}})
		for i := range 2 * maxPerContainer { // as after reloads with new commands
			r := probeOf(t, p, "c", "ask", fmt.Sprint(i)).Ask(t.Context(), time.Second)
			if i < maxPerContainer {
				wantResult(t, r, Failure, Timeout)
				continue
			}
			wantResult(t, r, Unknown, NotAsked)
			wantOutput(t, r, "healthd cannot kill 4 of them, but a restart of the container ends them")
		}
		wantBegun(t, host, maxPerContainer)
		time.Sleep(time.Minute)
		host.behave("c", behaviour{})
		wantResult(t, probeOf(t, p, "c", "ask", "new").Ask(t.Context(), time.Second), Success, "")
		if n := len(p.engines["fake"].probes.left); n > 0 {
			t.Errorf("the commands of %d containers are remembered", n)
		}
	})
}

func TestCommandsOfAnEngineAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := newCommandHost()
		const most = 500 // the race detector allows too few goroutines for maxRunning
		p := New(Config{Engines: map[string]Engine{"fake": host}, MaxStarts: 100})
		p.engines["fake"].probes.most = most
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for i := range most {
			id := fmt.Sprint("hung-", i)
			host.behave(id, behaviour{runs: forever})
			probe := probeOf(t, p, id, "ask")
			wg.Go(func() { probe.Ask(ctx, 8760*time.Hour) })
		}
		time.Sleep(10 * time.Second)
		healthy := probeOf(t, p, "healthy", "ask")
		r := healthy.Ask(t.Context(), time.Second)
		wantResult(t, r, Unknown, NotAsked)
		wantOutput(t, r, "500 commands of probes run on the engine already, and no more may")
		if places := p.engines["fake"].probes.places; len(places.held) > 0 {
			t.Errorf("%d of %d places are held", len(places.held), places.total)
		}
		hook, err := p.Hook(execHookHandler("drain"), Target{Runtime: "fake", ID: "healthy"})
		if err != nil {
			t.Fatal(err)
		}
		wantError(t, hook.Run(t.Context()).Err, "")
		cancel()
		wg.Wait()
		if err := p.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		wantResult(t, healthy.Ask(t.Context(), time.Second), Success, "")
	})
}

func TestDrainWaitsForNoCommandThatCannotBeKilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, prober, _ := leftHost(t)
		if err := prober.Drain(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A command that never ends keeps Drain for as long as its context allows.
func TestDrainEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dead := make(chan struct{})
		e := fakeEngine{exec: func(context.Context, string, []string, time.Duration) execReply {
			<-dead
			return execReply{}
		}}
		prober := New(engines(e))
		ctx, cancel := context.WithCancel(t.Context())
		p := probeOf(t, prober, "c", "ask")
		go func() {
			time.Sleep(time.Second)
			cancel()
		}()
		wantResult(t, p.Ask(ctx, time.Hour), Unknown, NotAsked)
		soon, cancelSoon := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancelSoon()
		begin := time.Now()
		err := prober.Drain(soon)
		wantError(t, err, "cannot end all commands of probes: context deadline exceeded")
		if took := time.Since(begin); !errors.Is(err, context.DeadlineExceeded) || took != 5*time.Second {
			t.Errorf("Drain took %v", took)
		}
		close(dead)
		if err := prober.Drain(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
