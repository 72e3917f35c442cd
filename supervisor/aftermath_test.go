package supervisor

import (
	"context"
	"errors"
	"slices"
	"strings"
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
			if calls := h.engine.madeCalls(); len(calls) > 0 || h.view(t, "c1").State.Stopping == NoCause {
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

// An engine that does not say whether a container has survived its signal, and then
// tells of its end, leaves nothing that is due for ever.
func TestLookThatIsNotAnswered(t *testing.T) {
	w := newWorld(t)
	w.silent, w.deaf = true, true
	for _, line := range []string{"0s runs", "60s signalled 15", "105s"} {
		if err := w.obey(strings.Fields(line)); err != nil {
			t.Fatal(err)
		}
	}
	if w.state.LookAt.IsZero() {
		t.Fatal("nobody has asked")
	}
	w.step("", &input{kind: died})
	w.goTo(w.now.Add(time.Hour))
}

// Somebody has paused the container and wants it as it is: whatever asks for its
// restart waits, but for a person.
func TestPausedIsNotRestarted(t *testing.T) {
	pause := func(h *house, tell bool) {
		h.engine.mu.Lock()
		c := *h.engine.containers["c1"]
		c.State = runtime.Paused
		h.engine.containers["c1"] = &c
		h.engine.mu.Unlock()
		if tell {
			h.engine.deliver(h.engine.seen("c1"))
		}
	}
	for _, tt := range []struct {
		name string
		do   func(*testing.T, *house)
		want []string // calls
	}{
		{"while it drains", func(_ *testing.T, h *house) {
			h.probes.say("c1:1", refused)
			time.Sleep(32 * time.Second)
			pause(h, true)
		}, nil},
		{"while its verdict waits", func(_ *testing.T, h *house) {
			_ = h.Hold(context.Background(), "n-c1", time.Now().Add(time.Minute))
			h.probes.say("c1:1", refused)
			time.Sleep(40 * time.Second)
			pause(h, true)
		}, nil},
		{"unheard, while its probe fails", func(_ *testing.T, h *house) {
			pause(h, false)
			h.probes.say("c1:1", refused)
		}, nil},
		{"and shares the network of a container with a new run", func(_ *testing.T, h *house) {
			pause(h, false)
			u := h.engine.seen("c1")
			u.Container.NetworkOf, u.Container.NetworkSince = "c2", time.Now().Add(time.Second)
			h.engine.deliver(u)
		}, nil},
		{"but somebody wants a restart", func(t *testing.T, h *house) {
			pause(h, true)
			if err := h.Restart(t.Context(), "n-c1"); err != nil {
				t.Error(err)
			}
		}, []string{"stop c1 30s", "start c1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := open(t, webSpec())
				defer h.close(t)
				h.synced()
				h.engine.run("c1")
				synctest.Wait()
				tt.do(t, h)
				time.Sleep(10 * time.Minute)
				if calls := h.engine.madeCalls(); !slices.Equal(calls, tt.want) {
					t.Errorf("calls %v, want %v", calls, tt.want)
				}
			})
		})
	}
}

// A clock that was set back makes no signal an old one.
func TestSignalAfterTheClockWasSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, plain(Always))
		defer h.close(t)
		h.synced()
		h.engine.started = time.Now().Add(time.Hour) // its start, by the clock of then
		h.engine.run("c1")
		synctest.Wait()
		h.tell(runtime.Killed, "c1", 15)
		h.ends("c1")
		time.Sleep(time.Minute)
		if s := h.view(t, "c1").State; s.Engine.Alive() || !s.OperatorStopped {
			t.Errorf("it is %s, stopped by an operator: %v", s.Engine, s.OperatorStopped)
		}
	})
}

