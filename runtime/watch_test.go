package runtime

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestWatch(t *testing.T) {
	for _, tt := range []struct {
		name   string
		wanted func(Traits) bool
		script func(*fakeEngine)
		want   string
	}{
		{"start", nil, func(f *fakeEngine) {
			f.silently(func() { f.run("a") })
			f.silently(func() { f.run("b") })
			f.silently(func() { f.end("b", 3) })
			time.Sleep(time.Second)
		}, `
			0s connected unknown
			0s observed a running 10.0.0.1
			0s observed b exited
			0s synced start`},
		{"nothing there", nil, func(*fakeEngine) { time.Sleep(time.Second) }, `
			0s connected unknown
			0s synced start`},
		{"a life", nil, func(f *fakeEngine) {
			time.Sleep(time.Second)
			f.start("a")
			time.Sleep(time.Second)
			f.kill("a", 15)
			f.emit("a", ActionStop, 0)
			time.Sleep(time.Second)
			f.remove("a")
		}, `
			0s connected unknown
			0s synced start
			1s observed a running 10.0.0.1
			2s killed a 15
			2s died a 143
			2s stopped a
			2s observed a exited
			3s removed a`},
		{"only the wanted", func(c Traits) bool { return c.Name != "b" }, func(f *fakeEngine) {
			f.silently(func() { f.run("b") })
			time.Sleep(time.Second)
			f.die("b", 1)
			f.emit("b", ActionNetwork, 0)
			f.start("a")
			time.Sleep(2 * time.Minute)
			f.silently(func() {
				if slices.Contains(f.inspected, "b") {
					panic("inspected what nobody wants")
				}
			})
		}, `
			0s connected unknown
			0s synced start
			1s observed a running 10.0.0.1
			1m0s synced interval
			2m0s synced interval`},
		{"renamed out of sight and back", func(c Traits) bool { return c.Name == "a" }, func(f *fakeEngine) {
			f.silently(func() { f.run("a") })
			for _, name := range []string{"z", "a"} {
				time.Sleep(time.Second)
				f.silently(func() {
					c := *f.containers["a"]
					c.Name = name
					f.containers["a"] = &c
				})
				f.emit("a", ActionRename, 0)
			}
			time.Sleep(time.Second)
		}, `
			0s connected unknown
			0s observed a running 10.0.0.1
			0s synced start
			1s unwanted a
			2s observed a running 10.0.0.1`},
		{"renamed out of sight and removed", func(c Traits) bool { return c.Name != "z" }, func(f *fakeEngine) {
			f.silently(func() { f.run("a"); f.run("z") })
			time.Sleep(time.Second)
			f.silently(func() {
				c := *f.containers["a"]
				c.Name = "z"
				f.containers["a"] = &c
			})
			f.emit("a", ActionRename, 0)
			time.Sleep(time.Second)
			f.remove("a")
			f.remove("z") // was never reported
			time.Sleep(time.Second)
		}, `
			0s connected unknown
			0s observed a running 10.0.0.1
			0s synced start
			1s unwanted a
			2s removed a`},
		{"renamed out of sight and removed unseen", func(c Traits) bool { return c.Name != "z" }, func(f *fakeEngine) {
			f.silently(func() { f.run("a"); f.run("z") })
			time.Sleep(time.Second)
			f.silently(func() {
				c := *f.containers["a"]
				c.Name = "z"
				f.containers["a"] = &c
			})
			f.emit("a", ActionRename, 0)
			time.Sleep(time.Second)
			f.silently(func() { f.drop("a"); f.drop("z") })
			time.Sleep(2 * time.Minute)
		}, `
			0s connected unknown
			0s observed a running 10.0.0.1
			0s synced start
			1s unwanted a
			1m0s removed a
			1m0s synced interval
			2m0s synced interval`},
		{"a pause is missed, its end is not", nil, func(f *fakeEngine) {
			f.silently(func() { f.run("a") })
			time.Sleep(time.Second)
			f.emit("a", ActionUnpause, 0) // whoever has looked meanwhile takes it for paused
			time.Sleep(time.Second)
			f.emit("a", ActionUpdate, 0)
			time.Sleep(time.Second)
		}, `
			0s connected unknown
			0s observed a running 10.0.0.1
			0s synced start
			1s observed a running 10.0.0.1`},
		{"missed events", nil, func(f *fakeEngine) {
			f.silently(func() { f.run("restarted") })
			f.silently(func() { f.run("removed") })
			f.silently(func() { f.run("ended") })
			time.Sleep(10 * time.Second)
			f.silently(func() { f.run("new"); f.run("restarted"); f.drop("removed"); f.end("ended", 1) })
			time.Sleep(time.Minute)
		}, `
			0s connected unknown
			0s observed ended running 10.0.0.1
			0s observed removed running 10.0.0.1
			0s observed restarted running 10.0.0.1
			0s synced start
			1m0s removed removed
			1m0s observed new running 10.0.0.1
			1m0s observed restarted running 10.0.0.1
			1m0.5s observed ended exited
			1m0.5s synced interval`},
		{"a late kill explains an end that the list showed", nil, func(f *fakeEngine) {
			f.silently(func() { f.run("a") })
			time.Sleep(10 * time.Second)
			f.silently(func() { f.end("a", 137) })
			time.Sleep(50*time.Second + 100*time.Millisecond)
			f.emit("a", ActionKill, 9)
			f.emit("a", ActionDie, 137)
			time.Sleep(time.Second)
		}, `
			0s connected unknown
			0s observed a running 10.0.0.1
			0s synced start
			1m0.1s killed a 9
			1m0.1s died a 137
			1m0.1s observed a exited
			1m0.1s synced interval`},
		{"a signal makes healthd see the end before its event comes", nil, func(f *fakeEngine) {
			f.silently(func() { f.run("a") })
			time.Sleep(10 * time.Second)
			f.silently(func() { f.end("a", 143) })
			f.emit("a", ActionKill, 15)
			time.Sleep(100 * time.Millisecond)
			f.emit("a", ActionDie, 143)
			time.Sleep(10 * time.Second)
		}, `
			0s connected unknown
			0s observed a running 10.0.0.1
			0s synced start
			10s killed a 15
			10s observed a exited
			10.1s died a 143`},
		{"a late kill explains an end of a container never observed", nil, func(f *fakeEngine) {
			time.Sleep(10 * time.Second)
			f.silently(func() { f.run("a"); f.end("a", 137) })
			f.crash(errors.New("cut"))
			f.silently(func() { f.down = nil })
			time.Sleep(400 * time.Millisecond)
			f.emit("a", ActionKill, 9)
			f.emit("a", ActionDie, 137)
			time.Sleep(time.Second)
		}, `
			0s connected unknown
			0s synced start
			10s lost: the event stream ended: cut
			~ connected unknown
			~ observed a exited after killed a 9 after died a 137
			~ synced reconnect`},
		{"no engine at first", nil, func(f *fakeEngine) {
			f.silently(func() { f.down = errors.New("refused") })
			time.Sleep(30 * time.Second)
			f.silently(func() { f.run("a") })
			f.comeBack()
			time.Sleep(15 * time.Second)
		}, `
			0s lost: refused
			~ connected unknown
			~ observed a running 10.0.0.1
			~ synced start`},
		{"a death that does not fit", nil, func(f *fakeEngine) {
			f.silently(func() { f.run("a") })
			time.Sleep(time.Second)
			f.die("a", 1)
			time.Sleep(time.Second)
			f.silently(func() { f.run("a"); f.run("b") })
			f.die("a", 2)
			time.Sleep(time.Second)
		}, `
			0s connected unknown
			0s observed a running 10.0.0.1
			0s synced start
			1s died a 1
			1s observed a exited
			2s died a 2
			2s observed a exited
			2s observed b running 10.0.0.1
			2s synced lossy`},
		{"doubts while a list waits for a hung container", nil, func(f *fakeEngine) {
			f.silently(func() { f.run("a"); f.run("hung"); f.inspectHangs["hung"] = true })
			time.Sleep(time.Second)
			for range 4 {
				f.die("a", 1)
				time.Sleep(100 * time.Millisecond)
			}
			time.Sleep(5 * time.Second)
			f.die("a", 2)
			f.silently(func() { clear(f.inspectHangs) })
			time.Sleep(6 * time.Second)
		}, `
			0s connected unknown
			0s observed a running 10.0.0.1
			1s died a 1
			1s observed a exited
			1.1s died a 1
			1.1s observed a exited
			1.2s died a 1
			1.2s observed a exited
			1.3s died a 1
			1.3s observed a exited
			6.4s died a 2
			6.4s observed a exited
			10s synced start but for 1
			10s observed hung running 10.0.0.1
			10s synced lossy`},
		{"a start without a death", nil, func(f *fakeEngine) {
			f.silently(func() { f.run("a") })
			time.Sleep(20 * time.Second)
			f.start("a")
			time.Sleep(time.Second)
		}, `
			0s connected unknown
			0s observed a running 10.0.0.1
			0s synced start
			20s observed a running 10.0.0.1
			20s synced lossy`},
		{"an inspection shows the next run before its events come", nil, func(f *fakeEngine) {
			f.silently(func() { f.run("a") })
			time.Sleep(time.Minute)
			f.silently(func() { f.run("a") })
			f.emit("a", ActionNetwork, 0)
			time.Sleep(time.Second)
			f.silently(func() { f.clockOffset = time.Hour }) // of the events of the earlier run: the clock was set back
			f.emit("a", ActionKill, 15)
			f.emit("a", ActionDie, 143)
			f.silently(func() { f.clockOffset = -time.Second })
			f.emit("a", ActionStart, 0)
			f.silently(func() { f.clockOffset = -time.Hour })
			f.kill("a", 9)
			time.Sleep(time.Second)
		}, `
			0s connected unknown
			0s observed a running 10.0.0.1
			0s synced start
			1m0s observed a running 10.0.0.1
			1m0s synced interval
			1m1s killed a 9
			1m1s died a 137
			1m1s observed a exited`},
		{"an incomplete list", nil, func(f *fakeEngine) {
			f.silently(func() { f.run("a"); f.run("gone") })
			time.Sleep(time.Second)
			f.silently(func() { f.listsNothing = true; f.drop("gone") })
			time.Sleep(time.Minute)
		}, `
			0s connected unknown
			0s observed a running 10.0.0.1
			0s observed gone running 10.0.0.1
			0s synced start
			1m0s removed gone
			1m0s synced interval`},
		{"the clock was set back", nil, func(f *fakeEngine) {
			f.silently(func() {
				f.run("a")
				c := *f.containers["a"]
				c.StartedAt = time.Now().Add(time.Hour)
				f.containers["a"] = &c
			})
			time.Sleep(time.Second)
			f.kill("a", 15)
			time.Sleep(time.Second)
		}, `
			0s connected unknown
			0s observed a running 10.0.0.1
			0s synced start
			1s killed a 15
			1s died a 143
			1s observed a exited`},
		{"an inspection fails", nil, func(f *fakeEngine) {
			f.silently(func() { f.run("a") })
			f.silently(func() { f.run("b") })
			f.silently(func() { f.inspectErr["a"] = errors.New("sick") })
			time.Sleep(time.Second)
			f.silently(func() { delete(f.inspectErr, "a") })
			time.Sleep(time.Second)
		}, `
			0s connected unknown
			0s observed b running 10.0.0.1
			0s synced start but for 1
			1.41s observed a running 10.0.0.1`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeEngine()
				got := record(t, &Watcher{Name: "fake", Source: f, Wanted: tt.wanted}, tt.script)
				compare(t, got, tt.want)
			})
		})
	}
}
