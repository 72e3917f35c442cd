package supervisor

import (
	"context"
	"errors"
	"fmt"
	goruntime "runtime"
	"sync"
	"sync/atomic"
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

// BenchmarkWaiting measures what one message costs while many containers wait for the
// budget of the host, or for their group: one more failure of one that waits, a recovery
// followed by a failure, and the look at all that wait. It should cost the same with 1,000
// and 10,000.
func BenchmarkWaiting(b *testing.B) {
	failure := core.Input{Kind: core.ProbeAnswered, Probe: core.Liveness, Result: refused}
	success := core.Input{Kind: core.ProbeAnswered, Probe: core.Liveness, Result: prober.Result{Outcome: prober.Success}}
	for _, group := range []string{"", "web"} {
		for _, n := range []int{1000, 10_000} {
			l, all := waitingLoop(b, n, group)
			answer := func(e *entry, in core.Input) {
				e.state.Health.Probes[core.Liveness].Running = true
				l.step(e, &in)
				for l.guard.changed() {
					l.recheckWaiting(time.Now())
				}
			}
			of := fmt.Sprintf(" of %d, group %q", n, group)
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
func waitingLoop(b testing.TB, n int, group string) (*loop, []*entry) {
	spec := slowReadySpec(core.Group{Name: group})
	probes := newFakeProber()
	for i := range n {
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
	for i := range n {
		id := fmt.Sprintf("c%d", i)
		l.observed(update{Runtime: "docker", Container: &runtime.Container{ID: id, Name: id, Runtime: "docker", State: runtime.Running, StartedAt: time.Now(), StopTimeout: -1}})
		all = append(all, l.entries[id])
	}
	for _, e := range all {
		e.state.Health.Probes[core.Liveness].Running = true
		l.step(e, &core.Input{Kind: core.ProbeAnswered, Probe: core.Liveness, Result: refused})
	}
	if n := l.guard.waiting; n < len(all)-10 {
		b.Fatalf("%d wait", n)
	}
	return l, all
}

// switchedProber answers all probes at once, and as it is set.
type switchedProber struct{ fails atomic.Bool }

func (p *switchedProber) Probe(prober.Handler, prober.Target) (prober.Probe, error) { return p, nil }

func (p *switchedProber) Hook(prober.LifecycleHandler, prober.Target) (prober.Hook, error) {
	return nil, errors.New("there are no hooks")
}

func (p *switchedProber) Ask(context.Context, time.Duration) prober.Result {
	if p.fails.Load() {
		return refused
	}
	return prober.Result{Outcome: prober.Success}
}

// BenchmarkWorstPing measures how long the loop keeps a message waiting at most, with 10,000
// containers that start, all fail, and all recover. systemd's watchdog needs such a message.
func BenchmarkWorstPing(b *testing.B) {
	const containers, period = 10_000, 2 * time.Second
	for _, group := range []string{"", "web"} {
		b.Run(fmt.Sprintf("group %q", group), func(b *testing.B) {
			for b.Loop() {
				probes := &switchedProber{}
				spec := &core.Spec{
					RestartPolicy: core.Always, Group: core.Group{Name: group}, Backoff: core.Backoff{Initial: time.Second, Max: time.Minute, ResetAfter: time.Hour},
					Probes: [core.NumProbes]*core.ProbeSpec{core.Liveness: tcpProbe(1, period, 1)},
				}
				h := newHarnessWith(b, spec, func(c *Config) {
					c.Prober, c.Guard = probes, core.Guard{MaxRestarts: 10, Window: time.Minute}
				})
				worst := func(phase string) {
					var most time.Duration
					for end := time.Now().Add(2 * period); time.Now().Before(end); time.Sleep(time.Millisecond) {
						began := time.Now()
						if err := h.Ping(context.Background()); err != nil {
							b.Fatal(err)
						}
						most = max(most, time.Since(began))
					}
					b.ReportMetric(float64(most.Microseconds())/1000, phase+"-ms")
				}
				for i := range containers {
					h.engine.run(fmt.Sprintf("c%d", i))
				}
				h.sendSynced()
				worst("start")
				probes.fails.Store(true)
				worst("all-fail")
				probes.fails.Store(false)
				worst("recover")
				h.close(b)
			}
		})
	}
}
