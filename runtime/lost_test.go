package runtime

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// Events may be lost on their way. The cause of an end is then read from the history.
func TestWatchLostCauses(t *testing.T) {
	lose := func(f *fakeEngine, do func()) {
		f.silently(func() { f.dropsEvents = true })
		do()
		f.silently(func() { f.dropsEvents = false })
	}
	stop := func(f *fakeEngine) {
		f.emit("a", ActionKill, 15)
		f.silently(func() { f.end("a", 143) })
	}
	for _, tt := range []struct {
		name   string
		script func(*fakeEngine)
		asks   int
		want   string // after 10 s of life
	}{
		{"nothing is lost", func(f *fakeEngine) {
			f.kill("a", 15)
		}, 0, `
			10s killed a 15
			10s died a 143
			10s observed a exited`},
		{"a crash", func(f *fakeEngine) {
			f.die("a", 1)
		}, 1, `
			10s died a 1
			10s observed a exited`},
		{"the signal", func(f *fakeEngine) {
			lose(f, func() { f.emit("a", ActionKill, 15) })
			f.die("a", 143)
		}, 1, `
			10s died a 143
			10s killed a 15
			10s observed a exited`},
		{"a second signal, when the first one was survived", func(f *fakeEngine) {
			f.emit("a", ActionKill, 15)
			time.Sleep(70 * time.Second)
			lose(f, func() { f.emit("a", ActionKill, 9) })
			f.die("a", 137)
		}, 1, `
			10s killed a 15
			1m0s synced interval
			1m20s died a 137
			1m20s killed a 9
			1m20s observed a exited`},
		{"signal and end", func(f *fakeEngine) {
			lose(f, func() { f.kill("a", 15) })
			time.Sleep(time.Minute)
		}, 1, `
			1m0s killed a 15
			1m0s observed a exited
			1m0s synced interval`},
		{"all of a short run", func(f *fakeEngine) {
			f.die("a", 1)
			time.Sleep(time.Second)
			lose(f, func() { f.start("a"); time.Sleep(time.Second); stop(f) })
			time.Sleep(time.Minute)
		}, 2, `
			10s died a 1
			10s observed a exited
			1m0s killed a 15
			1m0s observed a exited
			1m0s synced interval`},
		{"signal and end of a container that has just begun", func(f *fakeEngine) {
			f.start("b")
			lose(f, func() { f.kill("b", 15) })
			time.Sleep(10 * time.Second)
		}, 1, `
			10s observed b exited after killed b 15`},
		{"one of two signals", func(f *fakeEngine) {
			f.emit("a", ActionKill, 1)
			time.Sleep(time.Second)
			lose(f, func() { f.kill("a", 15) })
			time.Sleep(time.Minute)
		}, 1, `
			10s killed a 1
			1m0s killed a 15
			1m0s observed a exited
			1m0s synced interval`},
		{"the signal that a stop begins with", func(f *fakeEngine) {
			lose(f, func() { f.emit("a", ActionKill, 15) })
			time.Sleep(time.Second)
			f.kill("a", 9)
		}, 1, `
			11s killed a 9
			11s died a 137
			11s killed a 15
			11s observed a exited`},
		{"the engine cannot tell", func(f *fakeEngine) {
			f.silently(func() { f.historyErr = errors.New("forbidden") })
			lose(f, func() { f.emit("a", ActionKill, 15) })
			f.die("a", 143)
		}, 0, `
			10s died a 143
			10s observed a exited`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeEngine()
				f.silently(func() { f.run("a") })
				got := record(t, &Watcher{Name: "fake", Source: f}, func(f *fakeEngine) {
					time.Sleep(10 * time.Second)
					tt.script(f)
					time.Sleep(100 * time.Millisecond)
				})
				compare(t, got, `
					0s connected unknown
					0s observed a running 10.0.0.1
					0s synced start`+tt.want)
				if f.killEventsCalls != tt.asks {
					t.Errorf("asked %d times, want %d", f.killEventsCalls, tt.asks)
				}
			})
		})
	}
}

// The daemon before may have ended without the event of a stop signal. A new one hears only
// how the run ended, and reads the signal from the history.
func TestWatchLostCausesOfFirstObservation(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  func(*fakeEngine)
		asks int
		want string
	}{
		{"a KILL alone", func(f *fakeEngine) { f.kill("a", 9) }, 1, "killed a 1 after killed a 9 after died a 137 after killed a 15"},
		{"a crash", func(f *fakeEngine) { f.die("a", 1) }, 1, "killed a 1 after died a 1 after killed a 15"},
		{"its own stop signal", func(f *fakeEngine) { f.kill("a", 15) }, 0, "killed a 1 after killed a 15 after died a 143"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeEngine()
				f.start("a")
				time.Sleep(time.Second)
				f.emit("a", ActionKill, 15)
				time.Sleep(time.Second)
				f.emit("a", ActionKill, 1) // the newest event that was seen
				seen := time.Now()
				time.Sleep(time.Second)
				tt.end(f)
				got := record(t, &Watcher{Name: "fake", Source: f, Since: seen}, func(*fakeEngine) { time.Sleep(time.Second) })
				compare(t, got, `
					0s connected complete
					0s observed a exited after `+tt.want+`
					0s synced start`)
				if f.killEventsCalls != tt.asks {
					t.Errorf("asked %d times, want %d", f.killEventsCalls, tt.asks)
				}
			})
		})
	}
}

