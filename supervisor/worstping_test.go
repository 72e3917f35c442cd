package supervisor

import (
	"context"
	"errors"
	"fmt"
	goruntime "runtime"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"healthd/prober"
	"healthd/runtime"
	"healthd/supervisor/core"
)

// switchedProber answers all probes at once, and as it is set.
type switchedProber struct{ fails atomic.Bool }

func (p *switchedProber) Probe(prober.Handler, prober.Target) (prober.Probe, error) { return p, nil }

func (p *switchedProber) Hook(prober.LifecycleHandler, prober.Target) (prober.Hook, error) {
	return nil, errors.New("there are no hooks")
}

func (p *switchedProber) Close() {}

func (p *switchedProber) Ask(context.Context, time.Duration) prober.Result {
	if p.fails.Load() {
		return refused
	}
	return prober.Result{Outcome: prober.Success}
}

// BenchmarkWorstPing measures how long the loop keeps a message waiting at most in each
// phase of the life of 10,000 containers: each alone, in pairs, and all in one group.
// systemd's watchdog needs such a message.
func BenchmarkWorstPing(b *testing.B) {
	for _, groups := range []int{10_000, 5000, 1} {
		b.Run(fmt.Sprintf("groups of %d", 10_000/groups), func(b *testing.B) {
			for b.Loop() {
				newCrowd(b, groups).playPhases()
			}
		})
	}
}

// crowd is a harness with 10,000 containers.
type crowd struct {
	*harness
	b      *testing.B
	probes *switchedProber
	groups int
	thread int // on which the loop runs
}

const (
	crowdSize   = 10_000
	crowdPeriod = time.Second
)

func newCrowd(b *testing.B, groups int) *crowd {
	c := &crowd{b: b, groups: groups, probes: &switchedProber{}}
	c.harness = newHarnessWith(b, nil, func(config *Config) {
		config.Prober, config.Guard = c.probes, core.Guard{MaxRestarts: 10, Window: time.Minute}
		config.Resolve = c.resolver(1)
	})
	thread := make(chan int)
	_ = c.send(context.Background(), inspectLoop(func(*loop) {
		goruntime.LockOSThread()
		thread <- unix.Gettid()
	}))
	c.thread = <-thread
	return c
}

// resolver gives each container a spec of its own. Another failure threshold makes it
// another spec.
func (c *crowd) resolver(threshold int) Resolver {
	return func(t runtime.Traits) (*core.Spec, error) {
		var number int
		if _, err := fmt.Sscanf(t.Name, "n-c%d", &number); err != nil {
			return nil, err
		}
		return &core.Spec{
			RestartPolicy: core.Always, Group: core.Group{Name: fmt.Sprint(number % c.groups)},
			Backoff: core.Backoff{Initial: time.Second, Max: time.Minute, ResetAfter: time.Hour},
			Probes:  [core.NumProbes]*core.ProbeSpec{core.Liveness: tcpProbe(1, crowdPeriod, threshold)},
		}, nil
	}
}

func (c *crowd) playPhases() {
	c.phase("start", func() {
		for i := range crowdSize {
			c.engine.tellRun(fmt.Sprintf("c%d", i))
		}
		c.sendSynced()
	})
	c.phase("all-fail", func() { c.probes.fails.Store(true) })
	c.phase("recover", func() { c.probes.fails.Store(false) })
	c.phase("lost", func() { c.event(runtime.Lost, "", 0) })
	c.phase("back", func() {
		c.engine.deliver(runtime.Update{Kind: runtime.Connected, Runtime: "docker", Replay: runtime.ReplayRestart})
		c.sendSynced()
	})
	c.phase("reload", func() {
		if err := c.Reload(context.Background(), c.resolver(2), core.Guard{MaxRestarts: 5, Window: time.Minute}); err != nil {
			c.b.Error(err)
		}
	})
	c.engine.stopTakes = crowdPeriod // healthd finishes some restarts before it ends
	for i := range 100 {
		if err := c.Restart(context.Background(), fmt.Sprintf("c%d", i)); err != nil {
			c.b.Error(err)
		}
	}
	c.phase("shutdown", c.stop)
	if err := <-c.finished; err != nil {
		c.b.Error(err)
	}
}

// phase reports the longest Ping from the beginning of do until some time after its end.
// "busy" counts only the time for which the loop had a processor: the rest belongs to the
// scheduler, and to whatever else the machine does.
func (c *crowd) phase(name string, do func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		do()
	}()
	var worst, worstBusy time.Duration
	for end := time.Now().Add(2 * crowdPeriod); time.Now().Before(end); time.Sleep(time.Millisecond) {
		wait, busy, err := c.timedPing()
		worst, worstBusy = max(worst, wait), max(worstBusy, busy)
		if errors.Is(err, ErrStopping) {
			break
		}
		if err != nil {
			c.b.Fatal(err)
		}
	}
	<-done
	c.b.ReportMetric(float64(worst.Microseconds())/1000, name+"-ms")
	c.b.ReportMetric(float64(worstBusy.Microseconds())/1000, name+"-busy-ms")
}

// timedPing is a Ping that also returns for how long the loop had a processor meanwhile.
func (c *crowd) timedPing() (wait, busy time.Duration, err error) {
	began := time.Now()
	busyBefore, alive := threadTime(c.thread)
	if !alive {
		return 0, 0, ErrStopping
	}
	busyAfter := make(chan time.Duration, 1)
	err = c.send(context.Background(), inspectLoop(func(*loop) {
		d, _ := threadTime(c.thread)
		busyAfter <- d
	}))
	if err != nil {
		return 0, 0, err
	}
	select {
	case busy := <-busyAfter:
		return time.Since(began), busy - busyBefore, nil
	case <-c.ended:
		return 0, 0, ErrStopping
	}
}

// threadTime returns how long a thread of this process has run, and false when it has ended.
func threadTime(thread int) (time.Duration, bool) {
	const schedPerThread = 6 // linux: CPUCLOCK_SCHED | CPUCLOCK_PERTHREAD_MASK
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^thread<<3|schedPerThread), &t); err != nil {
		return 0, false
	}
	return time.Duration(t.Nano()), true
}
