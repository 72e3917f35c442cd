package supervisor

import (
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"healthd/runtime"
	"healthd/supervisor/core"
)

// slowStore is a Store whose writes take time.
type slowStore struct {
	writeTime time.Duration // negative: for ever

	mu     sync.Mutex
	stored []*core.Memory
	seen   []time.Time
}

func (s *slowStore) Remember(m *core.Memory) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stored = append(s.stored, m)
	done := make(chan struct{})
	switch {
	case s.writeTime > 0:
		time.AfterFunc(s.writeTime, func() { close(done) })
	case s.writeTime == 0:
		close(done)
	}
	return done
}

func (s *slowStore) Forget(string) {}

func (s *slowStore) SetSeen(_ string, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = append(s.seen, at)
}

func (s *slowStore) newest() *core.Memory {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stored[len(s.stored)-1]
}

func (s *slowStore) hasStored(like func(*core.Memory) bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.stored, like)
}

// A call to the engine waits until the Store has written the decision, but not for ever.
func TestCallsWaitForTheStore(t *testing.T) {
	for takes, want := range map[time.Duration]time.Duration{0: 0, 500 * time.Millisecond: 500 * time.Millisecond, time.Minute: 2 * time.Second, -1: 2 * time.Second} {
		store := &slowStore{writeTime: takes}
		playWith(t, plainSpec(core.Always), func(c *Config) { c.Store = store }, func(h *harness) {
			h.engine.called = make(chan string, 10)
			h.sendSynced()
			h.engine.run("a")
			synctest.Wait()
			began := time.Now()
			h.must(h.Restart(h.t.Context(), "a"))
			<-h.engine.called
			stopped := time.Now()
			if !store.hasStored(func(m *core.Memory) bool {
				return m.Action.Stopping == core.ByOperator && m.Engine.State.Alive() && m.Action.StopCalls == 1
			}) {
				h.t.Error("the stop was not kept before it was made")
			}
			if got := stopped.Sub(began); got != want {
				h.t.Errorf("writes take %v: stopped after %v, want %v", takes, got, want)
			}
			<-h.engine.called
			if got := time.Since(stopped); got > want {
				h.t.Errorf("writes take %v: started %v after the stop, want %v", takes, got, want)
			}
			if err := h.Ping(h.t.Context()); err != nil {
				h.t.Error(err)
			}
			h.close()
		})
	}
}

// The loop stores only what has changed: a probe's success changes nothing.
func TestOnlyChangesAreStored(t *testing.T) {
	store := &slowStore{}
	playWith(t, webSpec(), func(c *Config) { c.Store = store }, func(h *harness) {
		h.sendSynced()
		h.engine.run("a")
		pass(time.Minute)
		n := len(store.stored)
		pass(time.Hour)
		if len(store.stored) != n || n > 3 {
			h.t.Errorf("%d writes, then %d in an hour of successes", n, len(store.stored)-n)
		}
	})
}

// SetSeen follows the Remember calls that its events lead to.
func TestSetSeenAfterEachUpdate(t *testing.T) {
	store := &slowStore{}
	playWith(t, plainSpec(core.Always), func(c *Config) { c.Store = store }, func(h *harness) {
		h.sendSynced()
		at := time.Now()
		var want []time.Time
		for i, kind := range []runtime.UpdateKind{runtime.Connected, runtime.Bookmark, runtime.Killed, runtime.Died, runtime.Stopped, runtime.Removed, runtime.Synced, runtime.Lost} {
			seen := at.Add(time.Duration(i))
			want = append(want, seen)
			h.engine.deliver(runtime.Update{Kind: kind, Runtime: "docker", ID: "a", Err: errConnectionClosed, SeenUntil: seen})
		}
		h.must(h.Ping(h.t.Context()))
		if !slices.Equal(store.seen, want) {
			h.t.Errorf("noted %v, want %v", store.seen, want)
		}
	})
}