// The daemon before ended without any event of an end that came before the newest event that
// it saw. It kept that the container ran, or how an earlier run ended.
func TestWatchLostEndOfKnownRun(t *testing.T) {
	for _, tt := range []struct {
		alive, earlier bool
		asks           int
		want           string
	}{
		{true, false, 1, "observed a exited after killed a 15"},
		{false, false, 0, "observed a exited"},
		{false, true, 1, "observed a exited after killed a 15"},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFakeEngine()
			f.start("a")
			run := f.containers["a"].Run()
			if tt.earlier {
				run.Started -= int64(time.Hour)
			}
			time.Sleep(time.Second)
			f.kill("a", 15)
			time.Sleep(time.Second)
			f.start("b") // the newest event that was seen
			seen := f.history[len(f.history)-1].Time
			known := func(id string) (Run, bool) {
				if id != "a" {
					return Run{}, false
				}
				return run, tt.alive
			}
			got := record(t, &Watcher{Name: "fake", Source: f, Since: seen, KnownRun: known}, func(*fakeEngine) { time.Sleep(time.Second) })
			compare(t, got, `
				0s connected complete
				0s `+tt.want+`
				0s observed b running 10.0.0.1
				0s synced start`)
			if f.killEventsCalls != tt.asks {
				t.Errorf("%+v: asked %d times", tt, f.killEventsCalls)
			}
		})
	}
}

// viewOfARestartedEngine knows a run that has ended before the engine was killed.
func viewOfARestartedEngine() (v *view, at func(int64) time.Time) {
	at = func(s int64) time.Time { return time.Unix(s, 0) }
	v = newView(nil)
	v.streamFrom = at(1)
	v.applyList([]Summary{{ID: "a", State: Exited}}, at(1))
	v.applyInspection(v.nextToInspect(), &Container{ID: "a", State: Exited, StartedAt: at(0), FinishedAt: at(1)}, nil, at(1))
	v.disconnected()
	v.engineRestarted(true)
	return v, at
}

// A killed engine stops at its next start what it finds: also a run whose start was lost with the connection, and that
// ends as soon, and with the same code, as the run that was known. A list cannot tell the two apart.
func TestEngineStopsARunThatNoListTells(t *testing.T) {
	v, at := viewOfARestartedEngine()
	v.applyEvent(Event{ID: "a", Action: ActionKill, Signal: 15, Time: at(3)}, 0, at(10))
	v.applyEvent(Event{ID: "a", Action: ActionDie, Time: at(4)}, 0, at(10))
	v.applyList([]Summary{{ID: "a", State: Exited}}, at(10))
	v.out = nil
	next := &Container{ID: "a", State: Exited, StartedAt: at(2), FinishedAt: at(4)}
	v.applyKills(v.entries["a"], next, []Event{{ID: "a", Action: ActionKill, Signal: 15, Time: at(3)}}, at(11))
	if len(v.out) != 1 || !v.out[0].Of.Newer || !v.out[0].Of.Old() {
		t.Errorf("sent %+v", v.out)
	}
}

// A list of a restarted engine shows a run that ended before. The start of the next one is lost,
// so its signal comes from the history alone: the engine did not send it at its start.
func TestKillAfterAListOfARestartedEngine(t *testing.T) {
	v, at := viewOfARestartedEngine()
	v.applyList([]Summary{{ID: "a", State: Exited}}, at(10))
	v.out = nil
	next := &Container{ID: "a", State: Exited, StartedAt: at(20), FinishedAt: at(30)}
	v.applyKills(v.entries["a"], next, []Event{{ID: "a", Action: ActionKill, Signal: 15, Time: at(30)}}, at(31))
	if len(v.out) != 1 || !v.out[0].Of.Newer || v.out[0].Of.Old() {
		t.Errorf("sent %+v", v.out)
	}
}

// While healthd asks who ended a run, the next one begins: the answer is still about the run that has ended.
func TestKillsOfTheRunBeforeAStart(t *testing.T) {
	at := func(s int64) time.Time { return time.Unix(s, 0) }
	v := newView(nil)
	v.applyList([]Summary{{ID: "a", State: Running}}, at(1))
	v.applyInspection(v.nextToInspect(), &Container{ID: "a", State: Running, StartedAt: at(1)}, nil, at(1))
	ended := &Container{ID: "a", State: Exited, StartedAt: at(1), FinishedAt: at(9)}
	v.applyEvent(Event{ID: "a", Action: ActionStart, Time: at(10)}, 0, at(10))
	v.out = nil
	v.applyKills(v.entries["a"], ended, []Event{{ID: "a", Action: ActionKill, Signal: 15, Time: at(9)}}, at(11))
	if len(v.out) != 1 || v.out[0].Of.Run != ended.Run() || v.out[0].Of.Newer {
		t.Errorf("sent %+v", v.out)
	}
	if told := v.entries["a"].told; len(told.signals) > 0 {
		t.Errorf("the next run has been told %+v", told)
	}
}
