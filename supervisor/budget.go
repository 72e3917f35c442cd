package supervisor

import (
	"fmt"
	"slices"
	"time"

	"healthd/supervisor/core"
)

// budget limits the restarts for failed probes over the whole host.
type budget struct {
	limit     core.Guard
	granted   []time.Time // restarts within limit.Window, oldest first
	waiting   entryHeap   // the longest wait comes first
	turns     turnQueue   // the same, in the order of their turns
	asking    entryHeap   // have their turn, and keep it while their liveness probe is asked once more
	changed   bool        // the first in waiting may be allowed to go on
	shown     int         // of waiting: how many the present look at all has reached
	exhausted bool        // at the last newlyExhausted
	board     *Board
}

func newBudget(limit core.Guard, board *Board) budget {
	b := budget{
		limit: limit, board: board, turns: newTurnQueue(),
		waiting: entryHeap{less: longestWait, place: func(e *entry) *int { return &e.place.budget }},
		asking:  entryHeap{less: longestWait, place: func(e *entry) *int { return &e.place.asking }},
	}
	b.show()
	return b
}

// BudgetView is what the Board shows of the host's restart budget.
type BudgetView struct {
	limit   core.Guard
	granted []time.Time // oldest first
}

// Remaining returns how many restarts for failed probes may begin at now, and false when there is no
// limit.
func (v *BudgetView) Remaining(now time.Time) (n int, limited bool) {
	if v.limit.MaxRestarts <= 0 {
		return 0, false
	}
	old := slices.IndexFunc(v.granted, func(at time.Time) bool { return now.Before(at.Add(v.limit.Window)) })
	if old < 0 {
		return v.limit.MaxRestarts, true
	}
	return max(0, v.limit.MaxRestarts-len(v.granted[old:])), true
}

// show has the board show the budget as it is now.
func (b *budget) show() {
	b.board.budget.Store(&BudgetView{limit: b.limit, granted: slices.Clone(b.granted)})
}

// maxGranted is how many of its own restarts the Store keeps with a container.
const maxGranted = 100

// free is how many restarts may begin now; 1 and more when there is no limit.
func (b *budget) free(now time.Time) int {
	if b.limit.MaxRestarts <= 0 {
		return 1 + b.waiting.Len() + b.asking.Len()
	}
	over := 0
	for over < len(b.granted) && b.expired(now)(b.granted[over]) {
		over++
	}
	b.granted = b.granted[over:]
	return b.limit.MaxRestarts - len(b.granted)
}

// put puts e where it waits, or where it keeps its turn.
func (b *budget) put(e *entry) {
	if !e.state.Health.Asking() {
		b.changed = b.asking.remove(e) || b.changed
		b.waiting.put(e)
		b.turns.put(e)
		return
	}
	if !b.asking.has(e) {
		b.remove(e)
		b.asking.put(e)
		b.turns.use(projectOf(e))
	}
}

// remove takes e out. Others may go on then.
func (b *budget) remove(e *entry) {
	b.turns.remove(e)
	if b.waiting.remove(e) || b.asking.remove(e) {
		b.changed = true
	}
}

// wait returns the wait for the budget when the containers before e use up what is left.
func (b *budget) wait(e *entry, now time.Time) core.Wait {
	before := b.asking.Len() + b.waiting.Len()
	switch {
	case b.asking.has(e):
		before = 0
	case b.turns.isNext(e):
		before = b.asking.Len()
	}
	if b.free(now)-before > 0 {
		return core.Wait{}
	}
	w := core.Wait{Reason: core.WaitRestartBudget, On: fmt.Sprintf("the host's budget of %d restarts in %v", b.limit.MaxRestarts, b.limit.Window)}
	if len(b.granted) > 0 {
		w.Until = b.granted[0].Add(b.limit.Window)
	}
	return w
}

// grant counts a restart of e that begins now.
func (b *budget) grant(e *entry, now time.Time) {
	if b.limit.MaxRestarts <= 0 {
		return
	}
	b.granted = append(b.granted, now)
	b.show()
	if !b.asking.has(e) { // else it was counted when it came
		b.turns.use(projectOf(e))
	}
	recent := append(slices.DeleteFunc(slices.Clone(e.granted), b.expired(now)), now)
	e.granted = recent[max(0, len(recent)-maxGranted):]
}

// expired returns a function that says whether a restart is outside the window.
func (b *budget) expired(now time.Time) func(time.Time) bool {
	return func(at time.Time) bool { return !now.Before(at.Add(b.limit.Window)) }
}

// load counts the restarts that earlier daemons granted. One in the future counts as of
// now: the clock was set back.
func (b *budget) load(past []*core.Memory, now time.Time) {
	for _, m := range past {
		for _, at := range m.Granted {
			b.granted = append(b.granted, earlier(at, now))
		}
	}
	b.granted = slices.DeleteFunc(b.granted, b.expired(now))
	slices.SortFunc(b.granted, time.Time.Compare)
	b.show()
}

// toShow returns the next of the waiting containers in the present look at all, so that
// each shows before long until when it waits.
func (b *budget) toShow() []*entry {
	from := min(b.shown, b.waiting.Len())
	b.shown = min(from+showAtOnce, b.waiting.Len())
	return slices.Clone(b.waiting.entries[from:b.shown])
}

// showAtOnce is how many containers the loop looks at in one turn, which takes less than
// a millisecond.
const showAtOnce = 256

// newlyExhausted says whether a container waits for the budget, when none did at the last
// call.
func (b *budget) newlyExhausted() bool {
	was := b.exhausted
	b.exhausted = b.waiting.Len() > 0
	return b.exhausted && !was
}
