package supervisor

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"healthd/prober"
	"healthd/runtime"
	"healthd/supervisor/core"
)

var everyProbe = []core.ProbeType{core.Startup, core.Liveness, core.Readiness}

// countingProber counts the probes that are under way.
type countingProber struct {
	*fakeProber
	underWay atomic.Int32
}

func (c *countingProber) Probe(h prober.Handler, t prober.Target) (prober.Probe, error) {
	p, err := c.fakeProber.Probe(h, t)
	return countingProbe{p, &c.underWay}, err
}

type countingProbe struct {
	prober.Probe
	underWay *atomic.Int32
}

func (p countingProbe) Ask(ctx context.Context, timeout time.Duration) prober.Result {
	p.underWay.Add(1)
	defer p.underWay.Add(-1)
	return p.Probe.Ask(ctx, timeout)
}

// newCountingHarness is a harness with a countingProber.
func newCountingHarness(t *testing.T, spec *core.Spec) (*harness, *countingProber) {
	t.Helper()
	h := newHarness(t, spec)
	c := &countingProber{fakeProber: h.probes}
	h.config.Prober = c
	h.sendSynced()
	return h, c
}

// armedProbes returns the probes that are due or under way: "c1 liveness".
func armedProbes(t *testing.T, h *harness) []string {
	t.Helper()
	synctest.Wait()
	var all []string
	for _, v := range h.Board().Views() {
		for probe, y := range v.State.Health.Probes {
			if !y.Due.IsZero() || y.Running {
				all = append(all, v.Container.ID+" "+core.ProbeType(probe).String())
			}
		}
	}
	return all
}

// loopSize returns how many entries the loop has, and how many of them are in its queue.
func loopSize(t *testing.T, h *harness) (entries, waiting int) {
	t.Helper()
	done := make(chan struct{})
	look := inspectLoop(func(l *loop) {
		entries, waiting = len(l.entries), l.queue.Len()
		close(done)
	})
	if err := h.send(t.Context(), look); err != nil {
		t.Fatal(err)
	}
	<-done
	return entries, waiting
}

// The removal of a container, however often it is reported, ends its probes and drops
// their results.
func TestRemovalEndsProbes(t *testing.T) {
	for _, probe := range everyProbe {
		for name, hangs := range map[string]bool{"between two probes": false, "under way": true} {
			t.Run(probe.String()+" "+name, func(t *testing.T) {
				t.Attr("kubelet", "133")
				synctest.Test(t, func(t *testing.T) {
					h, probes := newCountingHarness(t, probesSpec(time.Second, probe))
					defer h.close()
					key := fmt.Sprintf("c1:%d", probe+1)
					h.probes.hanging[key] = hangs && probe == core.Startup // a startup probe ends with its first success
					h.engine.run("c1")
					synctest.Wait()
					if y := h.view("c1").State.Health.Probes[probe]; (y.Result == prober.Success) == (hangs && probe == core.Startup) {
						t.Fatalf("at first: %+v", y)
					}
					h.probes.mu.Lock()
					h.probes.hanging[key] = hangs
					h.probes.mu.Unlock()
					pass(1500 * time.Millisecond)
					if n := probes.underWay.Load(); (n == 1) != hangs {
						t.Fatalf("%d probes are under way", n)
					}
					asked := h.probes.timesAsked(key)
					for range 10 {
						h.reportRemoved("c1")
					}
					synctest.Wait()
					if n := probes.underWay.Load(); n != 0 {
						t.Errorf("%d probes are under way after the removal", n)
					}
					time.Sleep(time.Minute)
					if entries, waiting := loopSize(t, h); entries != 0 || waiting != 0 || h.probes.timesAsked(key) != asked {
						t.Errorf("%d containers, %d wait; probed %d times, then %d", entries, waiting, asked, h.probes.timesAsked(key))
					}
					if v, err := h.Board().Find("c1"); err == nil {
						t.Errorf("still on the board: %+v", v)
					}
				})
			})
		}
	}
}

