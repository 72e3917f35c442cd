package supervisor

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"healthd/prober"
	"healthd/runtime"
	"healthd/supervisor/core"
)

// walkSeeds take about twenty seconds with the race detector on a busy machine.
var walkSeeds = seeds{flag.Int("walk", 0, "the only seed that TestRandomWalk plays; 0: the first of them"), new(int), 60, 600}

// TestRandomWalk tells the loop anything in any order, also what no watcher would: lists and losses of the engine, runs and
// ends, reloads in the middle, containers that go and come back. TestChaos judges what healthd decides; this
// one finds out whether the loop's own books stay right, and whether it keeps anything of what is gone. A failure names its seed:
//
//	go test ./supervisor -run RandomWalk -args -walk=17
func TestRandomWalk(t *testing.T) {
	walkSeeds.play(t, func(t *testing.T, seed int) { walk(t, rand.New(rand.NewPCG(uint64(seed), 9))) })
}

var walkers = []string{"c1", "c2", "c3", "c4"}

// walker is one walk.
type walker struct {
	*harness
	*rand.Rand
	t *testing.T
}

func walk(t *testing.T, r *rand.Rand) {
	h := newHarnessWith(t, walkSpec(r), func(c *Config) {
		c.Guard = core.Guard{MaxRestarts: 3, Window: time.Minute}
		c.Shutdown = time.Minute
	})
	defer h.close()
	h.engine.stopTakes = time.Duration(r.IntN(4)) * time.Second
	w := &walker{h, r, t}
	if w.oneOf(2) {
		h.sendSynced()
	}
	for range 10 + r.IntN(60) {
		w.step(walkers[r.IntN(len(walkers))])
		if w.oneOf(4) {
			w.engineRestarts()
		}
		switch r.IntN(4) {
		case 0:
			w.wait(90 * time.Second)
		case 1:
			w.wait(3 * time.Second)
		}
		if w.oneOf(3) {
			w.checkBooks()
		}
	}
	w.checkBooks()
	w.allGone()
}

// walkSpec returns any spec.
func walkSpec(r *rand.Rand) *core.Spec {
	hook := func(command string) *prober.LifecycleHandler {
		if r.IntN(4) > 0 {
			return nil
		}
		return &prober.LifecycleHandler{Exec: &prober.Exec{Command: []string{command}}}
	}
	s := webSpec()
	s.Probes[core.Liveness] = tcpProbe(1, time.Duration(1+r.IntN(10))*time.Second, 1+r.IntN(2))
	if r.IntN(3) == 0 {
		s.Probes[core.Startup] = tcpProbe(3, 2*time.Second, 2)
	}
	s.RestartPolicy = []core.RestartPolicy{core.Always, core.Always, core.OnFailure, core.Never}[r.IntN(4)]
	s.Publish.Drain, s.Publish.Service = time.Duration(r.IntN(3))*time.Second, fmt.Sprint("s", r.IntN(3))
	if r.IntN(3) == 0 {
		s.Publish.WithdrawWithin, s.Publish.LeastDrain = 5*time.Second, s.Publish.Drain/2
	}
	if r.IntN(2) == 0 {
		s.Group = core.Group{Name: fmt.Sprint("g", r.IntN(2))}
	}
	s.Lifecycle.PostStart, s.Lifecycle.PreStop = hook("post_start"), hook("pre_stop")
	if r.IntN(5) == 0 {
		s.OnFailure = core.TellFailed
	}
	s.Observe = r.IntN(6) == 0
	return s
}

func (w *walker) oneOf(n int) bool { return w.IntN(n) == 0 }

func (w *walker) wait(most time.Duration) { time.Sleep(time.Duration(w.Int64N(int64(most)))) }

// container returns what the engine has of a container; nil: nothing.
func (w *walker) container(id string) *runtime.Container {
	c, _ := w.engine.Inspect(w.t.Context(), id)
	return c
}

func (w *walker) observe(id string) { w.engine.deliver(w.engine.observation(id)) }

