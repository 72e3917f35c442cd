package prober

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// queuer has containers wait for a place, in the order of the calls.
type queuer struct {
	t      *testing.T
	places *places
	served chan string
	got    map[string]*place
}

func newQueuer(t *testing.T, n int) *queuer {
	return &queuer{t: t, places: newPlaces(n), served: make(chan string, 100), got: map[string]*place{}}
}

// take takes a place that is free.
func (q *queuer) take(container string) *place {
	q.t.Helper()
	l, err := q.places.acquire(q.t.Context(), container, time.Nanosecond)
	if err != nil {
		q.t.Fatal(err)
	}
	return l
}

// wait has a container wait. When it is served it holds the place for that long.
func (q *queuer) wait(container string, hold time.Duration) {
	go func() {
		l, err := q.places.acquire(q.t.Context(), container, time.Hour)
		if err != nil {
			q.t.Error(err)
			return
		}
		q.served <- container
		time.Sleep(hold)
		l.release()
	}()
	synctest.Wait()
}

// want waits until all that wait were served, and checks their order.
func (q *queuer) want(order string) {
	q.t.Helper()
	var got []string
	for range strings.Fields(order) {
		got = append(got, <-q.served)
	}
	if !slices.Equal(got, strings.Fields(order)) {
		q.t.Errorf("served %q, want %q", got, order)
	}
	time.Sleep(time.Minute)
}

func TestPlaces(t *testing.T) {
	const short, long = 10 * time.Millisecond, maxHold - time.Millisecond
	for _, tt := range []struct {
		name string
		test func(q *queuer)
	}{
		{"first come, first served", func(q *queuer) {
			l := q.take("z")
			for _, c := range []string{"c", "a", "b"} {
				q.wait(c, short)
			}
			l.release()
			q.want("c a b")
		}},
		{"the one that waits for one more comes last", func(q *queuer) {
			l := q.take("z")
			for _, c := range []string{"a", "a", "a", "b", "c"} {
				q.wait(c, short)
			}
			l.release()
			q.want("a b c a a")
		}},
		{"the one that held a place for long comes last", func(q *queuer) {
			q.wait("slow", long)
			q.wait("quick", short)
			q.want("slow quick")
			l := q.take("z")
			for _, c := range []string{"slow", "quick", "new"} {
				q.wait(c, short)
			}
			l.release()
			q.want("quick new slow")
		}},
		{"time in which nobody else waited is no matter", func(q *queuer) {
			q.wait("seldom", short)
			q.want("seldom")
			for range 100 {
				q.wait("often", short)
				q.want("often")
			}
			l := q.take("z")
			for _, c := range []string{"often", "seldom"} {
				q.wait(c, short)
			}
			l.release()
			q.want("often seldom")
		}},
		{"one that waited in vain keeps its rank", func(q *queuer) {
			l := q.take("z")
			if _, err := q.places.acquire(q.t.Context(), "vain", time.Second/4); err == nil {
				q.t.Error("it got a place that was not free")
			}
			for _, c := range []string{"a", "b", "vain"} {
				q.wait(c, short)
			}
			l.release()
			q.want("vain a b")
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { tt.test(newQueuer(t, 1)) })
		})
	}
}

// One that comes back after a long time has not saved up any.
func TestPlacesCannotBeSaved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(1)
		idle := &member{name: "idle", hold: startCost}
		c.ask(idle)
		busy := []*member{c.asksAlways("a", startCost), c.asksAlways("b", startCost)}
		c.live(time.Hour)
		for _, m := range busy {
			m.longest = 0
		}
		c.asksAlways("idle", startCost)
		c.live(time.Minute)
		for _, m := range busy {
			if m.longest > 4*startCost {
				t.Errorf("%s waited for up to %v", m.name, m.longest)
			}
		}
	})
}

// A container that holds a place comes after those that hold none, even if it has used less.
func TestPlacesOfOneContainer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueuer(t, 2)
		q.wait("b", 500*time.Millisecond)
		q.want("b")
		a, z := q.take("a"), q.take("z")
		q.wait("a", time.Millisecond)
		q.wait("b", time.Millisecond)
		z.release()
		q.want("b a")
		a.release()
	})
}

// A start that hangs keeps its place for half a second. The command goes on.
func TestPlaceExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueuer(t, 1)
		l := q.take("hung")
		begin := time.Now()
		next, err := q.places.acquire(t.Context(), "next", time.Minute)
		if err != nil || time.Since(begin) != maxHold {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
		l.release()
		if _, err := q.places.acquire(t.Context(), "third", time.Millisecond); err == nil {
			t.Error("the place of the hung start was given back twice")
		}
		next.release()
		q.take("third").release()
	})
}

// One that starts while others hang shows that they hang, so all their places are free.
func TestHungStartsMakeRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueuer(t, 3)
		hung := []*place{q.take("a"), q.take("b"), q.take("c")}
		for range 2 { // one more each time, and it hangs, too
			begin := time.Now()
			l, err := q.places.acquire(t.Context(), "d", time.Minute)
			if err != nil || time.Since(begin) != maxHold {
				t.Fatalf("%v after %v", err, time.Since(begin))
			}
			hung = append(hung, l)
		}
		time.Sleep(maxHold)
		begin := time.Now()
		l := q.take("e")
		time.Sleep(startCost)
		l.started()
		if time.Since(begin) != startCost {
			t.Errorf("one more began after %v", time.Since(begin))
		}
		time.Sleep(time.Nanosecond)
		for _, container := range []string{"f", "g", "h"} {
			q.take(container)
		}
		for _, l := range hung { // their places are others' now
			l.release()
		}
		if _, err := q.places.acquire(t.Context(), "i", time.Millisecond); err == nil {
			t.Error("a place was given back twice")
		}
	})
}

