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
	exhausted bool        // at the last newlyExhausted
}

// maxGranted is how many of its own restarts the Store keeps with a container.
const maxGranted = 100

// wait returns the wait for the budget when the containers before e in waiting use up what
// is left.
func (b *budget) wait(e *entry, waiting []*entry, now time.Time) core.Wait {
	if b.limit.MaxRestarts <= 0 {
		return core.Wait{}
	}
	b.granted = slices.DeleteFunc(b.granted, b.expired(now))
	if b.limit.MaxRestarts-len(b.granted)-ahead(e, waiting) > 0 {
		return core.Wait{}
	}
	w := core.Wait{Reason: core.WaitRestartBudget, On: fmt.Sprintf("the host's budget of %d restarts in %v", b.limit.MaxRestarts, b.limit.Window)}
	if len(b.granted) > 0 {
		w.Until = b.granted[0].Add(b.limit.Window)
	}
	return w
}

// ahead counts the containers before e that wait for the budget. One that waits for its
// group uses up nothing.
func ahead(e *entry, waiting []*entry) int {
	n := 0
	for _, other := range waiting {
		if other == e {
			break
		}
		if other.state.Health.Wait.Reason == core.WaitRestartBudget {
			n++
		}
	}
	return n
}

// grant counts a restart of e that begins now.
func (b *budget) grant(e *entry, now time.Time) {
	if b.limit.MaxRestarts <= 0 {
		return
	}
	b.granted = append(b.granted, now)
	recent := append(slices.DeleteFunc(slices.Clone(e.granted), b.expired(now)), now)
	e.granted = recent[max(0, len(recent)-maxGranted):]
}

// expired returns a function that says whether a restart is outside the window.
func (b *budget) expired(now time.Time) func(time.Time) bool {
	return func(at time.Time) bool { return !now.Before(at.Add(b.limit.Window)) }
}

// load counts the restarts that earlier daemons granted. One in the future counts as of
// now: the clock was set back.
func (b *budget) load(past []core.Memory, now time.Time) {
	for _, m := range past {
		for _, at := range m.Granted {
			b.granted = append(b.granted, earlier(at, now))
		}
	}
	b.granted = slices.DeleteFunc(b.granted, b.expired(now))
	slices.SortFunc(b.granted, time.Time.Compare)
}

// newlyExhausted says whether a container waits for the budget, when none did at the last
// call.
func (b *budget) newlyExhausted(waiting []*entry) bool {
	was := b.exhausted
	b.exhausted = slices.ContainsFunc(waiting, func(e *entry) bool { return e.state.Health.Wait.Reason == core.WaitRestartBudget })
	return b.exhausted && !was
}