func (w *walker) connected() {
	replay := []runtime.Replay{runtime.ReplayRestart, runtime.ReplayComplete, runtime.ReplayUnknown}[w.IntN(3)]
	w.engine.deliver(runtime.Update{Kind: runtime.Connected, Runtime: "docker", Replay: replay, EngineKills: w.oneOf(2)})
}

func (w *walker) synced() {
	u := runtime.Update{Kind: runtime.Synced, Runtime: "docker", Reason: runtime.RelistReconnect}
	for _, id := range walkers {
		if w.oneOf(8) {
			u.NotInspected = append(u.NotInspected, id)
		}
	}
	w.engine.deliver(u)
}

// step does one thing, most of which need a container.
func (w *walker) step(id string) {
	c := w.container(id)
	alive := c != nil && c.State.Alive()
	switch what := w.IntN(18); {
	case what == 0:
		w.event(runtime.Lost, "", 0)
	case what == 1:
		w.connected()
	case what == 2:
		w.synced()
	case what <= 5:
		w.anyReload()
	case what == 6:
		w.engine.deliver(runtime.Update{Kind: runtime.Removed, Runtime: "docker", ID: id, Unwanted: true})
	case what <= 8 && !alive:
		w.engine.beginRun(id)
		if !w.oneOf(3) {
			w.observe(id)
		}
	case c == nil:
	case what == 9 && alive:
		w.engine.exit(id, w.IntN(3))
	case what == 10 && alive:
		w.engine.endRun(id, w.IntN(3))
	case what == 11:
		w.observe(id)
	case what == 12 && w.oneOf(2):
		w.remove(id)
	case what == 13:
		w.event(runtime.Killed, id, []int{15, 9, 1}[w.IntN(3)])
	case what == 14:
		w.event(runtime.Died, id, 15)
	case what == 15:
		w.probes.setResult(fmt.Sprint(id, ":", 1+w.IntN(3)), []prober.Result{refused, {Outcome: prober.Success}}[w.IntN(2)])
	case what == 16:
		w.operator(id)
	case what == 17:
		w.change(id)
	}
}

// operator asks for something that may be refused, or load balancers tell something.
func (w *walker) operator(id string) {
	switch w.IntN(5) {
	case 0:
		_ = w.Hold(w.t.Context(), id, time.Now().Add(time.Minute))
	case 1:
		_ = w.Resume(w.t.Context(), id)
	case 2:
		_ = w.Restart(w.t.Context(), id)
	case 3:
		_ = w.Withdrawn(w.t.Context(), w.runOf(id))
	case 4:
		_ = w.Drained(w.t.Context(), w.runOf(id))
	}
}

func (w *walker) runOf(id string) runtime.Run {
	if v := w.board.ByID(id); v != nil {
		return v.State.Run.ID
	}
	return runtime.Run{}
}

// change gives a container other labels and another address.
func (w *walker) change(id string) {
	w.engine.mu.Lock()
	c := *w.engine.containers[id]
	c.Labels, c.Address = map[string]string{"x": fmt.Sprint(w.IntN(9))}, fmt.Sprint("127.0.0.", 1+w.IntN(3))
	w.engine.containers[id] = &c
	w.engine.mu.Unlock()
	w.observe(id)
}

// anyReload gives each container any spec, none, or labels that are wrong.
func (w *walker) anyReload() {
	usual := walkSpec(w.Rand)
	if w.oneOf(4) {
		usual = nil
	}
	specs, wrong := map[string]*core.Spec{}, map[string]bool{}
	for _, id := range walkers {
		switch w.IntN(6) {
		case 0:
			specs["n-"+id] = nil
		case 1:
			specs["n-"+id] = walkSpec(w.Rand)
		case 2:
			wrong["n-"+id] = true
		}
	}
	err := w.Reload(w.t.Context(), func(c runtime.Traits) (*core.Spec, error) {
		if wrong[c.Name] {
			return nil, errors.New("wrong labels")
		}
		if s, ok := specs[c.Name]; ok {
			return s, nil
		}
		return usual, nil
	}, core.Guard{MaxRestarts: w.IntN(3), Window: time.Minute})
	if err != nil {
		w.t.Error(err)
	}
}

