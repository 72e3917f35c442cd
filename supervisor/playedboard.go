package supervisor

import (
	"time"

	"healthd/prober"
	"healthd/supervisor/core"
)

// What the tests of outlets do with a board of NewBoard, from one goroutine. The board of a Supervisor belongs to
// its loop.

// Show puts a view on the board, as the loop does.
func (b *Board) Show(v *core.View) {
	s, known := b.byID.get(v.Container.ID)
	if !known {
		s = &slot{}
	}
	s.timeline.note(s.view.Load(), v, time.Since(b.began))
	if b.put(s, v) {
		b.tellChanged()
	}
}

// Remove takes the container of that ID from the board.
func (b *Board) Remove(id string) {
	if s, known := b.byID.get(id); known {
		b.remove(s)
		b.tellChanged()
	}
}

// Moment is something in the past of a container: a view of it, or else the result of a probe.
type Moment struct {
	At     time.Time
	View   *core.View
	Probe  core.ProbeType
	Result prober.Result
}

// Play fills the timeline of a container with its past, oldest first. The board goes on to show its view.
func (b *Board) Play(id string, moments ...Moment) {
	s, _ := b.byID.get(id)
	s.timeline = timeline{}
	var before *core.View
	for _, m := range moments {
		if m.View == nil {
			s.timeline.observe(m.Probe, m.Result, m.At.Sub(b.began))
			continue
		}
		s.timeline.note(before, m.View, m.At.Sub(b.began))
		before = m.View
	}
}
