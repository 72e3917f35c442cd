package supervisor

import (
	"context"
	"fmt"
	goruntime "runtime"
	"sync"
	"testing"
	"time"

	"healthd/runtime"
	"healthd/supervisor/core"
)

// BenchmarkExitToStart measures from the event that a container ended to the call that
// starts it again.
func BenchmarkExitToStart(b *testing.B) {
	h := newHarness(b, &core.Spec{RestartPolicy: core.Always, Backoff: core.Backoff{Initial: time.Second, Max: time.Minute, ResetAfter: 0}})
	h.sendSynced()
	h.engine.called = make(chan string, 1)
	h.engine.run("c1")
	b.ReportAllocs()
	for b.Loop() {
		h.engine.exit("c1", 1)
		<-h.engine.called
		for h.view(b, "c1").State.Action.Call != core.NoCall { // and the call has returned
			goruntime.Gosched()
		}
	}
	b.StopTimer()
	h.close(b)
}

// BenchmarkIdleProbes measures the memory of 1,000 containers with 3,000 probes between
// two probes.
func BenchmarkIdleProbes(b *testing.B) {
	spec := webSpec()
	spec.Probes[core.Startup] = tcpProbe(3, time.Hour, 3)
	spec.Probes[core.Liveness].Period, spec.Probes[core.Readiness].Period = time.Hour, time.Hour
	for b.Loop() {
		before := heapBytes()
		goroutines := goruntime.NumGoroutine()
		h := newHarness(b, spec)
		h.sendSynced()
		startThousand(b, h, 3000)
		b.ReportMetric(float64(heapBytes()-before)/1e6, "MB/3000-probes")
		b.ReportMetric(float64(goruntime.NumGoroutine()-goroutines), "goroutines")
		h.close(b)
	}
}

// BenchmarkStartThousand measures from the first of 1,000 running containers to the
// moment at which all their probes are armed.
func BenchmarkStartThousand(b *testing.B) {
	spec := webSpec()
	for b.Loop() {
		h := newHarness(b, spec) // not synced: healthd finds the containers running
		startThousand(b, h, 2000)
		b.StopTimer()
		h.close(b)
		b.StartTimer()
	}
}

func startThousand(b *testing.B, h *harness, want int) {
	for i := range 1000 {
		h.engine.run(fmt.Sprintf("c%d", i))
	}
	for armed := 0; armed < want; {
		if err := h.Ping(context.Background()); err != nil {
			b.Fatal(err)
		}
		armed = 0
		for _, v := range h.Board().Views() {
			for _, y := range v.State.Health.Probes {
				if !y.Due.IsZero() || y.OnHold {
					armed++
				}
			}
		}
	}
}

func heapBytes() int64 {
	goruntime.GC()
	var m goruntime.MemStats
	goruntime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// BenchmarkThousandWait measures one more failure of a container that waits with 999
// others for the budget or for its group, and one look at all that wait.
func BenchmarkThousandWait(b *testing.B) {
	for _, group := range []string{"", "web"} {
		l, all := waitingLoop(b, group)
		in := &core.Input{Kind: core.ProbeAnswered, Probe: core.Liveness, Result: refused}
		b.Run("step, group "+group, func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				e := all[i%len(all)]
				e.state.Health.Probes[core.Liveness].Running = true
				l.step(e, in)
			}
		})
		b.Run("recheck, group "+group, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				l.guard.changed = true
				l.recheckWaiting(time.Now())
			}
		})
	}
}

// waitingLoop returns a loop that does not run. It has 1,000 containers with a failed
// probe, of which nearly all wait.
func waitingLoop(b *testing.B, group string) (*loop, []*entry) {
	spec := slowReadySpec(core.Group{Name: group})
	probes := newFakeProber()
	for i := range 1000 {
		probes.hanging[fmt.Sprintf("c%d:2", i)], probes.hanging[fmt.Sprintf("c%d:3", i)] = true, true
	}
	s := New(Config{
		Resolve: func(string, map[string]string) (*core.Spec, error) { return spec, nil }, Prober: probes,
		Journal: journalFunc(func(core.Event) {}), Guard: core.Guard{MaxRestarts: 10, Window: time.Hour},
	})
	asking, end := context.WithCancel(context.Background())
	l := newLoop(s, &sync.WaitGroup{}, asking)
	b.Cleanup(func() { close(s.ended); end(); l.wg.Wait() })
	l.synced(update{Runtime: "docker"}) // healthd restarts nothing before the runtime is synced
	var all []*entry
	for i := range 1000 {
		id := fmt.Sprintf("c%d", i)
		l.observed(update{Runtime: "docker", Container: &runtime.Container{ID: id, Name: id, Runtime: "docker", State: runtime.Running, StartedAt: time.Now(), StopTimeout: -1}})
		all = append(all, l.entries[id])
	}
	for _, e := range all {
		e.state.Health.Probes[core.Liveness].Running = true
		l.step(e, &core.Input{Kind: core.ProbeAnswered, Probe: core.Liveness, Result: refused})
	}
	if n := len(l.guard.waiting); n < 990 {
		b.Fatalf("%d wait", n)
	}
	return l, all
}
