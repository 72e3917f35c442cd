package prober

import (
	"container/heap"
	"fmt"
	"testing/synctest"
	"time"
)

// crowd is many containers that want places, in the virtual time of a bubble. They have no goroutines: the race
// detector allows too few.
type crowd struct {
	places  *places
	plans   plans
	planned int
	passing int // wishes of containers that give up
	always  []*member
	waits   map[*placeUser]*member
	holds   map[*place]bool
}

// member is one container of a crowd. It has one wish at a time.
type member struct {
	name     string
	hold     time.Duration // how long each start takes; less than maxHold
	patience time.Duration // 0: endless
	next     func()        // after a turn, or a wait in vain; nil: it goes

	waiter  *placeWaiter
	asked   time.Time
	turns   int
	longest time.Duration       // that it waited for a turn
	turn    func(time.Duration) // is told of each turn, and how long it waited; may be nil
}

func newCrowd(places int) *crowd {
	return &crowd{places: newPlaces(places), waits: map[*placeUser]*member{}, holds: map[*place]bool{}}
}

// plan has something happen after a while.
func (c *crowd) plan(after time.Duration, do func()) {
	c.planned++
	heap.Push(&c.plans, plan{time.Now().Add(after), c.planned, do})
}

// live lets everything happen that is planned for that time.
func (c *crowd) live(during time.Duration) {
	for end := time.Now().Add(during); len(c.plans) > 0 && !c.plans[0].at.After(end); {
		next := heap.Pop(&c.plans).(plan)
		if wait := time.Until(next.at); wait > 0 {
			time.Sleep(wait)
			synctest.Wait()
		}
		next.do()
	}
}

func (c *crowd) ask(m *member) {
	w := c.places.enqueue(m.name)
	m.waiter, m.asked = w, time.Now()
	c.waits[w.user] = m
	if m.patience > 0 {
		c.passing++
		c.plan(m.patience, func() { c.giveUp(m, w) })
	}
	c.noteTurns()
}

func (c *crowd) giveUp(m *member, w *placeWaiter) {
	if m.waiter != w || !c.places.leaveQueue(w) {
		return
	}
	m.waiter = nil
	c.goOn(m)
}

func (c *crowd) goOn(m *member) {
	if m.next != nil {
		m.next()
	}
}

// noteTurns finds the places that were given away, and plans their ends.
func (c *crowd) noteTurns() {
	for _, l := range c.places.held {
		if c.holds[l] {
			continue
		}
		c.holds[l] = true
		m, waited := c.waits[l.user], time.Since(c.waits[l.user].asked)
		m.waiter = nil
		m.turns, m.longest = m.turns+1, max(m.longest, waited)
		if m.turn != nil {
			m.turn(waited)
		}
		c.plan(m.hold, func() {
			l.started()
			delete(c.holds, l)
			c.noteTurns()
			c.goOn(m)
		})
	}
}

// asksAlways adds a container that asks again as soon as its turn is over.
func (c *crowd) asksAlways(name string, hold time.Duration) *member {
	m := &member{name: name, hold: hold}
	m.next = func() { c.ask(m) }
	c.always = append(c.always, m)
	c.ask(m)
	return m
}

// comes has new containers come for ever, so many each second. Each asks once, for at most a second, and goes.
func (c *crowd) comes(perSecond int, hold time.Duration) {
	n := 0
	c.repeat(func() time.Duration {
		n++
		c.ask(&member{name: fmt.Sprint("new-", n), hold: hold, patience: time.Second})
		return time.Second / time.Duration(perSecond)
	})
}

// repeat does something again and again, each time after the time that it returns.
func (c *crowd) repeat(do func() time.Duration) {
	var again func()
	again = func() { c.plan(do(), again) }
	again()
}

// plans are a heap: what happens first is first.
type plans []plan

type plan struct {
	at time.Time
	n  int
	do func()
}

// Len, Less, Swap, Push and Pop are for container/heap.
func (p plans) Len() int { return len(p) }

func (p plans) Less(i, j int) bool {
	if !p[i].at.Equal(p[j].at) {
		return p[i].at.Before(p[j].at)
	}
	return p[i].n < p[j].n
}

func (p plans) Swap(i, j int) { p[i], p[j] = p[j], p[i] }

// Push is heap.Push's.
func (p *plans) Push(x any) { *p = append(*p, x.(plan)) }

// Pop is heap.Pop's.
func (p *plans) Pop() any {
	last := len(*p) - 1
	x := (*p)[last]
	*p = (*p)[:last]
	return x
}
