package runtime

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestWatch(t *testing.T) {
	for _, tt := range []struct {
		name   string
		wanted func(string, map[string]string) bool
		script func(*fakeEngine)
		want   string
	}{
		{"start", nil, func(f *fakeEngine) {
			f.silently(func() { f.run("a") })
			f.silently(func() { f.run("b") })
			f.silently(func() { f.end("b", 3) })
			time.Sleep(time.Second)
		}, `
			0s observed a running 10.0.0.1
			0s observed b exited
			0s synced start`},
		{"nothing there", nil, func(*fakeEngine) { time.Sleep(time.Second) }, `0s synced start`},
		{"a life", nil, func(f *fakeEngine) {
			time.Sleep(time.Second)
			f.start("a")
			time.Sleep(time.Second)
			f.kill("a", 15)
			f.tell("a", ActionStop, 0)
			time.Sleep(time.Second)
			f.remove("a")
		}, `
			0s synced start
			1s observed a running 10.0.0.1
			2s killed a 15
			2s died a 143
			2s stopped a
			2s observed a exited
			3s removed a`},
		{"only the wanted", func(name string, _ map[string]string) bool { return name != "b" }, func(f *fakeEngine) {
			f.silently(func() { f.run("b") })
			time.Sleep(time.Second)
			f.die("b", 1)
			f.tell("b", ActionNetwork, 0)
			f.start("a")
			time.Sleep(2 * time.Minute)
			f.silently(func() {
				if slices.Contains(f.inspected, "b") {
					panic("inspected what nobody wants")
				}
			})
		}, `
			0s synced start
			1s observed a running 10.0.0.1
			1m0s synced interval
			2m0s synced interval`},
		{"renamed out of sight and back", func(name string, _ map[string]string) bool { return name == "a" }, func(f *fakeEngine) {
			f.silently(func() { f.run("a") })
			for _, name := range []string{"z", "a"} {
				time.Sleep(time.Second)
				f.silently(func() {
					c := *f.containers["a"]
					c.Name = name
					f.containers["a"] = &c
				})
				f.tell("a", ActionRename, 0)
			}
			time.Sleep(time.Second)
		}, `
			0s observed a running 10.0.0.1
			0s synced start
			1s removed a
			2s observed a running 10.0.0.1`},
		{"missed events", nil, func(f *fakeEngine) {
			f.silently(func() { f.run("restarted") })
			f.silently(func() { f.run("removed") })
			f.silently(func() { f.run("ended") })
			time.Sleep(10 * time.Second)
			f.silently(func() { f.run("new"); f.run("restarted"); f.drop("removed"); f.end("ended", 1) })
			time.Sleep(time.Minute)
		}, `
			0s observed ended running 10.0.0.1
			0s observed removed running 10.0.0.1
			0s observed restarted running 10.0.0.1
			0s synced start
			1m0s removed removed
			1m0s observed new running 10.0.0.1
			1m0s observed restarted running 10.0.0.1
			1m0.5s observed ended exited
			1m0.5s synced interval`},
		{"a late kill explains a death that the list told", nil, func(f *fakeEngine) {
			f.silently(func() { f.run("a") })
			time.Sleep(10 * time.Second)
			f.silently(func() { f.end("a", 137) })
			time.Sleep(50*time.Second + 100*time.Millisecond)
			f.tell("a", ActionKill, 9)
			f.tell("a", ActionDie, 137)
			time.Sleep(time.Second)
		}, `
			0s observed a running 10.0.0.1
			0s synced start
			1m0.1s killed a 9
			1m0.1s died a 137
			1m0.1s observed a exited
			1m0.1s synced interval`},
		{"no engine at first", nil, func(f *fakeEngine) {
			f.silently(func() { f.down = errors.New("refused") })
			time.Sleep(30 * time.Second)
			f.silently(func() { f.run("a") })
			f.revive()
			time.Sleep(10 * time.Second)
		}, `
			0s lost: refused
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
			0s observed a running 10.0.0.1
			0s synced start
			1s died a 1
			1s observed a exited
			2s died a 2
			2s observed a exited
			2s observed b running 10.0.0.1
			2s synced lossy`},
		{"doubts while a list waits for a hung container", nil, func(f *fakeEngine) {
			f.silently(func() { f.run("a"); f.run("hung"); f.hung["hung"] = true })
			time.Sleep(time.Second)
			for range 4 {
				f.die("a", 1)
				time.Sleep(100 * time.Millisecond)
			}
			time.Sleep(5 * time.Second)
			f.die("a", 2)
			f.silently(func() { clear(f.hung) })
			time.Sleep(6 * time.Second)
		}, `
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
			10s synced start
			10s observed hung running 10.0.0.1
			10s synced lossy`},
		{"a start without a death", nil, func(f *fakeEngine) {
			f.silently(func() { f.run("a") })
			time.Sleep(20 * time.Second)
			f.start("a")
			time.Sleep(time.Second)
		}, `
			0s observed a running 10.0.0.1
			0s synced start
			20s observed a running 10.0.0.1
			20s synced lossy`},
		{"an event of an earlier run", nil, func(f *fakeEngine) {
			f.silently(func() { f.run("a") })
			time.Sleep(time.Second)
			late := Event{ID: "a", Action: ActionDie, Time: time.Now(), Name: "a", Labels: map[string]string{}}
			time.Sleep(time.Second)
			f.start("a")
			time.Sleep(time.Second)
			f.stream.events <- late
			time.Sleep(100 * time.Millisecond)
		}, `
			0s observed a running 10.0.0.1
			0s synced start
			2s observed a running 10.0.0.1`},
		{"a sick container", nil, func(f *fakeEngine) {
			f.silently(func() { f.run("a") })
			f.silently(func() { f.run("b") })
			f.silently(func() { f.sick["a"] = errors.New("sick") })
			time.Sleep(time.Second)
			f.silently(func() { delete(f.sick, "a") })
			time.Sleep(time.Second)
		}, `
			0s observed b running 10.0.0.1
			0s synced start
			1.41s observed a running 10.0.0.1`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeEngine()
				got := diary(t, &Watcher{Name: "fake", Source: f, Wanted: tt.wanted}, tt.script)
				compare(t, got, tt.want)
			})
		})
	}
}

