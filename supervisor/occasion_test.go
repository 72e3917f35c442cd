package supervisor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"healthd/prober"
	"healthd/runtime"
	"healthd/supervisor/core"
)

// fakeRecorder notes occasions, and takes its time.
type fakeRecorder struct {
	takes  time.Duration // regardless of ctx; 0: until ctx ends
	mu     sync.Mutex
	told   []*Occasion
	at     []time.Time
	onCall func(*Occasion)
}

func (r *fakeRecorder) Record(ctx context.Context, o *Occasion) {
	r.mu.Lock()
	r.told, r.at = append(r.told, o), append(r.at, time.Now())
	r.mu.Unlock()
	if r.onCall != nil {
		r.onCall(o)
	}
	if r.takes == 0 {
		<-ctx.Done()
		return
	}
	time.Sleep(r.takes)
}

// occasions returns them as "ID cause exit code".
func (r *fakeRecorder) occasions() (all []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, o := range r.told {
		all = append(all, fmt.Sprintf("%s %v %d", o.Run.ID, o.Cause, o.Exit.Code))
	}
	return all
}

// recordedSpec has a liveness probe that fails at once, and no drain.
func recordedSpec() *core.Spec {
	s := webSpec()
	s.Probes = [core.NumProbes]*core.ProbeSpec{core.Liveness: tcpProbe(1, time.Second, 1)}
	s.Publish.Drain = 0
	return s
}

func withRecorder(t *testing.T, r *fakeRecorder, spec *core.Spec) *harness {
	return newHarnessWith(t, spec, func(c *Config) { c.Recorder = r })
}

// stopTimes has the engine note when it is asked to stop each container.
func (h *harness) stopTimes() func() map[string]time.Time {
	var mu sync.Mutex
	at := map[string]time.Time{}
	h.engine.onStopOf = func(id string) {
		mu.Lock()
		defer mu.Unlock()
		at[id] = time.Now()
	}
	return func() map[string]time.Time {
		mu.Lock()
		defer mu.Unlock()
		return maps.Clone(at)
	}
}

// A stop waits for the record, for Limit at most, whatever the recorder does.
func TestStopWaitsForItsRecord(t *testing.T) {
	for _, tt := range []struct {
		name           string
		takes, timeout time.Duration
		want           time.Duration
	}{
		{"a quick record", 300 * time.Millisecond, 0, 300 * time.Millisecond},
		{"one that takes as long as it may", 0, 0, 2 * time.Second},
		{"one that hangs", time.Hour, 0, 2 * time.Second},
		{"a command that may take long", time.Hour, 5 * time.Second, 5 * time.Second},
		{"a command that may take a moment", time.Hour, time.Second, 2 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, spec := &fakeRecorder{takes: tt.takes}, recordedSpec()
				spec.Recorder.Timeout = tt.timeout
				h := withRecorder(t, r, spec)
				defer h.close()
				stopped := h.stopTimes()
				r.onCall = func(*Occasion) { h.probes.setResult("c1:1", prober.Result{Outcome: prober.Success}) }
				h.engine.run("c1")
				h.sendSynced()
				synctest.Wait()
				h.probes.setResult("c1:1", refused)
				pass(10 * time.Second)
				if len(r.at) == 0 {
					t.Fatal("no record")
				}
				if got := stopped()["c1"].Sub(r.at[0]); got != tt.want {
					t.Errorf("the stop came after %v, want %v", got, tt.want)
				}
				o := r.told[0]
				if o.Cause != core.ByLiveness || o.Run.ID != "c1" || o.Name != "n-c1" || o.View.State.Action.Stopping != core.ByLiveness || !o.Exit.FinishedAt.IsZero() {
					t.Errorf("got %+v", o)
				}
				recent := o.Recent[core.Liveness]
				if n := len(recent); n == 0 || recent[n-1].Outcome != prober.Failure || recent[n-1].Output != refused.Output || !recent[n-1].At.Equal(r.at[0]) {
					t.Errorf("got the results %+v; want the failure at last", recent)
				}
			})
		})
	}
}

// A recorder that hangs on one container delays no probe, stop or start of another one.
func TestRecordDelaysNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &fakeRecorder{takes: time.Hour}
		h := withRecorder(t, r, recordedSpec())
		defer h.close()
		stopped := h.stopTimes()
		for _, id := range []string{"c1", "c2"} {
			h.engine.run(id)
		}
		h.sendSynced()
		synctest.Wait()
		h.probes.setResult("c1:1", refused)
		pass(1500 * time.Millisecond)
		before := h.probes.timesAsked("c2:1")
		if err := h.Restart(t.Context(), "n-c2"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if len(r.occasions()) != 1 || !stopped()["c1"].IsZero() || stopped()["c2"].IsZero() || before == 0 {
			t.Errorf("occasions %v, stopped %v, probed %d times", r.occasions(), stopped(), before)
		}
		time.Sleep(2 * time.Second)
	})
}