// engineRestarts ends some containers with the engine. What is told of them then may lack some, and a reload may come in between.
func (w *walker) engineRestarts() {
	w.event(runtime.Lost, "", 0)
	for _, id := range walkers {
		if c := w.container(id); c != nil && c.State.Alive() && !w.oneOf(3) {
			w.engine.endRun(id, w.IntN(2))
		}
	}
	w.wait(10 * time.Minute)
	if w.oneOf(3) {
		w.anyReload()
	}
	w.connected()
	for _, id := range walkers {
		if c := w.container(id); c != nil && !w.oneOf(5) {
			u := w.engine.observation(id)
			if w.oneOf(3) {
				of := runtime.RunHint{Run: c.Run()}
				u.Causes = []runtime.Update{
					{Kind: runtime.Killed, Runtime: "docker", ID: id, Signal: 15, Time: time.Now(), Of: of},
					{Kind: runtime.Stopped, Runtime: "docker", ID: id, Time: time.Now(), Of: of},
				}
			}
			w.engine.deliver(u)
		}
	}
	if w.oneOf(2) {
		w.anyReload()
	}
	w.synced()
}

// checkBooks compares what the loop counts with a walk over all containers.
func (w *walker) checkBooks() {
	w.t.Helper()
	synctest.Wait()
	w.inspect(func(l *loop) {
		if got, want := l.board.Counts(), walked(l.board); got != want {
			w.t.Errorf("counts %+v, want %+v", got, want)
		}
		unsettled := 0
		for id, e := range l.entries {
			if e.unsettled == e.state.Settled() {
				w.t.Errorf("%s is unsettled: %v", id, e.unsettled)
			}
			if e.unsettled {
				unsettled++
			}
			for i := range e.state.Health.Probes {
				if e.spec != nil && e.state.Health.Probes[i].Running && e.cancelProbes[i] == nil {
					w.t.Errorf("%s: a probe %v is Running, and nobody asks", id, core.ProbeType(i))
				}
			}
		}
		if unsettled != l.unsettled {
			w.t.Errorf("%d are unsettled, %d are counted", unsettled, l.unsettled)
		}
	})
}

// allGone removes all containers: nothing of them may be left.
func (w *walker) allGone() {
	for _, id := range walkers {
		w.engine.delete(id)
		w.reportRemoved(id)
	}
	w.engine.deliver(runtime.Update{Kind: runtime.Synced, Runtime: "docker", Reason: runtime.RelistReconnect})
	pass(2 * time.Minute)
	w.inspect(func(l *loop) {
		for what, n := range map[string]int{
			"entries": len(l.entries), "due": len(l.queue.entries), "unsettled": l.unsettled, "groups": len(l.guard.groups),
			"waiting for the guard": l.guard.waiting, "dropped": len(l.dropped), "services": len(l.board.services.members),
			"open probes": len(w.probes.openProbes()),
		} {
			if n > 0 {
				w.t.Errorf("left: %d %s", n, what)
			}
		}
		if c := l.board.Counts(); c != (Counts{}) {
			w.t.Errorf("counts %+v", c)
		}
		for id := range l.board.byID.all {
			w.t.Errorf("%s is on the board", id)
		}
		for service := range l.board.latencies.byService.all {
			w.t.Errorf("latencies of %v are kept", service)
		}
	})
}

// inspect looks at the loop when it has handled all messages so far.
func (w *walker) inspect(look func(*loop)) {
	w.t.Helper()
	done := make(chan struct{})
	if err := w.send(w.t.Context(), inspectLoop(func(l *loop) { defer close(done); look(l) })); err != nil {
		w.t.Fatal(err)
	}
	<-done
}