func TestWatchReconnects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeEngine()
		got := diary(t, &Watcher{Name: "fake", Source: f}, func(f *fakeEngine) {
			f.silently(func() { f.run("a") })
			f.silently(func() { f.run("b") })
			time.Sleep(20 * time.Second)
			f.crash(errors.New("unexpected EOF"))
			time.Sleep(5 * time.Second)
			f.silently(func() { f.end("b", 0) })
			f.revive()
			time.Sleep(15 * time.Second)
			f.silently(func() {
				if len(f.inspected) != 3 {
					t.Errorf("inspected %v", f.inspected)
				}
			})
		})
		want := `
			0s observed a running 10.0.0.1
			0s observed b running 10.0.0.1
			0s synced start
			20s lost: the event stream ended: unexpected EOF
			~ observed b exited
			~ synced reconnect`
		compare(t, got, want)
	})
}

func TestWatchReplaysOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeEngine()
		got := diary(t, &Watcher{Name: "fake", Source: f}, func(f *fakeEngine) {
			f.silently(func() { f.run("a") })
			time.Sleep(10 * time.Second)
			f.tell("a", ActionUpdate, 0)
			f.tell("a", ActionKill, 1)
			time.Sleep(time.Second)
			f.crash(errors.New("cut"))
			f.silently(func() { f.down = nil })
			f.kill("a", 15) // while nobody listened; the engine remembers
			time.Sleep(10 * time.Second)
		})
		want := `
			0s observed a running 10.0.0.1
			0s synced start
			10s killed a 1
			11s lost: the event stream ended: cut
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
		got := diary(t, &Watcher{Name: "fake", Source: f, Since: time.Now().Add(-time.Minute)}, func(*fakeEngine) {
			time.Sleep(time.Second)
		})
		b := slices.IndexFunc(got, func(l string) bool { return l == "0s observed b running 10.0.0.1" })
		if b < 0 {
			t.Fatalf("b was not observed: %v", got)
		}
		compare(t, slices.Delete(got, b, b+1), `
			0s observed a exited after killed a 15 after died a 143
			0s synced start`)
	})
}

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
			f.tell("a", ActionDie, 1)
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
		got := diary(t, &Watcher{Name: "fake", Source: f, Relist: time.Hour}, func(f *fakeEngine) {
			for i := range 3 * inspectors {
				id := fmt.Sprintf("hung%02d", i)
				f.silently(func() { f.run(id) })
				f.silently(func() { f.hung[id] = true })
			}
			f.silently(func() { f.run("well") })
			time.Sleep(9 * time.Second)
			f.die("well", 1)
			time.Sleep(5 * time.Second)
		})
		compare(t, got, `
			3s observed well running 10.0.0.1
			9s died well 1
			9s observed well exited
			12s synced start`)
	})
}

func TestWatchSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeEngine()
		got := diary(t, &Watcher{Name: "fake", Source: f, Relist: time.Hour}, func(f *fakeEngine) {
			time.Sleep(5 * time.Minute)
			f.silently(func() { f.mute = true })
			time.Sleep(41 * time.Second)
		})
		want := `
			0s synced start
			~ lost: the event stream is silent and the engine does not answer: context deadline exceeded
			~ synced reconnect`
		compare(t, got, want)
	})
}

func TestWatchRelistCostsOneCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeEngine()
		diary(t, &Watcher{Name: "fake", Source: f, Relist: 10 * time.Second}, func(f *fakeEngine) {
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
		w := &Watcher{Name: "fake", Source: f, Refresh: refresh, Wanted: func(name string, _ map[string]string) bool { return name == wanted.Load() }}
		got := diary(t, w, func(f *fakeEngine) {
			f.silently(func() { f.run("a") })
			f.silently(func() { f.run("b") })
			time.Sleep(time.Second)
			wanted.Store("b")
			refresh <- struct{}{}
			time.Sleep(time.Second)
		})
		compare(t, got, `
			0s observed a running 10.0.0.1
			0s synced start
			1s removed a
			1s observed b running 10.0.0.1
			1s synced refresh`)
	})
}

func TestWatchSharedNetwork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeEngine()
		w := &Watcher{Name: "fake", Source: f, Wanted: func(name string, _ map[string]string) bool { return name == "child" }}
		got := diary(t, w, func(f *fakeEngine) {
			f.silently(func() { f.run("parent") })
			f.silently(func() { f.run("child") })
			f.silently(func() { f.containers["child"].NetworkOf = "parent" })
			time.Sleep(time.Second)
			f.silently(func() {
				c := *f.containers["child"]
				c.Address = "10.0.0.9"
				f.containers["child"] = &c
			})
			f.start("parent")
			time.Sleep(time.Second)
		})
		compare(t, got, `
			0s observed child running 10.0.0.1
			0s synced start
			1s observed child running 10.0.0.9`)
	})
}

func TestWatchEndsWhenNobodyTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := errors.New("full")
		err := (&Watcher{Name: "fake", Source: newFakeEngine()}).Run(t.Context(), func(context.Context, Update) error { return full })
		if !errors.Is(err, full) {
			t.Errorf("got %v", err)
		}
	})
}

// No event came before the stream broke; while it is away somebody stops a.
func TestWatchReplaysOnAQuietHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeEngine()
		f.silently(func() { f.run("a") })
		got := diary(t, &Watcher{Name: "fake", Source: f}, func(f *fakeEngine) {
			time.Sleep(10 * time.Second)
			f.crash(errors.New("proxy away"))
			time.Sleep(time.Second)
			f.kill("a", 15) // stays in the engine's buffer
			time.Sleep(time.Second)
			f.silently(func() { f.down = nil })
			time.Sleep(30 * time.Second)
		})
		if !slices.ContainsFunc(got, func(l string) bool { return strings.Contains(l, "killed a 15") }) {
			t.Errorf("the kill was not replayed:\n%s", strings.Join(got, "\n"))
		}
	})
}

// Red Hat's images have a label "name"; the engine's own attribute of that name
// hides it in events.
func TestLabelHiddenInEvents(t *testing.T) {
	v := newView(func(_ string, l map[string]string) bool { return l["name"] == "db" })
	c := &Container{ID: "a", Name: "web", Labels: map[string]string{"name": "db"}, State: Running, StartedAt: time.Unix(1, 0)}
	v.list([]Summary{{ID: "a", Name: "web", Labels: c.Labels, State: Running}}, 0)
	v.inspected(v.take(), c, nil, time.Unix(2, 0))
	v.out = nil
	v.event(Event{ID: "a", Action: ActionKill, Signal: 15, Time: time.Unix(3, 0), Name: "web", Labels: map[string]string{}}, 0)
	if len(v.out) != 1 || v.out[0].Kind != Killed {
		t.Errorf("an event made the container unwanted: %+v", v.out)
	}
}

func TestWitnessed(t *testing.T) {
	for _, tt := range []struct {
		name   string
		events []Action
		want   bool
	}{
		{"found by a list", nil, false},
		{"a rename tells nothing of its end", []Action{ActionRename}, false},
		{"its creation was heard", []Action{ActionCreate}, true},
		{"its end was heard", []Action{ActionDie}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := newView(nil)
			v.list([]Summary{{ID: "a", Name: "a", State: Exited}}, 0)
			for i, a := range tt.events {
				v.event(Event{ID: "a", Action: a, Time: time.Unix(int64(i+1), 0)}, 0)
			}
			v.inspected(v.take(), &Container{ID: "a", Name: "a", State: Exited}, nil, time.Unix(9, 0))
			if len(v.out) != 1 || v.out[0].Witnessed != tt.want {
				t.Errorf("sent %+v, want witnessed %v", v.out, tt.want)
			}
		})
	}
}
