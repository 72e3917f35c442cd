package report

import (
	"maps"
	"slices"
	"time"

	"healthd/supervisor/core"
)

// Phase is how a service is at a moment.
type Phase uint8

// The phases. The file keeps them by number.
const (
	Absent   Phase = iota // it has no container
	Stopped               // no container should serve: see core.View.ShouldServe
	Starting              // no container is ready, and none was since the service was absent or stopped
	Up                    // at least one container is ready
	Down                  // an outage: no container is ready any more
	numPhases
)

// patience is how long after a look the next one may come. What lies beyond was not observed: the
// host slept, or healthd was stopped.
const patience = time.Minute

// moment is a moment by two clocks.
type moment struct {
	wall time.Time     // people set it
	mono time.Duration // nobody sets it; since some moment of the daemon's
}

// fact is what the board shows of a service.
type fact struct {
	name, project           string
	ready, members, stopped int           // containers: those that are meant to serve, and the others
	upFor, downFor          time.Duration // since the first of the ready ones was so, and since the last of the others was not
}

// restarts are counts of a container, which only grow.
type restarts struct {
	id, service string
	counts      [numCauses]int
}

// sight is what the board shows at a moment.
type sight struct {
	facts    []fact
	restarts []restarts
	complete bool // all containers of all runtimes are known
}

// ledger has the hours and days of each service.
type ledger struct {
	began    time.Time // by the wall clock: its first look ever
	services map[string]*service
	omitted  int // services for which there was no room at the last look

	looking bool                      // this daemon has looked
	looked  time.Duration             // until then all time is counted
	counts  map[string][numCauses]int // restarts at the last look, by container ID
	before  map[string][numCauses]int // room for the next ones
}

// service is what the ledger keeps of a service.
type service struct {
	name, project string
	phase         Phase
	outage        ticks     // length of the present outage
	seen          time.Time // by the wall clock: when it last had a container
	hours, days   shelf

	present        bool // it was at the last look of this daemon
	ready, members int
	rest           float64 // part of a tick of capacity that is not counted yet
	total          Summary // since the start of the daemon
}

func newLedger() *ledger {
	return &ledger{services: map[string]*service{}, counts: map[string][numCauses]int{}, before: map[string][numCauses]int{}}
}

func (l *ledger) names() []string { return slices.Sorted(maps.Keys(l.services)) }

// look counts the time since the look before, and takes in what is seen now.
func (l *ledger) look(seen *sight, now moment) {
	elapsed, end := l.pass(now)
	if l.began.IsZero() {
		l.began = end
	}
	l.omitted = 0
	found := make(map[string]bool, len(seen.facts))
	for i := range seen.facts {
		f := &seen.facts[i]
		if s := l.room(f.name, end); s != nil {
			found[f.name] = true
			s.project = f.project
			s.look(f, elapsed, end)
		}
	}
	for name, s := range l.services {
		switch {
		case found[name]:
		case s.present:
			s.spend(end.Add(-elapsed.duration()), elapsed)
			s.leave()
		case seen.complete: // this daemon has not seen it at all
			s.leave()
			if end.Sub(s.seen) > maxDays*24*time.Hour {
				delete(l.services, name)
			}
		}
	}
	l.countRestarts(seen.restarts, end)
}

// pass returns how long the time to be counted is, and its end by the wall clock. A rest of less than a
// tick is left to the next look.
func (l *ledger) pass(now moment) (elapsed ticks, end time.Time) {
	if d := now.mono - l.looked; !l.looking || d > patience {
		l.looking, l.looked = true, now.mono
	} else {
		elapsed = ticksOf(d)
		l.looked += elapsed.duration()
	}
	return elapsed, now.wall.Add(l.looked - now.mono).UTC()
}

// room returns the service of that name. When there are too many, the one that has been without a
// container for longest makes room; nil: all have one.
func (l *ledger) room(name string, now time.Time) *service {
	if s := l.services[name]; s != nil {
		s.seen = now
		return s
	}
	// Once nobody can make room, nobody can in the rest of the look: there may be thousands that want it.
	if len(l.services) >= maxServices && (l.omitted > 0 || !l.evict()) {
		l.omitted++
		return nil
	}
	s := &service{name: name, seen: now}
	l.services[name] = s
	return s
}

func (l *ledger) evict() bool {
	var oldest *service
	for _, s := range l.services {
		if s.phase == Absent && !s.present && (oldest == nil || s.seen.Before(oldest.seen) || s.seen.Equal(oldest.seen) && s.name < oldest.name) {
			oldest = s
		}
	}
	if oldest == nil {
		return false
	}
	delete(l.services, oldest.name)
	return true
}

