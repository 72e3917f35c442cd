package supervisor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"healthd/prober"
	"healthd/runtime"
	"healthd/supervisor/core"
)

// newStillLoop returns a loop that does not run: the test passes it the messages. It has n
// running containers, whose probes never answer.
func newStillLoop(t testing.TB, n int, change func(*Config)) (*loop, []*entry) {
	spec := webSpec()
	c := Config{
		Resolve: func(runtime.Traits) (*core.Spec, error) { return spec, nil }, Prober: hangingProber{},
		Journal: journalFunc(func(core.Event) {}),
	}
	change(&c)
	s := New(c)
	asking, end := context.WithCancel(context.Background())
	l := newLoop(s, &sync.WaitGroup{}, asking, asking)
	t.Cleanup(func() { end(); l.wg.Wait() })
	l.handle(update{Kind: runtime.Synced, Runtime: "docker"}) // healthd restarts nothing before
	var all []*entry
	for i := range n {
		id := fmt.Sprintf("c%d", i)
		l.handle(update{Kind: runtime.Observed, Runtime: "docker", ID: id, Container: &runtime.Container{
			ID: id, Name: id, Runtime: "docker", State: runtime.Running, StartedAt: time.Now(), StopTimeout: -1,
		}})
		all = append(all, l.entries[id])
	}
	return l, all
}

// hangingProber is a Prober whose probes end with their container or the loop.
type hangingProber struct{ gatedProber }

func (hangingProber) Probe(prober.Handler, prober.Target) (prober.Probe, error) {
	return hangingProbe{}, nil
}

type hangingProbe struct{}

func (hangingProbe) Close() {}

func (hangingProbe) Ask(ctx context.Context, _ time.Duration) prober.Result {
	<-ctx.Done()
	return prober.Result{Cause: prober.Pending}
}

// slicedLoop returns a still loop with n containers and slices of three steps: in a bubble, where none ends earlier
// because the machine is busy.
func slicedLoop(t *testing.T, n int) *loop {
	l, _ := newStillLoop(t, n, func(*Config) {})
	l.sliceSteps = 3
	return l
}

// countViews counts the containers whose view on the board is as wanted.
func (l *loop) countViews(wanted func(*core.View) bool) (n int) {
	for _, v := range l.board.Views() {
		if wanted(v) {
			n++
		}
	}
	return n
}

func isLost(v *core.View) bool { return v.State.Lost }

// The loss of an engine concerns all its containers. The loop does a slice at a time, and
// handles other messages between two slices. A message about a container finds it as if all
// had been done at once.
func TestChangeOfManyComesInSlices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := slicedLoop(t, 10)
		l.handle(update{Kind: runtime.Lost, Runtime: "docker", Err: errors.New("EOF")})
		if n := l.countViews(isLost); n != 3 {
			t.Errorf("after the first slice %d are lost", n)
		}
		reply := make(chan error, 1)
		l.handle(request{id: "c9", do: (*loop).restart, reply: reply})
		if err := <-reply; !errors.Is(err, ErrRuntimeLost) {
			t.Errorf("the restart of one that comes later: %v", err)
		}
		if n := l.countViews(isLost); n != 4 {
			t.Errorf("after a message about another one %d are lost", n)
		}
		l.workOff()
		if n := l.countViews(isLost); n != 7 {
			t.Errorf("after the second slice %d are lost", n)
		}
		l.workOff()
		if n := l.countViews(isLost); n != 10 {
			t.Errorf("in the end %d are lost", n)
		}
	})
}

// A container that is due before its turn gets first what it is owed.
func TestDueContainerIsOwedAChangeOfMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := slicedLoop(t, 10)
		l.handle(update{Kind: runtime.Lost, Runtime: "docker", Err: errors.New("EOF")})
		e := l.entries["c9"]
		for l.queue.first() != nil {
			l.queue.set(l.queue.first(), time.Time{})
		}
		l.queue.set(e, time.Now())
		l.stepDue(time.Now())
		if !isLost(e.slot.view.Load()) || len(e.owed) > 0 {
			t.Error("it is stepped as if the engine were not lost")
		}
	})
}

// What comes for a container while it is still owed an earlier change keeps its order.
func TestChangesOfManyKeepTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := slicedLoop(t, 10)
		for range 5 {
			l.handle(update{Kind: runtime.Lost, Runtime: "docker", Err: errors.New("EOF")})
			l.handle(update{Kind: runtime.Synced, Runtime: "docker"})
		}
		for len(l.backlog) > 0 {
			l.workOff()
		}
		if n := l.countViews(isLost); n != 0 || !l.runtimeUp() {
			t.Errorf("%d are lost; the runtime is up: %v", n, l.runtimeUp())
		}
	})
}

