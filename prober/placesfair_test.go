package prober

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"
)

// Whoever comes, each container that always asks has at least half of the place time that it would have had if all that ask
// had shared the places evenly.
func TestPlacesAreShared(t *testing.T) {
	const usual, slow = startCost, maxHold - time.Millisecond
	stay := func(n int, hold time.Duration) func(*crowd) {
		return func(c *crowd) {
			for i := range n {
				c.asksAlways(fmt.Sprint("new-", i), hold)
			}
		}
	}
	for _, tt := range []struct {
		name        string
		places, old int // containers that have been there for long
		come        func(c *crowd)
		ask         int // containers at once, at most
		during      time.Duration
	}{
		{"new ones that stay", 2, 20, stay(40, usual), 60, 2 * time.Minute},
		{"new ones that stay and start slowly", 2, 20, stay(20, slow), 40, 2 * time.Minute},
		{"new ones without end", 2, 20, func(c *crowd) { c.comes(100, usual) }, 120, 2 * time.Minute},
		{"new ones without end that start slowly", 2, 20, func(c *crowd) { c.comes(100, slow) }, 120, 2 * time.Minute},
		{"10,000 of them, and new ones without end", 8, 10_000, func(c *crowd) { c.comes(500, usual) }, 10_500, 5 * time.Minute},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if testing.Short() && tt.old > 1000 {
				t.Skip("make test-engines runs it")
			}
			synctest.Test(t, func(t *testing.T) {
				c := newCrowd(tt.places)
				c.passHours()
				for i := range tt.old {
					c.asksAlways(fmt.Sprint("old-", i), usual)
				}
				c.live(time.Minute)
				for _, m := range c.always {
					m.turns = 0
				}
				tt.come(c)
				c.live(tt.during)
				share := tt.during * time.Duration(tt.places) / time.Duration(tt.ask)
				little, none := 0, 0
				for _, m := range c.always {
					if time.Duration(m.turns+1)*m.hold < share/2 {
						little++
					}
					if m.turns == 0 {
						none++
					}
				}
				if little > 0 {
					t.Errorf("of %d, %d had less than half of %v, %d had no turn", len(c.always), little, share, none)
				}
			})
		})
	}
}

// passHours has some of the old containers use places for hours, while nobody else wants one.
func (c *crowd) passHours() {
	for i := range 4 * time.Hour / time.Second {
		w := c.places.enqueue(fmt.Sprint("old-", i%20))
		time.Sleep(maxHold / 2)
		(<-w.granted).started()
		time.Sleep(time.Second - maxHold/2)
	}
}

// However containers come, go, give up and come again, one that keeps asking waits for no longer than places says. If those
// that gave up stay away, it also has half of its share over any time, but for what it may be ahead.
func TestPlacesStarveNobody(t *testing.T) {
	for seed := range uint64(often(40, 6)) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 0))
			c, stubborn := newCrowd(1+random.IntN(8)), seed%2 == 0
			comeAtRandom(c, random, stubborn)
			var all []*watched
			for i := range 1 + random.IntN(12) {
				all = append(all, watch(c, fmt.Sprint("steady-", i), holdAtRandom(random)))
			}
			c.live(time.Minute)
			for _, w := range all {
				if w.turns == 0 || w.overdue != "" {
					t.Errorf("seed %d: %s had %d turns, and waited for %s", seed, w.name, w.turns, w.overdue)
				}
				if !stubborn && w.behind > maxDebt {
					t.Errorf("seed %d: %s was %.1f s behind half of its share", seed, w.name, w.behind)
				}
			}
		})
	}
}

func holdAtRandom(random *rand.Rand) time.Duration {
	if random.IntN(3) == 0 { // it starts slowly
		return maxHold/2 + time.Duration(random.Int64N(int64(maxHold/2)))
	}
	return startCost/2 + time.Duration(random.Int64N(int64(startCost)))
}

// comeAtRandom has containers come, now and then none for a while. They ask a few times, with pauses. One that had no turn
// comes again if it is stubborn.
func comeAtRandom(c *crowd, random *rand.Rand, stubborn bool) {
	pause, n := int64(time.Millisecond)<<random.IntN(9), 0
	c.repeat(func() time.Duration {
		n++
		m := &member{
			name: fmt.Sprint("passing-", n), hold: holdAtRandom(random),
			patience: time.Duration(1 + random.Int64N(int64(2*time.Second))),
		}
		left := 1 + random.IntN(4)
		m.next = func() {
			if left--; left > 0 && (stubborn || m.turns > 0) {
				c.plan(time.Duration(random.Int64N(int64(10*time.Second))), func() { c.ask(m) })
			}
		}
		c.ask(m)
		if random.IntN(1000) == 0 {
			return time.Duration(random.Int64N(int64(10 * time.Second)))
		}
		return time.Duration(random.Int64N(2 * pause))
	})
}

// watched is a container that asks always, and whose waits and share are checked.
type watched struct {
	*member
	c         *crowd
	among, of int     // of its newest wish: how many waited or held a place, and had come for a while, until then
	had       float64 // seconds
	least     float64 // that it was behind half of its share
	behind    float64 // the most that it fell behind in any time
	overdue   string  // a wait that was too long
}

func watch(c *crowd, name string, hold time.Duration) *watched {
	w := &watched{member: &member{name: name, hold: hold}, c: c, least: math.Inf(1)}
	w.turn = w.hasTurn
	w.next = func() {
		w.had += w.hold.Seconds()
		w.ask()
	}
	w.ask()
	return w
}

func (w *watched) ask() {
	w.among, w.of = len(w.c.places.waiting)+len(w.c.places.held)+1, w.c.passing
	w.c.ask(w.member)
}

func (w *watched) hasTurn(waited time.Duration) {
	n := w.among + w.c.passing - w.of
	if most := float64(n) * (3*maxDebt + maxHold.Seconds()) / float64(w.c.places.total); waited.Seconds() > most {
		w.overdue = fmt.Sprintf("%v among %d, want at most %.1f s", waited, n, most)
	}
	late := w.c.places.share/2 - w.had
	w.least = min(w.least, late)
	w.behind = max(w.behind, late-w.least)
}
