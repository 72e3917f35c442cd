package prober

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// wantWaits compares the commands of probes that had a turn, how long they waited, and those that had none.
func wantWaits(t *testing.T, w Waits, turns uint64, sum time.Duration, missed uint64) {
	t.Helper()
	got := uint64(0)
	for _, n := range w.Counts {
		got += n
	}
	if d := time.Duration(w.Sum * float64(time.Second)).Round(time.Microsecond); got != turns || d != sum || w.Missed != missed {
		t.Errorf("%s of %s: %d turns after %v, %d missed; want %d after %v, %d missed", w.Kind, w.Runtime, got, d, w.Missed, turns, sum, missed)
	}
}

// What is promised of commands: one holds its place while it starts, not while it runs; containers share the places
// evenly; and how long each waits is counted. (That it takes few requests: TestCallsOfACommand of package docker.)
func TestCommandsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const starts = 100 * time.Millisecond
		host := newCommandHost()
		host.behave("long", behaviour{starts: starts, runs: time.Hour})
		p := New(Config{Engines: map[string]Engine{"fake": host}, MaxStarts: 1})
		var asked sync.WaitGroup
		ask := func(container, command string, timeout time.Duration) {
			asked.Go(func() { probeOf(t, p, container, command).Ask(t.Context(), timeout) })
			synctest.Wait()
		}
		ask("long", "a", 2*time.Hour)
		for range maxPerContainer { // of one container, before any other one
			ask("many", "b", time.Minute)
		}
		ask("few", "c", time.Minute)
		ask("hasty", "d", starts/2)
		time.Sleep(starts - 1)
		if n := host.count(host.begun, "many"); n != 0 {
			t.Errorf("%d commands begun while another one starts", n)
		}
		time.Sleep(time.Nanosecond) // the process of the first one runs
		synctest.Wait()
		if n := host.count(host.begun, "many"); n != 1 {
			t.Errorf("%d commands of the next container, want 1", n)
		}
		time.Sleep(startCost) // it has had its turn
		synctest.Wait()
		if n := host.count(host.begun, "few"); n != 1 || host.count(host.begun, "many") != 1 || host.count(host.running, "long") != 1 {
			t.Errorf("begun: %v, running: %v", host.begun, host.running)
		}
		time.Sleep(time.Minute)
		// After the first one: one of many, few, and three of many; hasty had none.
		wantWaits(t, p.Waits()[1], 6, 5*starts+(0+1+2+3+4)*startCost, 1)
		asked.Wait()
	})
}

// A command that nobody wants any more, because its run has ended, did not miss its turn. A hook whose time is over did.
func TestMissedTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := newCommandHost()
		host.behave("hung", behaviour{starts: forever})
		p := New(Config{Engines: map[string]Engine{"b": host, "a": host}, MaxStarts: 1})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		hook := func(ctx context.Context, container string) {
			h, err := p.Hook(execHookHandler("drain"), Target{Runtime: "b", ID: container})
			if err != nil {
				t.Error(err)
				return
			}
			h.Run(ctx)
		}
		go hook(ctx, "hung")
		synctest.Wait()
		short, end := context.WithTimeout(ctx, maxHold/2)
		defer end()
		hook(short, "missed")
		cancelled, end := context.WithCancel(ctx)
		time.AfterFunc(maxHold/4, end)
		hook(cancelled, "unwanted")
		var names []string
		for _, w := range p.Waits() {
			names = append(names, w.Runtime+" "+w.Kind)
		}
		if want := "[a hooks a probes b hooks b probes]"; fmt.Sprint(names) != want {
			t.Errorf("got %v, want %s", names, want)
		}
		wantWaits(t, p.Waits()[2], 1, 0, 1)
		wantWaits(t, p.Waits()[3], 0, 0, 0)
	})
}

// A wait belongs to the bucket that ends with it, as Prometheus has it.
func TestWaitBuckets(t *testing.T) {
	var c waitCounts
	for _, d := range []time.Duration{0, time.Millisecond, time.Millisecond + 1, 500 * time.Millisecond, 30 * time.Second, time.Hour} {
		c.hadTurn(d)
	}
	want := []uint64{2, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 1}
	if got := c.read(); !reflect.DeepEqual(got.Counts, want) || got.Sum < 3630 || got.Sum > 3631 {
		t.Errorf("got %v, %v s", got.Counts, got.Sum)
	}
}
