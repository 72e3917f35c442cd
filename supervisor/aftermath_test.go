package supervisor

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"healthd/runtime"
)

// The news of an end may be lost: before a container passes for one that has survived
// its signal, the engine is asked.
func TestEndAfterASignalIsLookedUp(t *testing.T) {
	for _, ended := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			h := open(t, webSpec())
			defer h.close(t)
			h.synced()
			h.engine.run("c1")
			synctest.Wait()
			h.tell(runtime.Killed, "c1", 15)
			if ended {
				h.engine.end("c1", 143)
			}
			time.Sleep(time.Hour)
			s := h.view(t, "c1").State
			if s.Engine.Alive() == ended || s.OperatorStopped != ended || s.Survived == ended || s.Ready == ended {
				t.Errorf("ended %v: it is %s, stopped by an operator %v, survived %v, ready %v", ended, s.Engine, s.OperatorStopped, s.Survived, s.Ready)
			}
			if calls := h.engine.madeCalls(); len(calls) > 0 {
				t.Errorf("ended %v: calls %v", ended, calls)
			}
		})
	}
}

// Whoever asks for a restart while nobody hears the engine is told so, as an older
// signal may be told later.
func TestNoRestartOfWhatCannotBeHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, webSpec())
		defer h.close(t)
		h.synced()
		h.engine.run("c1")
		h.tell(runtime.Lost, "", 0)
		synctest.Wait()
		if err := h.Restart(t.Context(), "c1"); !errors.Is(err, ErrRuntimeLost) {
			t.Errorf("got %v", err)
		}
		h.synced()
		if err := h.Restart(t.Context(), "c1"); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		if calls := h.engine.madeCalls(); len(calls) != 2 {
			t.Errorf("calls %v", calls)
		}
	})
}

// What nobody wants any more while it is being restarted is started, and then left
// alone; its watcher tells nothing more of it.
func TestUnwantedInTheMiddleOfARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, webSpec())
		defer h.close(t)
		h.synced()
		h.engine.run("c1")
		synctest.Wait()
		h.engine.stopTakes = 10 * time.Second
		if err := h.Restart(t.Context(), "c1"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		deliver := h.engine.deliver
		h.engine.mu.Lock()
		h.engine.deliver = func(runtime.Update) {}
		h.engine.mu.Unlock()
		h.reload(t, nil)
		deliver(runtime.Update{Kind: runtime.Removed, Runtime: "docker", ID: "c1", Unwanted: true})
		time.Sleep(time.Minute)
		if calls := h.engine.madeCalls(); !slices.Equal(calls, []string{"stop c1 30s", "start c1"}) {
			t.Errorf("calls %v", calls)
		}
		if _, ok := h.Board().Find("c1"); ok {
			t.Error("it is still supervised")
		}
	})
}

// Removed meanwhile, it is forgotten.
func TestUnwantedAndGoneInTheMiddleOfARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, webSpec())
		defer h.close(t)
		h.synced()
		h.engine.run("c1")
		synctest.Wait()
		h.engine.exit("c1", 1)
		time.Sleep(time.Second)
		h.engine.exit("c1", 1) // a back-off is under way
		h.reload(t, nil)
		h.engine.deliver(runtime.Update{Kind: runtime.Removed, Runtime: "docker", ID: "c1", Unwanted: true})
		h.engine.gone("c1")
		time.Sleep(time.Hour)
		if _, ok := h.Board().Find("c1"); ok {
			t.Error("it is still supervised")
		}
	})
}

// What belongs to an identity outlives its container also when nobody saw it go.
func TestRecreatedWhileAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEstate(t, plain(Always))
		e.begin(runtime.ReplayUnknown, 0, false)
		e.engine.run("c1")
		e.engine.exit("c1", 1)
		synctest.Wait()
		_ = e.daemon.Hold(t.Context(), "c1", time.Time{})
		synctest.Wait()
		e.kill()
		e.engine.gone("c1")
		e.engine.names["c2"] = "n-c1"
		e.engine.run("c2")
		e.begin(runtime.ReplayComplete, 0, false)
		if s := e.view("c2").State; !s.Held || s.RestartCount() != 1 || !s.Backoff.Active {
			t.Errorf("held %v, %d restarts, back-off %+v", s.Held, s.RestartCount(), s.Backoff)
		}
		e.end()
	})
}

// A container that is listed but cannot be inspected yet is not gone.
func TestUnseenIsNotGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEstate(t, plain(Always))
		e.begin(runtime.ReplayUnknown, 0, false)
		e.engine.run("c1")
		e.engine.run("c2")
		synctest.Wait()
		e.operatorStops("c1")
		synctest.Wait()
		e.kill()
		e.hung = "c1"
		e.begin(runtime.ReplayComplete, 0, false)
		e.sleep(time.Minute)
		e.engine.deliver(e.engine.seen("c1"))
		e.sleep(time.Minute)
		if s := e.view("c1").State; !s.OperatorStopped || e.running("c1") {
			t.Errorf("stopped by an operator: %v, runs: %v", s.OperatorStopped, e.running("c1"))
		}
		e.end()
	})
}

