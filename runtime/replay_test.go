package runtime

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestReplay(t *testing.T) {
	at := func(s int64) time.Time { return time.Unix(s, 0) }
	for _, tt := range []struct {
		name  string
		m     EventHistory
		event bool
		want  Replay
	}{
		{"it has the event", EventHistory{HasEvent: true}, true, ReplayComplete},
		{"nothing, and it never heard us", EventHistory{}, false, ReplayUnknown},
		{"nothing, after an event", EventHistory{}, true, ReplayRestart},
		{"only newer ones, after an event", EventHistory{Oldest: at(11)}, true, ReplayRestart},
		{"only newer ones, after a connection", EventHistory{Oldest: at(11)}, false, ReplayUnknown},
		{"full of newer ones, after an event", EventHistory{Oldest: at(11), Full: true}, true, ReplayUnknown},
		{"full of newer ones, and it began before the event", EventHistory{Oldest: at(11), Full: true, Began: at(9)}, true, ReplayUnknown},
		{"full of newer ones, and it began after the event", EventHistory{Oldest: at(12), Full: true, Began: at(11)}, true, ReplayRestart},
		{"full of newer ones, after a connection", EventHistory{Oldest: at(11), Full: true}, false, ReplayUnknown},
		{"older ones, after a connection", EventHistory{Oldest: at(10), Full: true}, false, ReplayComplete},
		{"older ones, but not the event: the clock was set back, and the engine restarted", EventHistory{Oldest: at(9)}, true, ReplayRestart},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.m.replay(at(10), tt.event); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func TestWatchReplay(t *testing.T) {
	for _, tt := range []struct {
		name   string
		script func(*fakeEngine)
		want   string
	}{
		{"nothing was missed", func(f *fakeEngine) {
			f.start("a")
			time.Sleep(time.Second)
			f.crash(errors.New("cut"))
			f.kill("a", 15)
		}, "complete"},
		{"the engine was started", func(f *fakeEngine) {
			f.start("a")
			time.Sleep(time.Second)
			f.crash(errors.New("cut"))
			f.silently(f.restart)
		}, "restart"},
		{"the engine was started, and killed running containers", func(f *fakeEngine) {
			f.start("a")
			time.Sleep(time.Second)
			f.crash(errors.New("cut"))
			f.silently(f.restart)
			f.kill("a", 15)
		}, "restart and engine kills"},
		{"the engine was started, with live-restore", func(f *fakeEngine) {
			f.start("a")
			time.Sleep(time.Second)
			f.crash(errors.New("cut"))
			f.silently(func() { f.restart(); f.liveRestore = true })
			f.kill("a", 15)
		}, "restart"},
		{"more events than the history holds", func(f *fakeEngine) {
			f.start("a")
			time.Sleep(time.Second)
			f.crash(errors.New("cut"))
			for range f.historyMax {
				f.emit("a", ActionKill, 1)
			}
		}, "unknown"},
		{"many exec events", func(f *fakeEngine) {
			f.start("a")
			for range 2 * f.historyMax {
				time.Sleep(time.Millisecond)
				f.emit("a", ActionExec, 0)
			}
			time.Sleep(time.Second)
			f.crash(errors.New("cut"))
			f.kill("a", 15)
		}, "complete"},
		{"the history is forbidden", func(f *fakeEngine) {
			f.start("a")
			time.Sleep(time.Second)
			f.silently(func() { f.historyErr = errors.New("forbidden") })
			f.crash(errors.New("cut"))
		}, "unknown"},
		{"the history hangs", func(f *fakeEngine) {
			f.start("a")
			time.Sleep(time.Second)
			f.silently(func() { f.historyHangs = true })
			f.crash(errors.New("cut"))
		}, "unknown"},
		{"no events, and an older one in the history", func(f *fakeEngine) {
			old := Event{ID: "x", Action: ActionStart, Time: time.Now().Add(-time.Minute)}
			f.silently(func() { f.emitted, f.history = []emittedEvent{{old, 0}}, []Event{old} })
			f.crash(errors.New("cut"))
			f.emit("a", ActionCreate, 0)
		}, "complete"},
		{"no events, and an empty history", func(f *fakeEngine) { f.crash(errors.New("cut")) }, "unknown"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeEngine()
				got := record(t, &Watcher{Name: "fake", Source: f}, func(f *fakeEngine) {
					time.Sleep(time.Second)
					tt.script(f)
					time.Sleep(time.Second)
					f.silently(func() { f.down = nil })
					time.Sleep(50 * time.Second) // 10 s to the next attempt, 10 s for the answer
				})
				var connections, last string
				for _, l := range got {
					if _, last, _ = strings.Cut(l, " "); strings.HasPrefix(last, "connected") {
						connections += last + ", "
					}
				}
				if want := "connected unknown, connected " + tt.want + ", "; connections != want {
					t.Errorf("got %s want %s", connections, want)
				}
				if last != "synced reconnect" {
					t.Errorf("not in sync in the end: %q", got)
				}
			})
		})
	}
}

// At its first connection a Watcher does not know what was missed, however long its attempts
// took.
func TestWatchFirstConnectionIsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeEngine()
		f.emit("a", ActionStart, 0)
		f.down = errors.New("refused")
		got := record(t, &Watcher{Name: "fake", Source: f}, func(f *fakeEngine) {
			time.Sleep(time.Minute)
			f.silently(func() { f.down = nil })
			time.Sleep(20 * time.Second)
		})
		compare(t, got, `
			0s lost: refused
			~ connected unknown
			~ synced start`)
	})
}

// The next Watcher resumes where the last one stopped.
func TestWatchResumesFromSeenUntil(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeEngine()
		var seen time.Time
		watch := func(script func()) {
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error)
			go func() {
				done <- (&Watcher{Name: "fake", Source: f, Since: seen}).Run(ctx, func(_ context.Context, u Update) error {
					seen = u.SeenUntil
					return nil
				})
			}()
			script()
			synctest.Wait()
			cancel()
			<-done
		}
		watch(func() {
			f.start("a")
			time.Sleep(time.Second)
		})
		if !seen.Equal(f.history[0].Time) {
			t.Fatalf("saw %v, want %v", seen, f.history[0].Time)
		}
		f.kill("a", 15)
		got := record(t, &Watcher{Name: "fake", Source: f, Since: seen}, func(*fakeEngine) { time.Sleep(time.Second) })
		compare(t, got, `
			0s connected complete
			0s observed a exited after killed a 15 after died a 143
			0s synced start`)
	})
}

// On a busy host the stream brings the history late. The first list waits for it, but not for
// ever.
func TestWatchListsAfterTheHistory(t *testing.T) {
	for _, tt := range []struct {
		delay time.Duration
		want  string
	}{
		{time.Second, `
			0s connected complete
			1s observed a exited after killed a 15 after died a 143
			1s synced start`},
		{20 * time.Second, `
			0s connected complete
			5.5s observed a exited
			5.5s synced start
			20s killed a 15
			20s died a 143`},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFakeEngine()
			f.start("a")
			seen := f.history[0].Time
			time.Sleep(time.Second)
			f.kill("a", 15)
			f.historyDelay = tt.delay
			compare(t, record(t, &Watcher{Name: "fake", Source: f, Since: seen}, func(*fakeEngine) { time.Sleep(30 * time.Second) }), tt.want)
		})
	}
}
