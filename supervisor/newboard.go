package supervisor

import "healthd/supervisor/core"

// NewBoard returns a board that shows just these runtimes and containers. It is
// for the tests of what reads boards; the supervisor makes its own.
func NewBoard(runtimes []RuntimeView, views ...*core.View) *Board {
	b := &Board{}
	for _, r := range runtimes {
		b.runtimes.Store(r.Name, r)
	}
	for _, v := range views {
		b.put(&slot{}, v)
	}
	return b
}
