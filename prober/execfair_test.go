package prober

import (
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

// 32 commands hang until their timeout. Other containers are asked as if there were none.
func TestHangingCommandsStarveNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := newCommandHost()
		all := hung(32, 10*time.Second, 10*time.Second)
		for _, a := range all {
			host.behave(a.container, behaviour{runs: forever})
		}
		host.behave("dead", behaviour{code: 1})
		healthy := &askedProbe{container: "healthy", offset: time.Millisecond, period: time.Second, timeout: time.Second}
		dead := &askedProbe{container: "dead", offset: time.Millisecond, period: 5 * time.Second, timeout: time.Second}
		askAll(t, New(Config{Engines: map[string]Engine{"fake": host}, MaxStarts: 16}), 15*time.Second, append(all, healthy, dead)...)
		healthy.want(t, 15, 0, 0)
		dead.want(t, 0, 3, 0)
	})
}

func TestEndlessTimeoutsStarveNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := newCommandHost()
		all := append(hung(300, time.Second, 8760*time.Hour), hung(300, time.Second, 8760*time.Hour)...)
		for _, a := range all {
			host.behave(a.container, behaviour{runs: forever})
		}
		healthy := &askedProbe{container: "healthy", offset: 30 * time.Second, period: time.Second, timeout: time.Second}
		askAll(t, New(Config{Engines: map[string]Engine{"fake": host}, MaxStarts: 16}), time.Minute, append(all, healthy)...)
		healthy.want(t, 30, 0, 0)
	})
}

// Commands that start quickly, one after the other without a pause: the host has no time left.
func TestFrequentCommandsStarveNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := newCommandHost()
		all := hung(100, 100*time.Millisecond, 10*time.Second)
		healthy := &askedProbe{container: "healthy", offset: 5 * time.Second, period: 10 * time.Second, timeout: time.Second}
		askAll(t, New(Config{Engines: map[string]Engine{"fake": host}, MaxStarts: 2}), time.Minute, append(all, healthy)...)
		healthy.want(t, 6, 0, 0)
	})
}

// The starts of some containers hang.
func TestHangingStartsStarveNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := newCommandHost()
		all := hung(60, 10*time.Second, time.Second)
		for _, a := range all {
			host.behave(a.container, behaviour{starts: forever})
		}
		healthy := &askedProbe{container: "healthy", offset: 5 * time.Second, period: 5 * time.Second, timeout: time.Second}
		askAll(t, New(Config{Engines: map[string]Engine{"fake": host}, MaxStarts: 16}), time.Minute, append(all, healthy)...)
		healthy.want(t, 11, 0, 0)
	})
}

// When all starts hang, every probe is Unknown, and what waits is bounded by the probes.
func TestEngineThatStartsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := newCommandHost()
		all := hung(100, 10*time.Second, 3*time.Second)
		for _, a := range all {
			host.behave(a.container, behaviour{starts: forever})
		}
		p := New(Config{Engines: map[string]Engine{"fake": host}, MaxStarts: 4})
		before := runtime.NumGoroutine()
		most := 0
		watch := time.AfterFunc(5*time.Minute+500*time.Millisecond, func() { most = runtime.NumGoroutine() - before })
		askAll(t, p, 10*time.Minute, all...)
		watch.Stop()
		for _, a := range all {
			if a.count[Success]+a.count[Failure] > 0 || a.count[Unknown] < 30 {
				t.Errorf("%s: %v", a.container, a.count)
			}
			if n := host.count(host.mostRunning, a.container); n > 1 {
				t.Errorf("%s: %d starts at once", a.container, n)
			}
			if n := host.count(host.begun, a.container); n < 3 { // 10 of 100 have one in 10 s: the engine is spared
				t.Errorf("%s had only %d turns", a.container, n)
			}
		}
		if limit := 2*len(all) + 10; most > limit {
			t.Errorf("%d goroutines, want at most %d", most, limit)
		}
		for _, a := range all { // the engine is well again
			host.behave(a.container, behaviour{})
		}
		time.Sleep(time.Minute)
		askAll(t, p, 20*time.Second, all...)
		for _, a := range all {
			a.want(t, 2, 0, 0)
		}
	})
}

// An engine that hangs holds up no other engine.
func TestEnginesDoNotShareStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sick, well := newCommandHost(), newCommandHost()
		sick.behave("c", behaviour{starts: forever})
		p := New(Config{Engines: map[string]Engine{"sick": sick, "well": well}, MaxStarts: 1})
		probes := map[string]Probe{}
		for _, name := range []string{"sick", "well"} {
			probe, err := p.Probe(execs("ask"), Target{Runtime: name, ID: "c"})
			if err != nil {
				t.Fatal(err)
			}
			probes[name] = probe
		}
		go probes["sick"].Ask(t.Context(), time.Second)
		synctest.Wait()
		r := probes["well"].Ask(t.Context(), time.Second)
		wantResult(t, r, Success, "")
		if r.Latency != startCost || sick.count(sick.begun, "c") != 1 {
			t.Errorf("got %+v", r)
		}
	})
}

// A command that runs does not keep the next one from starting.
func TestPlaceIsFreeWhenTheProcessRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := newCommandHost()
		all := hung(20, time.Minute, time.Second)
		for _, a := range all {
			host.behave(a.container, behaviour{runs: 900 * time.Millisecond})
		}
		askAll(t, New(Config{Engines: map[string]Engine{"fake": host}, MaxStarts: 1}), 10*time.Second, all...)
		for _, a := range all { // the starts take 20 times 40 ms
			a.want(t, 1, 0, 0)
		}
	})
}

// The time in which a probe waits for its turn is not the command's.
func TestWaitForTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := newCommandHost()
		var all []*askedProbe
		for i := range 4 {
			id := fmt.Sprint("c", i)
			host.behave(id, behaviour{starts: 400 * time.Millisecond, runs: 900 * time.Millisecond})
			all = append(all, &askedProbe{container: id, period: time.Hour, timeout: time.Second})
		}
		p := New(Config{Engines: map[string]Engine{"fake": host}, MaxStarts: 1})
		askAll(t, p, time.Minute, all...)
		if n := len(p.engines["fake"].probes.begun); n > 0 {
			t.Errorf("%d containers are remembered", n)
		}
		unknown := 0
		for _, a := range all { // starts begin after 0, 0.4 and 0.8 s, and not after 1.2 s
			switch r := a.last; {
			case r.Outcome == Unknown:
				unknown++
				wantOutput(t, r, "the engine is busy: it starts 1 commands at a time, and this one had no turn within 1s")
			case r.Outcome != Success || r.Latency != 1300*time.Millisecond:
				t.Errorf("got %+v", r)
			}
		}
		if unknown != 1 || host.mostStarts != 1 {
			t.Errorf("%d had no turn; %d started at once", unknown, host.mostStarts)
		}
	})
}