// delayedSpec has probes that first run after an hour.
func delayedSpec(probes ...core.ProbeType) *core.Spec {
	spec := probesSpec(time.Second, probes...)
	for _, probe := range probes {
		spec.Probes[probe].InitialDelay = time.Hour
	}
	return spec
}

func TestContainerWithoutProbes(t *testing.T) {
	t.Attr("kubelet", "148")
	synctest.Test(t, func(t *testing.T) {
		h, _ := newCountingHarness(t, memberSpec(core.Always))
		defer h.close()
		h.engine.run("c1")
		time.Sleep(time.Hour)
		if got := armedProbes(t, h); len(got) != 0 {
			t.Errorf("armed: %q", got)
		}
		if entries, waiting := loopSize(t, h); entries != 1 || waiting != 0 || len(h.probes.asked) != 0 {
			t.Errorf("%d containers, %d wait, probed %v", entries, waiting, h.probes.asked)
		}
	})
}

func TestThreeOfSixContainersHaveProbes(t *testing.T) {
	t.Attr("kubelet", "149")
	synctest.Test(t, func(t *testing.T) {
		h, _ := newCountingHarness(t, nil)
		defer h.close()
		startMembers(h, map[string]*core.Spec{
			"a": delayedSpec(core.Readiness), "b": memberSpec(core.Always), "c": delayedSpec(core.Liveness),
			"d": memberSpec(core.Always), "e": delayedSpec(core.Startup), "f": memberSpec(core.Always),
		})
		if got, want := armedProbes(t, h), []string{"a readiness", "c liveness", "e startup"}; !slices.Equal(got, want) {
			t.Errorf("armed: %q, want %q", got, want)
		}
		if entries, waiting := loopSize(t, h); entries != 6 || waiting != 3 {
			t.Errorf("%d containers, of which %d wait; want 6 and 3", entries, waiting)
		}
		pass(time.Hour)
		for _, key := range []string{"a:3", "c:2", "e:1"} {
			if n := h.probes.timesAsked(key); n != 1 {
				t.Errorf("%s ran %d times", key, n)
			}
		}
		if n := len(h.probes.addresses); n != 3 {
			t.Errorf("%d probes were built: %v", n, h.probes.addresses)
		}
	})
}

func TestRemovalConcernsOneContainer(t *testing.T) {
	for _, tt := range []struct {
		name    string
		removed []string
		want    []string // what is still armed
		left    int
	}{
		{"without probes", []string{"plain"}, []string{"web liveness", "web readiness"}, 1},
		{"with probes", []string{"web"}, nil, 1},
		{"with probes, twice", []string{"web", "web"}, nil, 1},
		{"all, and again", []string{"plain", "web", "plain", "web"}, nil, 0},
		{"an unknown one", []string{"nobody"}, []string{"web liveness", "web readiness"}, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Attr("kubelet", "150")
			synctest.Test(t, func(t *testing.T) {
				h, _ := newCountingHarness(t, nil)
				defer h.close()
				startMembers(h, map[string]*core.Spec{"plain": memberSpec(core.Always), "web": delayedSpec(core.Liveness, core.Readiness)})
				before := h.view("web").State
				for _, id := range tt.removed {
					h.reportRemoved(id)
				}
				if got := armedProbes(t, h); !slices.Equal(got, tt.want) {
					t.Errorf("armed: %q, want %q", got, tt.want)
				}
				if entries, waiting := loopSize(t, h); entries != tt.left || waiting != min(1, len(tt.want)) {
					t.Errorf("%d containers, %d wait; want %d", entries, waiting, tt.left)
				}
				if len(tt.want) > 0 && h.view("web").State.Health.Probes != before.Health.Probes {
					t.Error("the probes of the other container were touched")
				}
			})
		})
	}
}