func TestOccasions(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*core.Spec)
		do     func(t *testing.T, h *harness)
		want   []string
	}{
		{"a failed probe", nil, func(t *testing.T, h *harness) { h.probes.setResult("c1:1", refused) }, []string{"c1 liveness 0"}},
		{"a crash", nil, func(t *testing.T, h *harness) { h.engine.exit("c1", 3) }, []string{"c1 exit 3"}},
		{"each crash", nil, func(t *testing.T, h *harness) {
			h.engine.exit("c1", 3)
			synctest.Wait()
			h.engine.exit("c1", 4)
		}, []string{"c1 exit 3", "c1 exit 4"}},
		{"an end that is no failure", nil, func(t *testing.T, h *harness) { h.engine.exit("c1", 0) }, nil},
		{"an operator's request", nil, func(t *testing.T, h *harness) {
			if err := h.Restart(t.Context(), "n-c1"); err != nil {
				t.Error(err)
			}
		}, nil},
		{"an operator's stop", nil, func(t *testing.T, h *harness) {
			h.event(runtime.Killed, "c1", 15)
			h.exitOnTerm("c1")
		}, nil},
		{"a container that is only observed", func(s *core.Spec) { s.Observe = true }, func(t *testing.T, h *harness) { h.probes.setResult("c1:1", refused) }, nil},
		{"its end while it is recorded", nil, func(t *testing.T, h *harness) {
			h.probes.setResult("c1:1", refused)
			time.Sleep(1500 * time.Millisecond)
			h.engine.exit("c1", 3)
		}, []string{"c1 liveness 0"}},
		{"a stop that is tried again", nil, func(t *testing.T, h *harness) {
			h.engine.survives = 1
			h.probes.setResult("c1:1", refused)
		}, []string{"c1 liveness 0"}},
		{"a crash whose end only an event tells", nil, func(t *testing.T, h *harness) {
			h.event(runtime.Died, "c1", 11)
			h.engine.endRun("c1", 139)
			h.engine.run("c1")
		}, []string{"c1 exit 139"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, spec := &fakeRecorder{}, recordedSpec()
				if tt.change != nil {
					tt.change(spec)
				}
				h := withRecorder(t, r, spec)
				defer h.close()
				// Only the first failure counts.
				r.onCall = func(*Occasion) { h.probes.setResult("c1:1", prober.Result{Outcome: prober.Success}) }
				h.engine.run("c1")
				h.sendSynced()
				synctest.Wait()
				time.Sleep(500 * time.Millisecond)
				tt.do(t, h)
				pass(20 * time.Second)
				if got := r.occasions(); !slices.Equal(got, tt.want) {
					t.Errorf("got %q, want %q", got, tt.want)
				}
				h.probes.setResult("c1:1", prober.Result{Outcome: prober.Success})
				time.Sleep(time.Minute)
			})
		})
	}
}

// A shutdown waits for no record longer than the stop would.
func TestShutdownDuringARecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &fakeRecorder{}
		h := withRecorder(t, r, recordedSpec())
		h.engine.run("c1")
		h.sendSynced()
		synctest.Wait()
		h.probes.setResult("c1:1", refused)
		pass(1500 * time.Millisecond)
		began := time.Now()
		h.close()
		if took := time.Since(began); took > 3*time.Second || !slices.Contains(h.engine.calls(), "stop c1 30s") {
			t.Errorf("it took %v, calls %v", took, h.engine.calls())
		}
	})
}

func TestBoardHasRecentResults(t *testing.T) {
	playWith(t, recordedSpec(), nil, func(h *harness) {
		h.engine.run("c1")
		h.sendSynced()
		pass(3500 * time.Millisecond)
		all := h.Board().Recent("c1")
		if got := told(all[core.Liveness]); got != "s s s" || len(all[core.Readiness]) != 0 {
			h.t.Errorf("got %q and %v", got, all[core.Readiness])
		}
		if got := h.Board().Recent("c2"); len(got[core.Liveness]) != 0 {
			h.t.Errorf("of nobody: %v", got)
		}
	})
}
