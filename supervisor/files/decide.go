package files

import "time"

// stage is a part of the way from the board to the file's reader. Any of them may fail.
type stage int

const (
	noStage stage = iota
	atRender
	atWrite  // also reading what is there, and putting an old file back
	atCheck  // the file is as it was
	atReload // the file is new, and its reader may not know it
)

// failure is a stage that failed last, and was not passed since.
type failure struct {
	stage   stage
	content digest // with which it failed
	tries   int    // in a row
	at      time.Time
}

const (
	// Two who write one file, each at once, would do nothing else.
	afterForeign = time.Second

	firstRetry = time.Second
	lastRetry  = time.Minute
	checkAgain = time.Minute // what a check complains of may be outside the file
)

// again returns when to try again: after 1 s, 2 s and so on up to a minute; after a check in a minute.
func (f *failure) again() time.Time {
	if f.stage == atCheck {
		return f.at.Add(checkAgain)
	}
	pause := firstRetry
	for range f.tries - 1 {
		if pause = 2 * pause; pause >= lastRetry {
			return f.at.Add(lastRetry)
		}
	}
	return f.at.Add(pause)
}

// failed returns the failure after another one.
func (f *failure) failed(at stage, content digest, now time.Time) failure {
	next := failure{stage: at, content: content, tries: 1, at: now}
	if f.stage == at {
		next.tries += f.tries
	}
	return next
}

// situation is what a file is and what it should be.
type situation struct {
	content  digest    // what it should be
	same     bool      // it is that
	takesOut bool      // somebody is ready in it who is not
	foreign  bool      // this daemon has not written it, and it is something else
	owed     bool      // its reader may not have read it
	tried    time.Time // when it was written last, or that failed
	tired    bool      // it was written before its time as often as it may be: see haste
	failed   failure
}

// haste counts writes before their time, of which there may be maxHaste and one more in each min_interval: otherwise a
// container that flaps would have all connections of a reader closed again and again.
type haste struct {
	used  int
	since time.Time
}

const maxHaste = 5

// at returns what is used at that moment.
func (h haste) at(now time.Time, minInterval time.Duration) haste {
	if h.used == 0 || minInterval <= 0 {
		return haste{since: now}
	}
	back := int(min(now.Sub(h.since)/minInterval, maxHaste))
	if back >= h.used {
		return haste{since: now}
	}
	return haste{h.used - back, h.since.Add(time.Duration(back) * minInterval)}
}

// action is what to do for a file.
type action int

const (
	nothing action = iota
	write          // and reload after it
	reload
)

// decide returns what to do now, or else when to decide again; zero: when something changes. Who must be taken out is
// taken out at once, unless exactly this was refused, or others were so too often. All else waits for its time.
func decide(s *situation, minInterval time.Duration, now time.Time) (action, time.Time) {
	due := func(do action, at time.Time) (action, time.Time) {
		if now.Before(at) {
			return nothing, at
		}
		return do, time.Time{}
	}
	f := &s.failed
	again := time.Time{}
	if f.stage != noStage {
		again = f.again()
	}
	switch {
	case s.same && !s.owed:
		return nothing, time.Time{}
	case s.same:
		return due(reload, again)
	case f.stage == atCheck && f.content == s.content, f.stage == atWrite && f.content == s.content:
		return due(write, again)
	case s.foreign:
		return due(write, s.tried.Add(afterForeign))
	case s.takesOut && !s.tired:
		return write, time.Time{}
	case !s.takesOut && (f.stage == atReload || f.stage == atWrite):
		return due(write, later(again, s.tried.Add(minInterval)))
	}
	return due(write, s.tried.Add(minInterval))
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// earliest ignores zero times.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// takesOut says whether somebody is ready in what was written who is not ready now.
func takesOut(written, now map[destination]bool) bool {
	for d := range written {
		if !now[d] {
			return true
		}
	}
	return false
}
