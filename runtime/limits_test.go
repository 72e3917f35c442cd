package runtime

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestWatchOverflow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeEngine()
		w := &Watcher{Name: "fake", Source: f}
		block := make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		reasons, died := []string{}, 0
		done := make(chan error)
		go func() {
			done <- w.Run(ctx, func(_ context.Context, u Update) error {
				switch u.Kind {
				case Synced:
					reasons = append(reasons, u.Reason)
				case Died:
					died++
					<-block
				}
				return nil
			})
		}()
		f.silently(func() { f.run("a") })
		time.Sleep(time.Second)
		for range 2 * queueSize {
			f.emit("a", ActionDie, 1)
			time.Sleep(time.Microsecond)
		}
		close(block)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		cancel()
		<-done
		if len(reasons) < 2 || reasons[1] != RelistLossy {
			t.Errorf("got lists %v after %d deaths, want a lossy one", reasons, died)
		}
		if died < queueSize || died > queueSize+2 {
			t.Errorf("got %d deaths", died)
		}
	})
}

func TestWatchHungInspection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeEngine()
		got := record(t, &Watcher{Name: "fake", Source: f, Relist: time.Hour}, func(f *fakeEngine) {
			for i := range 3 * maxInspections {
				id := fmt.Sprintf("hung%02d", i)
				f.silently(func() { f.run(id) })
				f.silently(func() { f.inspectHangs[id] = true })
			}
			f.silently(func() { f.run("well") })
			time.Sleep(9 * time.Second)
			f.die("well", 1)
			time.Sleep(5 * time.Second)
		})
		compare(t, got, `
			0s connected unknown
			3s observed well running 10.0.0.1
			9s died well 1
			9s observed well exited
			12s synced start but for 24`)
	})
}

func TestWatchRelistCostsOneCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeEngine()
		record(t, &Watcher{Name: "fake", Source: f, Relist: 10 * time.Second}, func(f *fakeEngine) {
			for i := range 100 {
				f.silently(func() { f.run(fmt.Sprint(i)) })
			}
			time.Sleep(time.Minute + time.Second)
		})
		if f.lists != 7 || len(f.inspected) != 100 {
			t.Errorf("got %d lists and %d inspections, want 7 and 100", f.lists, len(f.inspected))
		}
	})
}

func TestWatchRefresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeEngine()
		refresh := make(chan struct{})
		var wanted atomic.Value
		wanted.Store("a")
		w := &Watcher{Name: "fake", Source: f, Refresh: refresh, Wanted: func(c Traits) bool { return c.Name == wanted.Load() }}
		got := record(t, w, func(f *fakeEngine) {
			f.silently(func() { f.run("a") })
			f.silently(func() { f.run("b") })
			time.Sleep(time.Second)
			wanted.Store("b")
			refresh <- struct{}{}
			time.Sleep(time.Second)
		})
		compare(t, got, `
			0s connected unknown
			0s observed a running 10.0.0.1
			0s synced start
			1s unwanted a
			1s observed b running 10.0.0.1
			1s synced refresh`)
	})
}

func TestWatchEndsWhenSendFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := errors.New("full")
		err := (&Watcher{Name: "fake", Source: newFakeEngine()}).Run(t.Context(), func(context.Context, Update) error { return full })
		if !errors.Is(err, full) {
			t.Errorf("got %v", err)
		}
	})
}