// healthd runs all probes of a container, or none when it does not supervise it.
func TestUnsupervisedContainerIsNotProbed(t *testing.T) {
	for _, tt := range []struct {
		name  string
		spec  *core.Spec
		asked int
	}{
		{"not supervised", nil, 0},
		{"supervised", probesSpec(time.Second, everyProbe...), 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Attr("kubelet", "151")
			synctest.Test(t, func(t *testing.T) {
				h, _ := newCountingHarness(t, tt.spec)
				defer h.close()
				h.engine.run("c1")
				synctest.Wait()
				for _, probe := range everyProbe {
					if n := h.probes.timesAsked(fmt.Sprintf("c1:%d", probe+1)); n != tt.asked {
						t.Errorf("%s ran %d times, want %d", probe, n, tt.asked)
					}
				}
				if entries, waiting := loopSize(t, h); entries != tt.asked || waiting != tt.asked || len(h.Board().Views()) != tt.asked {
					t.Errorf("%d containers, %d wait, on the board %d; want %d", entries, waiting, len(h.Board().Views()), tt.asked)
				}
				h.reportRemoved("c1")
				if entries, waiting := loopSize(t, h); entries != 0 || waiting != 0 || len(h.Board().Views()) != 0 {
					t.Errorf("after the removal: %d containers, %d wait", entries, waiting)
				}
			})
		})
	}
}

func TestProbesOfOthersGoOn(t *testing.T) {
	t.Attr("kubelet", "152")
	synctest.Test(t, func(t *testing.T) {
		h, _ := newCountingHarness(t, probesSpec(time.Second, everyProbe...))
		defer h.close()
		h.engine.run("unwanted")
		h.engine.run("wanted")
		time.Sleep(2500 * time.Millisecond)
		h.reportRemoved("unwanted")
		if got, want := armedProbes(t, h), []string{"wanted liveness", "wanted readiness"}; !slices.Equal(got, want) {
			t.Errorf("armed: %q, want %q", got, want)
		}
		pass(3 * time.Second)
		for key, want := range map[string]int{
			"unwanted:1": 1, "unwanted:2": 3, "unwanted:3": 3, "wanted:1": 1, "wanted:2": 6, "wanted:3": 6,
		} {
			if n := h.probes.timesAsked(key); n != want {
				t.Errorf("%s ran %d times, want %d", key, n, want)
			}
		}
		if s := h.view("wanted").State; !s.Conditions.Ready.Status || !s.Conditions.Started.Status || s.RestartCount() != 0 {
			t.Errorf("the other container: %+v", s)
		}
	})
}

// Many goroutines report the removal of all containers while these end and are probed.
func TestAllRemovedAtOnce(t *testing.T) {
	t.Attr("kubelet", "153")
	synctest.Test(t, func(t *testing.T) {
		const containers = 100
		h, probes := newCountingHarness(t, probesSpec(time.Second, everyProbe...))
		defer h.close()
		id := func(i int) string { return fmt.Sprintf("c%d", i) }
		for i := range containers {
			h.probes.mu.Lock()
			h.probes.hanging[fmt.Sprintf("%s:%d", id(i), 1+i%core.NumProbes)] = i%2 == 0
			h.probes.mu.Unlock()
			h.engine.run(id(i))
		}
		time.Sleep(1500 * time.Millisecond)
		if entries, _ := loopSize(t, h); entries != containers || probes.underWay.Load() != containers/2 {
			t.Fatalf("%d containers, %d probes under way", entries, probes.underWay.Load())
		}
		var all sync.WaitGroup
		for g := range 10 {
			all.Go(func() {
				for i := range containers {
					if i%10 == g {
						h.engine.endRun(id(i), 1)
						h.engine.deliver(runtime.Update{Kind: runtime.Died, Runtime: "docker", ID: id(i), ExitCode: 1, Time: time.Now()})
					}
					h.reportRemoved(id(i))
				}
			})
		}
		all.Wait()
		synctest.Wait()
		if entries, waiting := loopSize(t, h); entries != 0 || waiting != 0 || probes.underWay.Load() != 0 || len(h.Board().Views()) != 0 {
			t.Errorf("left: %d containers, %d wait, %d probes under way", entries, waiting, probes.underWay.Load())
		}
	})
}
