package containerd

import (
	"context"
	"slices"
	"time"

	"healthd/runtime"
)

// futureSlack is how far ahead of the clock a moment may be that was told by it.
const futureSlack = time.Second

// EventHistory says whether the state that containerd shows now, with the records, tells all
// that happened since a moment. It does so within one boot of the host, even if containerd was
// restarted: containers outlive it, and tasks show how they ended, or the records do. After a
// reboot no task is left, so that the engine counts as restarted.
//
// When the records do not go back to that moment, or it was told by another clock, nothing is
// known.
func (e *Engine) EventHistory(_ context.Context, at time.Time) (runtime.EventHistory, error) {
	switch {
	case !e.recordsReach(at):
		return runtime.EventHistory{Full: true}, nil
	case at.Before(e.clock.began()):
		return runtime.EventHistory{}, nil
	}
	return runtime.EventHistory{HasEvent: true}, nil
}

// recordsReach says that the records go back to that moment, which was told by their clock.
func (e *Engine) recordsReach(at time.Time) bool {
	return !at.Before(e.records.since) && !at.After(e.clock.now().Add(futureSlack))
}

// madeSince says that a container, whose record is rec, was made after a moment to which the
// records reach. Its creation is known by the wall clock: it showed created, at told if nobody has
// set it since, and shows wall now.
//
// Where the wall clock was set, an old container may seem to be new. So it is new only if it is by
// either clock, and if no healthd has seen it by that moment.
func (rec *record) madeSince(since, created, told, wall time.Time) bool {
	if rec.Created == created.UnixNano() && rec.Seen <= since.UnixNano() {
		return false
	}
	return told.After(since) && created.After(since) && !created.After(wall)
}

// KillEvents returns an operator's stop of the run, as far as nerdctl's label tells of one, and
// then healthd's own stops of the run with it, so that it is not taken for one of them.
func (e *Engine) KillEvents(ctx context.Context, run runtime.Run) ([]runtime.Event, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	k, err := e.key(run.ID)
	if err != nil {
		return nil, err
	}
	c, err := e.client()
	if err != nil {
		return nil, err
	}
	found, err := e.container(ctx, c, k)
	if err != nil {
		return nil, e.containerError(err, "ask who ended", k)
	}
	labels := labelSet(found.Labels)
	now := e.clock.now()
	rec := e.records.change(k, func(rec *record) { rec.noteStopped(labels.stopped(), now) })
	e.records.save()
	at, ok := rec.kill(labels.stopTakes(), now)
	if !ok || rec.id(e.id(k)) != run {
		return nil, nil
	}
	signal := (&runtime.Container{StopSignal: labels[labelStopSignal]}).StopSignalNumber()
	e.recallStops(k, &rec)
	var kills []runtime.Event
	for _, at := range append(e.calls.stopsOf(k, run), at) {
		kills = append(kills, runtime.Event{ID: run.ID, Action: runtime.ActionKill, Signal: signal, Time: at})
	}
	slices.SortStableFunc(kills, func(a, b runtime.Event) int { return a.Time.Compare(b.Time) })
	return kills, nil
}