// A container whose first inspection after the start of its engine fails has ended with
// its engine like the others.
func TestEndedWithItsEngineSeenLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEstate(t, plain(OnFailure))
		e.begin(runtime.ReplayUnknown, 0, false)
		e.engine.run("c1")
		e.engine.run("c2")
		e.sleep(time.Minute)
		_ = e.daemon.Deliver(t.Context(), runtime.Update{Kind: runtime.Lost, Runtime: "docker", Err: errDead})
		e.engine.end("c1", 0)
		e.engine.end("c2", 0)
		e.hung = "c1"
		e.engineBegins()
		e.sleep(time.Second)
		e.engine.deliver(e.engine.seen("c1"))
		e.sleep(time.Minute)
		if !e.running("c1") || !e.running("c2") {
			t.Errorf("c1 runs: %v, c2 runs: %v", e.running("c1"), e.running("c2"))
		}
		e.end()
	})
}

// Somebody stops a container while healthd is away, and hours later the engine ends, too.
func TestStoppedLongBeforeItsEngineEnded(t *testing.T) {
	for _, rebooted := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			e := newEstate(t, plain(Always))
			e.begin(runtime.ReplayUnknown, 0, false)
			for _, id := range []string{"c1", "c2", "c3"} {
				e.engine.run(id)
			}
			e.sleep(time.Minute)
			e.end()
			e.operatorStops("c1")
			time.Sleep(5 * time.Hour)
			e.engine.end("c2", 0)
			time.Sleep(30 * time.Second)
			e.engineDies()
			time.Sleep(time.Hour)
			e.begin(runtime.ReplayRestart, 0, rebooted)
			e.sleep(time.Minute)
			if e.running("c1") || !e.running("c2") || !e.running("c3") {
				t.Errorf("rebooted %v: c1 runs: %v, c2 %v, c3 %v", rebooted, e.running("c1"), e.running("c2"), e.running("c3"))
			}
			e.end()
		})
	}
}

// A restart that somebody asks for in the middle of a docker stop is the newer wish:
// what that stop still does is no other.
func TestRestartAskedDuringAStop(t *testing.T) {
	w := newWorld(t)
	w.silent, w.stopTakes = true, time.Hour
	for _, line := range []string{"0s runs", "10s signalled 15", "15s restart-asked", "20s signalled 9"} {
		if err := w.obey(strings.Fields(line)); err != nil {
			t.Fatal(err)
		}
	}
	w.endRun(137)
	w.step("", &input{kind: observed})
	if s := &w.state; s.OperatorStopped || s.Restart != ByOperator {
		t.Errorf("stopped by an operator: %v, to be started: %v", s.OperatorStopped, s.Restart)
	}
}

// Of a stop of ours the first signal is lost, and only its KILL is heard.
func TestOwnKillWithoutItsFirstSignal(t *testing.T) {
	for _, told := range []string{"before the end is seen", "afterwards", "never, as it was somebody's"} {
		synctest.Test(t, func(t *testing.T) {
			h := open(t, plain(Always))
			defer h.close(t)
			h.synced()
			h.engine.run("c1")
			synctest.Wait()
			made, deliver := make(chan time.Time, 1), h.engine.deliver
			h.engine.onStop = func() {
				at := time.Now()
				time.Sleep(30 * time.Second)
				deliver(runtime.Update{Kind: runtime.Killed, Runtime: "docker", ID: "c1", Signal: 9, Time: time.Now()})
				h.engine.end("c1", 137)
				made <- at
			}
			if err := h.Restart(t.Context(), "c1"); err != nil {
				t.Fatal(err)
			}
			first := runtime.Update{Kind: runtime.Killed, Runtime: "docker", ID: "c1", Signal: 15, Time: <-made}
			if told == "before the end is seen" {
				deliver(first)
			}
			deliver(h.engine.seen("c1"))
			synctest.Wait()
			if told == "afterwards" {
				deliver(first)
			}
			time.Sleep(time.Minute)
			if s := h.view(t, "c1").State; s.Engine.Alive() != (told[0] != 'n') || s.OperatorStopped != (told[0] == 'n') {
				t.Errorf("told %s: it is %s, stopped by an operator: %v", told, s.Engine, s.OperatorStopped)
			}
		})
	}
}