// A start whose call was made by a daemon that did not live to see it is a restart as
// any other, and is not made twice.
func TestStartOfADaemonThatHasGone(t *testing.T) {
	for _, lost := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			e := newEstate(t, plain(Always))
			e.begin(runtime.ReplayUnknown, 0, false)
			e.engine.run("c1")
			synctest.Wait()
			if lost {
				e.beforeCall = 1
			} else {
				e.afterCall = 1
			}
			e.engine.exit("c1", 1)
			e.sleep(time.Second)
			e.begin(runtime.ReplayComplete, 0, false)
			e.sleep(time.Minute)
			if n := e.view("c1").State.RestartCount(); n != 1 || !e.running("c1") || e.starts != 0 {
				t.Errorf("the call was lost: %v; %d restarts, runs %v, %d starts of what ran", lost, n, e.running("c1"), e.starts)
			}
			e.end()
		})
	}
}

// A container that has ended before it was stopped, without any news of that, is not
// started: its watcher tells who has ended it.
func TestStopOfWhatHadEnded(t *testing.T) {
	for _, wished := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			h := open(t, webSpec())
			defer h.close(t)
			h.synced()
			h.engine.run("c1")
			synctest.Wait()
			h.engine.end("c1", 143)
			at := time.Now()
			h.probes.say("c1:1", refused)
			time.Sleep(time.Minute)
			if calls := h.engine.madeCalls(); len(calls) == 0 || slices.Contains(calls, "start c1") {
				t.Fatalf("calls %v", calls)
			}
			if wished {
				h.engine.deliver(runtime.Update{Kind: runtime.Killed, Runtime: "docker", ID: "c1", Signal: 15, Time: at})
			}
			h.probes.say("c1:1", good)
			h.engine.deliver(h.engine.seen("c1"))
			time.Sleep(time.Minute)
			if s := h.view(t, "c1").State; s.OperatorStopped != wished || s.Engine.Alive() == wished {
				t.Errorf("wished %v: it is %s, stopped by an operator %v", wished, s.Engine, s.OperatorStopped)
			}
		})
	}
}

// hungStore is a disk on which nothing arrives.
type hungStore struct{ forgetful }

func (hungStore) Remember(Memory) <-chan struct{} { return make(chan struct{}) }

// A stop that waits for the disk has sent no signal yet.
func TestSignalBeforeOurStopIsMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openWith(t, plain(Always), func(c *Config) { c.Store = hungStore{} })
		defer h.close(t)
		h.synced()
		h.engine.run("c1")
		synctest.Wait()
		if err := h.Restart(t.Context(), "c1"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if calls := h.engine.madeCalls(); len(calls) > 0 {
			t.Fatalf("calls %v", calls)
		}
		h.tell(runtime.Killed, "c1", 15)
		h.ends("c1")
		time.Sleep(time.Minute)
		if s := h.view(t, "c1").State; s.Engine.Alive() || !s.OperatorStopped {
			t.Errorf("it is %s, stopped by an operator: %v", s.Engine, s.OperatorStopped)
		}
	})
}

// A signal that is told again makes no new wish, and no old one doubtful.
func TestSignalToldAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, plain(Always))
		defer h.close(t)
		h.synced()
		h.engine.run("c1")
		synctest.Wait()
		survived := runtime.Update{Kind: runtime.Killed, Runtime: "docker", ID: "c1", Signal: 15, Time: time.Now()}
		h.engine.deliver(survived)
		time.Sleep(time.Hour)
		h.engine.deliver(survived)
		h.engine.exit("c1", 1)
		time.Sleep(time.Minute)
		if s := h.view(t, "c1").State; !s.Engine.Alive() {
			t.Fatalf("it is %s, stopped by an operator: %v", s.Engine, s.OperatorStopped)
		}
		stop := runtime.Update{Kind: runtime.Killed, Runtime: "docker", ID: "c1", Signal: 15, Time: time.Now()}
		h.engine.deliver(stop)
		h.ends("c1")
		time.Sleep(time.Minute)
		h.engine.deliver(stop)
		if s := h.view(t, "c1").State; !s.OperatorStopped || s.Doubtful {
			t.Errorf("stopped by an operator: %v, doubtful: %v", s.OperatorStopped, s.Doubtful)
		}
	})
}

// Two signals, the second to a run that nobody has seen yet, are two wishes.
func TestSignalToARunNotSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, plain(Always))
		defer h.close(t)
		h.synced()
		h.engine.run("c1")
		synctest.Wait()
		h.tell(runtime.Killed, "c1", 15)
		h.engine.end("c1", 143)
		time.Sleep(time.Second)
		h.engine.begin("c1")
		time.Sleep(time.Second)
		h.tell(runtime.Killed, "c1", 15)
		h.engine.end("c1", 143)
		h.engine.deliver(h.engine.seen("c1"))
		time.Sleep(time.Minute)
		if s := h.view(t, "c1").State; s.Engine.Alive() || !s.OperatorStopped {
			t.Errorf("it is %s, stopped by an operator: %v", s.Engine, s.OperatorStopped)
		}
	})
}