// The board shows a runtime as synced when all its containers know.
func TestRuntimeIsShownAfterItsContainers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := slicedLoop(t, 10)
		l.handle(update{Kind: runtime.Lost, Runtime: "docker", Err: errors.New("EOF")})
		for len(l.backlog) > 0 {
			l.workOff()
		}
		l.handle(update{Kind: runtime.Synced, Runtime: "docker"})
		for slices := 1; ; slices++ {
			if l.runtimeUp() {
				if n := l.countViews(isLost); n > 0 || slices < 4 {
					t.Errorf("after %d slices it is up, and %d containers are lost", slices, n)
				}
				return
			}
			l.workOff()
		}
	})
}

func (l *loop) runtimeUp() bool { return l.board.Runtimes()[0].Up }

// A reload returns when it has reached all containers. One that is removed before its turn
// misses it.
func TestReloadReturnsWhenAllHaveTheirSpecs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := slicedLoop(t, 10)
		spec := webSpec()
		go func() {
			_ = l.Reload(context.Background(), func(c runtime.Traits) (*core.Spec, error) {
				if c.Name == "c1" {
					return nil, nil
				}
				return spec, nil
			}, core.Guard{})
			close(l.ended)
		}()
		l.handle(<-l.inbox)
		l.handle(update{Kind: runtime.Removed, Runtime: "docker", ID: "c8"})
		hasSpec := func(v *core.View) bool { return v.Spec == spec }
		for slices := 1; ; slices++ {
			select {
			case <-l.ended:
				if n := l.countViews(hasSpec); n != 8 || slices < 3 {
					t.Errorf("it returned after %d slices, when %d had the new spec", slices, n)
				}
				return
			default:
				l.workOff()
			}
		}
	})
}

// The next daemon must not take events as seen whose consequences this one did not store.
func TestSeenComesAfterWhatFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &orderedStore{}
		l, _ := newStillLoop(t, 10, func(c *Config) { c.Store = store })
		l.sliceSteps = 3
		store.calls = nil
		l.handle(request{reply: make(chan error, 1), all: func(l *loop) {
			l.eachLater(l.allEntries(), l.stopSupervising)
		}})
		l.handle(update{Kind: runtime.Bookmark, Runtime: "docker", SeenUntil: time.Now()})
		for len(l.backlog) > 0 {
			l.workOff()
		}
		if want := append(slices.Repeat([]string{"remember"}, 10), "seen"); !slices.Equal(store.calls, want) {
			t.Errorf("calls of the store: %v", store.calls)
		}
	})
}

// orderedStore notes the order of its calls.
type orderedStore struct {
	noStore
	calls []string
}

func (s *orderedStore) Remember(*core.Memory) <-chan struct{} {
	s.calls = append(s.calls, "remember")
	return closedChannel
}

func (s *orderedStore) SetSeen(string, time.Time) { s.calls = append(s.calls, "seen") }

// When the probes of all containers answer at once, other messages do not wait for them.
func TestAnswersOfManyProbesKeepNobodyWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 1000
		answer, leave := make(gatedProber), make(chan bool)
		h := newHarnessWith(t, slowReadySpec(core.Group{}), func(c *Config) { c.Prober = answer })
		h.sendSynced()
		for i := range n {
			h.engine.run(fmt.Sprint(i))
		}
		time.Sleep(5 * time.Second) // all are being asked
		_ = h.send(t.Context(), inspectLoop(func(*loop) { <-leave }))
		close(answer)
		synctest.Wait()
		answered := make(chan int, 1)
		go func() {
			_ = h.send(t.Context(), inspectLoop(func(l *loop) {
				answered <- l.countViews(func(v *core.View) bool { return !v.State.Health.Probes[core.Liveness].Running })
			}))
		}()
		synctest.Wait()
		close(leave)
		if n := <-answered; n > 500 {
			t.Errorf("%d answers came before the message", n)
		}
		h.close()
	})
}

// gatedProber is a Prober whose probes succeed when the channel is closed.
type gatedProber chan struct{}

func (p gatedProber) Probe(prober.Handler, prober.Target) (prober.Probe, error) { return p, nil }

func (p gatedProber) Hook(prober.LifecycleHandler, prober.Target) (prober.Hook, error) {
	return nil, errors.New("there are no hooks")
}

func (p gatedProber) Close() {}

func (p gatedProber) Ask(context.Context, time.Duration) prober.Result {
	<-p
	return success
}
