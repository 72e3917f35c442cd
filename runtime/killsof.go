package runtime

import "time"

// KillsOf finds the signals to one run of a container among the past events of its engine.
type KillsOf struct {
	run      Run
	after    time.Duration // how long after the run's start its start event came, of those that may be it the nearest
	found    bool          // one may be
	inRun    bool          // the events now are of the run, as far as is known
	started  bool          // a start event came
	own      []Event
	unowned  []Event // before all start events
	maxKills int
}

// FindKillsOf returns a KillsOf that keeps so many signals at most, the newest.
func FindKillsOf(run Run, most int) *KillsOf { return &KillsOf{run: run, maxKills: most} }

// Add takes in an event, oldest first. Events other than starts and signals of the run's
// container are ignored. An event belongs to the start before it: the engine's clock may have
// been set back between two runs, so that start events of both seem to be the run's. The one
// that came at once is.
func (k *KillsOf) Add(ev Event) {
	switch {
	case ev.ID != k.run.ID:
	case ev.Action == ActionStart:
		after := time.Duration(ev.Time.UnixNano() - k.run.Started)
		k.started, k.inRun = true, k.run.IsStart(ev.Time) && (!k.found || after <= k.after)
		if k.inRun {
			k.found, k.after, k.own = true, after, nil
		}
	case ev.Action != ActionKill:
	case k.inRun:
		k.own = k.keep(k.own, ev)
	case !k.started:
		k.unowned = k.keep(k.unowned, ev)
	}
}

// keep appends ev, and drops the oldest when there are too many.
func (k *KillsOf) keep(kills []Event, ev Event) []Event {
	return append(kills[max(0, len(kills)-k.maxKills+1):], ev)
}

// Kills returns the signals to the run. If the engine has dropped its start event, they are
// those before the start of a later run.
func (k *KillsOf) Kills() []Event {
	if k.found {
		return k.own
	}
	return k.unowned
}
