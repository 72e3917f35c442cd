package containerd

import (
	"time"

	"healthd/runtime"
	"healthd/runtime/hostproc"
)

const (
	// lostCode is the exit code of a run whose own is lost: it counts as a failure.
	lostCode = 255
	// startDelay is how long after its process was made the start of a task may be told for
	// the start to be that of the process; runtime.Run.IsStart allows a little more.
	startDelay = 4 * time.Second
	// oomDelay is how far apart the news of an OOM kill and of the exit may be.
	oomDelay = time.Second

	killedCode = 128 + 9
)

// ticksOf returns when a process was made, in clock ticks since the boot; 0: it is gone.
func ticksOf(pid int) uint64 {
	p, err := hostproc.Read(pid)
	if err != nil || pid == 0 {
		return 0
	}
	return p.StartTime
}

// isRun says whether a process is that of the known run: a PID may be used again.
func (rec *record) isRun(boot string, pid int, ticks uint64) bool {
	return rec.Started != 0 && rec.Boot == boot && rec.Pid == pid && (ticks == 0 || rec.Ticks == 0 || rec.Ticks == ticks)
}

// alive takes in that a task runs, seen at that moment. An answer of containerd's may be older
// than the news of the end.
func (rec *record) alive(c clock, pid int, ticks uint64, at time.Time) {
	switch same := rec.isRun(c.boot, pid, ticks); {
	case same && (rec.Ended == 0 || rec.Lost != ""):
		rec.Ended, rec.Code, rec.Lost, rec.OOM = 0, 0, "", false
		rec.Ticks = max(rec.Ticks, ticks)
	case same && (rec.Ticks != 0 || ticks == 0 || c.ticksTime(ticks).UnixNano() < rec.Ended):
	case ticks != 0:
		rec.begin(c, pid, ticks, c.ticksTime(ticks))
	default:
		rec.begin(c, pid, 0, at)
	}
}

// started takes in the event of a task's start. It returns its time, and false when it is of
// an earlier run: shims repeat events. The process is made a little before the start; the run
// of a task that was made long before begins with the event.
func (rec *record) started(c clock, pid int, ticks uint64, at time.Time) (time.Time, bool) {
	switch same := rec.isRun(c.boot, pid, ticks); {
	case !same && rec.Boot == c.boot && at.UnixNano() < rec.Started:
		return at, false
	case same && (rec.Ended == 0 || at.UnixNano() <= rec.Ended):
	case same && (ticks == 0 || ticks == rec.Ticks) && at.Sub(time.Unix(0, rec.Ended)) < startDelay: // dated after its end
	case ticks != 0 && at.Sub(c.ticksTime(ticks)) < startDelay:
		rec.begin(c, pid, ticks, c.ticksTime(ticks))
	default:
		rec.begin(c, pid, ticks, at)
	}
	began := time.Unix(0, rec.Started)
	if last := began.Add(startDelay); at.After(last) {
		return last, true
	}
	if at.Before(began) {
		return began, true
	}
	return at, true
}

func (rec *record) begin(c clock, pid int, ticks uint64, began time.Time) {
	// No run begins before the end of the one before, whatever the rounding of ticks says.
	began = time.Unix(0, max(began.UnixNano(), rec.Started+1, rec.Ended+1))
	rec.run = run{Boot: c.boot, Pid: pid, Ticks: ticks, Started: began.UnixNano()}
	rec.KillAt, rec.killTold, rec.OOMAt = 0, false, 0
}

// exited takes in the end of a task. It returns false when it is of an earlier run: shims
// repeat events.
func (rec *record) exited(c clock, pid, code int, at time.Time) bool {
	unwatched := !rec.isRun(c.boot, pid, 0)
	if unwatched {
		if rec.Boot == c.boot && at.UnixNano() < rec.Started {
			return false
		}
		rec.begin(c, pid, 0, at) // it ran while nobody watched: all that is known is its end
	}
	if rec.Ended == 0 || rec.Lost != "" {
		rec.Ended, rec.Code, rec.Lost = max(at.UnixNano(), rec.Started), code, ""
		rec.OOM = code == killedCode && rec.OOMAt != 0 && time.Duration(rec.Ended-rec.OOMAt).Abs() <= oomDelay
	}
	if unwatched && rec.Stopped { // nerdctl's start would have taken the label back
		rec.KillAt = rec.Ended
	}
	return true
}

// oom takes in that the kernel has killed a process for want of memory. The news may come
// shortly after that of the exit.
func (rec *record) oom(at time.Time) {
	rec.OOMAt = at.UnixNano()
	if rec.Ended != 0 && rec.Code == killedCode && rec.Lost == "" {
		rec.OOM = time.Duration(rec.Ended-rec.OOMAt).Abs() <= oomDelay
	}
}

// gone takes in that the run has ended, and that nothing tells how.
func (rec *record) gone(at time.Time, why string) {
	if rec.Started != 0 && rec.Ended == 0 {
		rec.Ended, rec.Code, rec.Lost = max(at.UnixNano(), rec.Started), lostCode, why
	}
}

// runs says that the run goes on, as far as is known.
func (rec *record) runs() bool { return rec.Started != 0 && rec.Ended == 0 }

// id returns the identity of the run.
func (rec *record) id(container string) runtime.Run {
	if rec.Started == 0 {
		return runtime.Run{}
	}
	return runtime.Run{ID: container, Started: rec.Started}
}

// noteStopped takes in nerdctl's label explicitly-stopped. nerdctl sets it before it sends a
// signal.
func (rec *record) noteStopped(stopped bool, at time.Time) {
	switch {
	case stopped == rec.Stopped:
	case stopped:
		rec.KillAt, rec.killTold = at.UnixNano(), false
	default:
		rec.KillAt = 0
	}
	rec.Stopped = stopped
}

// adoptStop takes in the label of a run that began while nobody watched. It was set in that run
// if the container was changed since, for nerdctl's start takes it back.
func (rec *record) adoptStop(changed time.Time) {
	if rec.Stopped && changed.UnixNano() >= rec.Started {
		rec.KillAt = changed.UnixNano()
	}
}

// stoppedSince says that an operator stopped what had ended: no end is left to tell of it.
func (rec *record) stoppedSince() bool {
	return rec.Stopped && rec.Ended != 0 && rec.KillAt > rec.Ended
}

// kill returns when an operator's stop of the run began, of which the label is the only sign.
// takes is how long a stop takes. A run that lived on for longer got a signal that stops
// nothing, such as HUP. An operator who stops what has ended wants it to stay so.
func (rec *record) kill(takes time.Duration, now time.Time) (at time.Time, ok bool) {
	switch {
	case rec.KillAt == 0 || !rec.Stopped:
		return time.Time{}, false
	case rec.Ended == 0:
		return time.Unix(0, rec.KillAt), now.UnixNano()-rec.KillAt <= int64(takes)
	case rec.KillAt > rec.Ended:
		return time.Unix(0, rec.Ended), true
	}
	return time.Unix(0, rec.KillAt), rec.Ended-rec.KillAt <= int64(takes)
}