// When all starts take long, one that ends makes no room for more than one.
func TestSlowStartsMakeNoRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueuer(t, 3)
		var slow []*place
		for _, container := range []string{"a", "b", "c"} {
			slow = append(slow, q.take(container))
			time.Sleep(time.Second)
		}
		slow[0].started() // after 3 s
		q.take("d")
		if _, err := q.places.acquire(t.Context(), "e", maxHold-time.Millisecond); err == nil {
			t.Error("b or c has lost its place")
		}
	})
}

func TestPlacesGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueuer(t, 1)
		l := q.take("a")
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Millisecond, cancel)
		if _, err := q.places.acquire(ctx, "b", time.Minute); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		if _, err := q.places.acquire(ctx, "b", time.Minute); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v of a context that has ended", err)
		}
		if _, err := q.places.acquire(t.Context(), "c", time.Millisecond); err == nil {
			t.Error("got a place that was not free")
		}
		l.release()
		q.take("d").release()
		if len(q.places.waiting) > 0 || len(q.places.held) > 0 {
			t.Errorf("%d wait, %d places are held", len(q.places.waiting), len(q.places.held))
		}
	})
}

// When the place comes and the wait ends at the same time, no place is lost.
func TestPlacesAtTheLastMoment(t *testing.T) {
	for i := range 200 {
		synctest.Test(t, func(t *testing.T) {
			q := newQueuer(t, 1)
			l := q.take("a")
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			time.AfterFunc(time.Second, l.release)
			patience := time.Minute
			if i%2 == 0 {
				patience = time.Second
			}
			if l, err := q.places.acquire(ctx, "b", patience); err == nil {
				l.release()
			}
			synctest.Wait()
			q.take("c").release()
		})
	}
}

// Whatever happens to whom, the one that is served next is before all others that wait.
func TestPlacesServeTheFirst(t *testing.T) {
	for seed := range uint64(often(100, 20)) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 0))
			p := newPlaces(3)
			var waiters []*placeWaiter
			var held []*place
			for range 200 {
				time.Sleep(time.Duration(random.IntN(100)) * time.Millisecond)
				switch i := random.IntN(100); {
				case i < 50:
					waiters = append(waiters, p.enqueue(fmt.Sprint("c", i%20)))
				case i < 60 && len(waiters) > 0:
					p.leaveQueue(waiters[random.IntN(len(waiters))])
				case i < 80 && len(held) > 0:
					held[0].release()
					held = held[1:]
				case len(held) > 0:
					held[len(held)-1].started()
					held = held[:len(held)-1]
				}
				waiters, held = collectGranted(waiters, held)
				wantFirst(t, p)
			}
		})
	}
}

// collectGranted moves what has a place from the waiters to those that hold one.
func collectGranted(waiters []*placeWaiter, held []*place) ([]*placeWaiter, []*place) {
	waiters = slices.DeleteFunc(waiters, func(w *placeWaiter) bool {
		select {
		case l := <-w.granted:
			held = append(held, l)
			return true
		default:
			return false
		}
	})
	return waiters, held
}

func wantFirst(t *testing.T, p *places) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	waiting := 0
	for name, u := range p.users {
		if len(u.queue) == 0 {
			continue
		}
		waiting++
		if u.used > p.share+maxDebt {
			t.Fatalf("%s has used %v, and its share is %v", name, u.used, p.share)
		}
		if p.waiting[u.index] != u || u.before(p.waiting[0]) {
			t.Fatalf("%s is not where it belongs", name)
		}
	}
	if waiting != len(p.waiting) || waiting > 0 && len(p.held) < p.total {
		t.Fatalf("%d wait, %d of them in the queue, and %d places are held", waiting, len(p.waiting), len(p.held))
	}
}

// Containers come and go for ever, beside one that stays or not.
func TestPlacesForget(t *testing.T) {
	for name, staying := range map[string]bool{"beside a busy one": true, "beside none": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newQueuer(t, 2)
				for i := range 10_000 {
					using := []*place{q.take(fmt.Sprint("passing-", i))}
					if staying {
						using = append(using, q.take("steady"))
					}
					time.Sleep(40 * time.Millisecond)
					for _, l := range using {
						l.release()
					}
					time.Sleep(time.Minute)
				}
				if n := len(q.places.users); n > 4*minSweep {
					t.Errorf("%d containers are remembered", n)
				}
			})
		})
	}
}

// A container that asks more than once an hour, in vain, is still told from one that has just come.
func TestPlacesRememberRareCommands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueuer(t, 1)
		for range 3 {
			l := q.take("z")
			if _, err := q.places.acquire(t.Context(), "rare", time.Millisecond); err == nil {
				t.Fatal("it got a place that was not free")
			}
			l.release()
			time.Sleep(forgetIdle / 2)
			for i := range 2 * minSweep {
				q.take(fmt.Sprint("passing-", i)).release()
			}
			time.Sleep(forgetIdle / 4)
		}
		l := q.take("z")
		q.wait("new", time.Millisecond)
		q.wait("rare", time.Millisecond)
		l.release()
		q.want("rare new")
	})
}

// However many come within an hour, and wait in vain, few are remembered.
func TestPlacesForgetMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueuer(t, 1)
		q.take("z")
		most := 0
		for i := range often(5, 2) * maxIdle {
			q.places.leaveQueue(q.places.enqueue(fmt.Sprint("passing-", i)))
			most = max(most, len(q.places.users))
		}
		if most > maxIdle+1 {
			t.Errorf("%d containers were remembered", most)
		}
	})
}
