package runtime

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestWatchReconnects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeEngine()
		got := record(t, &Watcher{Name: "fake", Source: f}, func(f *fakeEngine) {
			f.silently(func() { f.run("a") })
			f.silently(func() { f.run("b") })
			time.Sleep(20 * time.Second)
			f.crash(errors.New("unexpected EOF"))
			f.silently(func() { f.down = errors.New("no such socket") })
			time.Sleep(5 * time.Second)
			f.silently(func() { f.end("b", 0) })
			f.comeBack()
			time.Sleep(15 * time.Second)
			f.silently(func() {
				if len(f.inspected) != 3 {
					t.Errorf("inspected %v", f.inspected)
				}
			})
		})
		want := `
			0s connected unknown
			0s observed a running 10.0.0.1
			0s observed b running 10.0.0.1
			0s synced start
			20s lost: the event stream ended: unexpected EOF
			~ lost: no such socket
			~ connected unknown
			~ observed b exited
			~ synced reconnect`
		compare(t, got, want)
	})
}

// An engine at whose socket nothing listens any more is lost with the first call that finds that, though its event
// stream is still open.
func TestWatchOfWhatListensNoMore(t *testing.T) {
	const gone = NotListening("connection refused")
	for _, tt := range []struct {
		name   string
		notice func(f *fakeEngine, refresh chan struct{})
		want   string
	}{
		{"an inspection", func(f *fakeEngine, _ chan struct{}) { f.die("a", 1) }, `
			20s died a 1
			20s lost: connection refused`},
		{"a call of others", func(f *fakeEngine, refresh chan struct{}) { refresh <- struct{}{} }, `
			20s lost: cannot list the containers: connection refused
			~ lost: connection refused`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeEngine()
				refresh := make(chan struct{}, 1)
				got := record(t, &Watcher{Name: "fake", Source: f, Refresh: refresh}, func(f *fakeEngine) {
					f.silently(func() { f.run("a") })
					time.Sleep(20 * time.Second)
					f.silently(func() { f.down = gone })
					tt.notice(f, refresh)
					time.Sleep(5 * time.Second)
				})
				compare(t, got, `
					0s connected unknown
					0s observed a running 10.0.0.1
					0s synced start`+tt.want)
			})
		})
	}
	if !Ended(fmt.Errorf("cannot list: %w", gone)) || Ended(errors.New("timeout")) {
		t.Error("who ended is mistaken")
	}
}

func TestWatchReplaysOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeEngine()
		got := record(t, &Watcher{Name: "fake", Source: f}, func(f *fakeEngine) {
			f.silently(func() { f.run("a") })
			time.Sleep(10 * time.Second)
			f.emit("a", ActionUpdate, 0)
			f.emit("a", ActionKill, 1)
			time.Sleep(time.Second)
			f.crash(errors.New("cut"))
			f.silently(func() { f.down = nil })
			f.kill("a", 15) // while disconnected; the history has it
			time.Sleep(10 * time.Second)
		})
		want := `
			0s connected unknown
			0s observed a running 10.0.0.1
			0s synced start
			10s killed a 1
			11s lost: the event stream ended: cut
			~ connected complete
			~ killed a 15
			~ died a 143
			~ observed a exited
			~ synced reconnect`
		compare(t, got, want)
	})
}

func TestWatchReplaysTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeEngine()
		f.start("a")
		f.start("b")
		time.Sleep(time.Second)
		f.kill("a", 15)
		f.kill("b", 9)
		time.Sleep(time.Second)
		f.start("b")
		got := record(t, &Watcher{Name: "fake", Source: f, Since: time.Now().Add(-time.Minute)}, func(*fakeEngine) {
			time.Sleep(time.Second)
		})
		b := slices.IndexFunc(got, func(l string) bool { return l == "0s observed b running 10.0.0.1" })
		if b < 0 {
			t.Fatalf("b was not observed: %v", got)
		}
		compare(t, slices.Delete(got, b, b+1), `
			0s connected restart and engine kills
			0s observed a exited after killed a 15 after died a 143
			0s synced start`)
	})
}

// No event came before the stream broke. While it is broken, somebody stops a.
func TestWatchReplaysWithoutEarlierEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeEngine()
		f.silently(func() { f.run("a") })
		got := record(t, &Watcher{Name: "fake", Source: f}, func(f *fakeEngine) {
			time.Sleep(10 * time.Second)
			f.crash(errors.New("proxy away"))
			time.Sleep(time.Second)
			f.kill("a", 15) // stays in the engine's history
			time.Sleep(time.Second)
			f.silently(func() { f.down = nil })
			time.Sleep(30 * time.Second)
		})
		if !slices.ContainsFunc(got, func(l string) bool { return strings.Contains(l, "killed a 15") }) {
			t.Errorf("the kill was not replayed:\n%s", strings.Join(got, "\n"))
		}
	})
}

func TestWatchSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeEngine()
		got := record(t, &Watcher{Name: "fake", Source: f, Relist: time.Hour}, func(f *fakeEngine) {
			time.Sleep(5 * time.Minute)
			f.silently(func() { f.pingHangs = true })
			time.Sleep(41 * time.Second)
		})
		want := `
			0s connected unknown
			0s synced start
			~ lost: the event stream is silent and the engine does not answer: context deadline exceeded
			~ connected unknown
			~ synced reconnect`
		compare(t, got, want)
	})
}