// A daemon restores all that the last one stored.
func TestDaemonRestoresWhatWasStored(t *testing.T) {
	playHost(t, restartSpec(), func(h *fakeHost) {
		h.startDaemon(runtime.ReplayUnknown, 0)
		h.engine.run("c1")
		h.sleep(time.Second)
		_ = h.daemon.Hold(h.t.Context(), "c1", time.Now().Add(time.Hour))
		synctest.Wait()
		before := h.view("c1").State
		h.kill()
		h.startDaemon(runtime.ReplayComplete, 0)
		after := h.view("c1").State
		if !after.Conditions.Ready.Status || !after.Conditions.Started.Status || !after.Lasting.Held() || !after.Conditions.Ready.Since.Equal(before.Conditions.Ready.Since) || after.Run.ID != before.Run.ID || !after.Run.BeganAt.Equal(before.Run.BeganAt) {
			h.t.Errorf("before %+v\nafter %+v", before, after)
		}
		if h.eventCount("c1", core.EventStarted) != 1 || h.eventCount("c1", core.EventNotReady) != 0 {
			h.t.Errorf("events %v", h.journal.reasons("n-c1"))
		}
	})
}

// A container was removed while the daemon was away. Its identity is remembered.
func TestRemovedWhileAway(t *testing.T) {
	playHost(t, plainSpec(core.Always), func(h *fakeHost) {
		h.startDaemon(runtime.ReplayUnknown, 0)
		h.engine.run("c1")
		synctest.Wait()
		h.engine.exit("c1", 1)
		h.sleep(time.Second)
		h.kill()
		h.engine.mu.Lock()
		delete(h.engine.containers, "c1")
		h.engine.mu.Unlock()
		h.startDaemon(runtime.ReplayComplete, 0)
		h.kill()
		h.startDaemon(runtime.ReplayComplete, 0)
		h.engine.names["c2"] = "n-c1"
		h.engine.run("c2")
		if s := h.view("c2").State; s.RestartCount() != 1 || !s.Lasting.Backoff.Active {
			h.t.Errorf("%d restarts, back-off %+v", s.RestartCount(), s.Lasting.Backoff)
		}
		if len(h.stored) != 1 {
			h.t.Errorf("kept %v", h.stored)
		}
	})
}

// Whatever happens to the clock while no daemon runs, the next one waits as long as the last
// one would have.
func TestClockSetWhileAway(t *testing.T) {
	const away = 5 * time.Second
	for _, step := range []time.Duration{0, -50 * time.Millisecond, -time.Hour, time.Hour, -100000 * time.Hour, 100000 * time.Hour} {
		for _, rebooted := range []bool{false, true} {
			now := time.Now()
			m := core.Memory{Facts: core.Facts{Kept: &core.Kept{
				Action: core.Action{Restart: core.ByExit, NotBefore: now.Add(20 * time.Second)}, Lasting: core.Lasting{HeldHere: true, HeldHereUntil: now.Add(time.Minute)},
				Ending: core.Ending{ForgetAt: now.Add(40 * time.Second)}, Run: core.Run{BeganAt: now.Add(-time.Hour)},
			}, Down: core.Outage{Since: now.Add(-time.Second)}}, Granted: []time.Time{now.Add(-2 * time.Second)}}
			text, err := json.Marshal(m.ForFile(core.Stamp{Wall: now, Monotonic: time.Hour, Boot: "a"}))
			var read core.Memory
			if err = errors.Join(err, json.Unmarshal(text, &read)); err != nil {
				t.Fatal(err)
			}
			// A clock that is set changes the wall clock's time only: a new daemon has it with its
			// own monotonic reading.
			then := core.Stamp{Wall: now.Add(away + step), Monotonic: time.Hour + away, Boot: "a"}
			passed := away
			if rebooted {
				then.Monotonic, then.Boot, passed = time.Minute, "b", max(0, away+step)
			}
			read = read.FromFile(then)
			for what, wait := range map[string][2]time.Duration{
				"start": {read.Action.NotBefore.Sub(then.Wall), 20 * time.Second}, "end of the hold": {read.Lasting.HeldUntil().Sub(then.Wall), time.Minute},
				"oblivion": {read.Ending.ForgetAt.Sub(then.Wall), 40 * time.Second}, "begin": {read.Run.BeganAt.Sub(then.Wall), -time.Hour},
				"outage": {read.Down.Since.Sub(then.Wall), -time.Second}, "grant": {read.Granted[0].Sub(then.Wall), -2 * time.Second},
			} {
				if want := wait[1] - passed; wait[0] != want {
					t.Errorf("clock set by %v, rebooted %v: %s in %v, want %v", step, rebooted, what, wait[0], want)
				}
			}
		}
	}
}