// look counts the time that has elapsed until end, and takes in f.
func (s *service) look(f *fact, elapsed ticks, end time.Time) {
	next := s.next(f)
	ago := ticks(0) // how long before end it changed
	switch {
	case !s.present: // of the time before nothing is known
		elapsed = 0
	case next == s.phase:
	case next == Up:
		ago = min(max(0, ticksOf(f.upFor)), elapsed)
	case s.phase == Up:
		ago = min(max(0, ticksOf(f.downFor)), elapsed)
	}
	changed := end.Add(-ago.duration())
	s.spend(end.Add(-elapsed.duration()), elapsed-ago)
	s.enter(next, changed)
	s.present, s.ready, s.members = true, f.ready, f.members
	s.spend(changed, ago)
}

func (s *service) next(f *fact) Phase {
	switch {
	case f.members == 0:
		return Stopped
	case f.ready > 0:
		return Up
	case s.phase == Up || s.phase == Down:
		return Down
	}
	return Starting
}

func (s *service) enter(p Phase, at time.Time) {
	if p == Down && s.phase != Down {
		s.outage = 0
		s.change(at, func(b *bucket) { add(&b.note().outages, 1) })
		s.total.Outages++
	}
	s.phase = p
}

func (s *service) leave() {
	s.present, s.phase, s.ready, s.members, s.rest = false, Absent, 0, 0, 0
}

// change changes the buckets of a moment.
func (s *service) change(at time.Time, with func(*bucket)) {
	hour := hourOf(at)
	with(s.hours.at(hour, maxHours))
	with(s.days.at(dayOf(hour), maxDays))
}

// spend counts n ticks from a moment on in the present phase. An hour that ends within takes its part.
func (s *service) spend(from time.Time, n ticks) {
	for n > 0 {
		border := startOfHour(hourOf(from) + 1)
		left := ticks((border.Sub(from) + tick - 1) / tick) // the tick in which the hour ends is its own
		part := min(n, left)
		s.spendWithin(from, part)
		n -= part
		from = from.Add(part.duration())
	}
}

func (s *service) spendWithin(from time.Time, n ticks) {
	if s.phase == Absent {
		return
	}
	capacity := s.capacity(n)
	if s.phase == Down {
		s.outage += n
		s.total.Longest = max(s.total.Longest, s.outage.duration())
	}
	s.change(from, func(b *bucket) { b.spend(s.phase, n, capacity, s.outage) })
	if s.phase == Stopped {
		s.total.Stopped += n.duration()
		return
	}
	s.total.Observed += n.duration()
	if s.phase == Up {
		s.total.Ready += n.duration()
		s.total.Capacity += capacity.duration()
	}
}

// capacity returns how much of n ticks all members together were ready.
func (s *service) capacity(n ticks) ticks {
	if s.phase != Up || s.members == 0 {
		return 0
	}
	exact := float64(n)*float64(s.ready)/float64(s.members) + s.rest
	whole := ticks(exact)
	s.rest = exact - float64(whole)
	return whole
}

// countRestarts counts how much the counts have grown. A container that is new begins with those of
// the one before it.
func (l *ledger) countRestarts(all []restarts, at time.Time) {
	l.counts, l.before = l.before, l.counts
	clear(l.counts)
	for i := range all {
		r := &all[i]
		l.counts[r.id] = r.counts
		before, known := l.before[r.id]
		if s := l.services[r.service]; known && s != nil && before != r.counts {
			s.restarted(before, r.counts, at)
		}
	}
}

func (s *service) restarted(before, now [numCauses]int, at time.Time) {
	for cause := range now {
		n := max(0, now[cause]-before[cause])
		if n == 0 || core.Cause(cause) == core.NoCause {
			continue
		}
		s.change(at, func(b *bucket) { add(&b.note().restarts[cause], ticks(n)) })
		s.total.Restarts[cause] += n
	}
}

// detected counts that probes took d to find a failure of a service.
func (l *ledger) detected(name string, d time.Duration, at time.Time) {
	s := l.services[name]
	if s == nil {
		return
	}
	n := ticks((max(0, d) + tick/2) / tick)
	s.change(at.UTC(), func(b *bucket) { b.detect(n) })
	s.total.Detections++
	s.total.Detected += max(0, d)
	s.total.Slowest = max(s.total.Slowest, d)
}
