package supervisor

import (
	"context"
	"fmt"
	goruntime "runtime"
	"testing"
	"time"

	"healthd/prober"
	"healthd/runtime"
	"healthd/supervisor/core"
)

// BenchmarkExitToStart measures from the event that a container ended to the call that
// starts it again.
func BenchmarkExitToStart(b *testing.B) {
	h := newHarness(b, &core.Spec{RestartPolicy: core.Always, Backoff: core.Backoff{Initial: time.Second, Max: time.Minute, ResetAfter: 0}})
	h.sendSynced()
	h.engine.called = make(chan string, 1)
	h.engine.tellRun("c1")
	b.ReportAllocs()
	for b.Loop() {
		h.engine.exit("c1", 1)
		<-h.engine.called
		for h.view("c1").State.Action.Call != core.NoCall { // and the call has returned
			goruntime.Gosched()
		}
	}
	b.StopTimer()
	h.close()
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
		h.close()
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
		h.close()
		b.StartTimer()
	}
}

func startThousand(b *testing.B, h *harness, want int) {
	for i := range 1000 {
		h.engine.tellRun(fmt.Sprintf("c%d", i))
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

// BenchmarkWaiting measures what one message costs while many containers wait for the
// budget of the host, or for their group: one more failure of one that waits, a recovery
// followed by a failure, and the look at all that wait. It should cost the same with 1,000
// and 10,000.
func BenchmarkWaiting(b *testing.B) {
	failure := core.Input{Kind: core.ProbeAnswered, Probe: core.Liveness, Result: refused}
	success := core.Input{Kind: core.ProbeAnswered, Probe: core.Liveness, Result: prober.Result{Outcome: prober.Success}}
	for _, groups := range []string{"alone", "in pairs", "in one group"} {
		for _, n := range []int{1000, 10_000} {
			l, all := waitingLoop(b, n, groups)
			answer := func(e *entry, in core.Input) {
				e.state.Health.Probes[core.Liveness].Running = true
				l.step(e, &in)
				for l.guard.changed() {
					l.recheckWaiting(time.Now())
				}
			}
			of := fmt.Sprintf(" of %d %s", n, groups)
			b.Run("failure"+of, func(b *testing.B) {
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					answer(all[i%len(all)], failure)
				}
			})
			b.Run("recovery"+of, func(b *testing.B) {
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					answer(all[i%len(all)], success)
					answer(all[i%len(all)], failure)
				}
			})
			b.Run("look"+of, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					l.recheckAt = time.Time{}
					l.recheckWaiting(time.Now())
				}
			})
		}
	}
}

// waitingLoop returns a loop that does not run. It has n containers with a failed probe,
// of which nearly all wait.
func waitingLoop(b testing.TB, n int, groups string) (*loop, []*entry) {
	l, all := newStillLoop(b, n, func(c *Config) {
		c.Resolve = func(c runtime.Traits) (*core.Spec, error) {
			var number int
			_, err := fmt.Sscanf(c.Name, "c%d", &number)
			return slowReadySpec(core.Group{Name: map[string]string{"in pairs": fmt.Sprint(number / 2), "in one group": "web"}[groups]}), err
		}
		c.Guard = core.Guard{MaxRestarts: 10, Window: time.Hour}
	})
	for _, e := range all {
		e.state.Health.Probes[core.Liveness].Running = true
		l.step(e, &core.Input{Kind: core.ProbeAnswered, Probe: core.Liveness, Result: refused})
	}
	if n := l.guard.waiting; n < len(all)-10 {
		b.Fatalf("%d wait", n)
	}
	return l, all
}
