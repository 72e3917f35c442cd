package report

import "time"

// Summary is what was observed of a service in some time.
type Summary struct {
	Observed time.Duration // healthd watched it, and it was meant to serve
	Stopped  time.Duration // people had stopped all its containers, or they had done their work
	Ready    time.Duration // of Observed: at least one container was ready
	Capacity time.Duration // of Ready, times the part of the containers that was ready

	Outages  int            // how often the last ready container was lost
	Longest  time.Duration  // of the outages; one that goes on counts with its length so far
	Restarts [numCauses]int // by core.Cause

	Detections int           // failures that probes found
	Detected   time.Duration // sum of the times that this took, each from the first failed probe to the verdict
	Slowest    time.Duration // the longest of them
}

// add adds what a bucket has.
func (s *Summary) add(b *bucket) {
	s.Observed += ticks(b.observed).duration()
	s.Stopped += ticks(b.stopped).duration()
	s.Ready += ticks(b.ready).duration()
	s.Capacity += ticks(b.capacity).duration()
	i := b.incidents
	if i == nil {
		return
	}
	s.Outages += int(i.outages)
	s.Longest = max(s.Longest, ticks(i.longest).duration())
	for cause, n := range i.restarts {
		s.Restarts[cause] += int(n)
	}
	s.Detections += int(i.detections)
	s.Detected += ticks(i.detected).duration()
	s.Slowest = max(s.Slowest, ticks(i.slowestFind).duration())
}

// Day is a day's part of a report, in UTC.
type Day struct {
	Begin time.Time
	Summary
}

// Service is the report of one service.
type Service struct {
	Name, Project string
	Summary
	Days []Day // those with something observed, oldest first
}

// Report is what was observed of services from From to To.
type Report struct {
	From, To time.Time // From is the begin of an hour, or of a day if that is more than a week ago
	Began    time.Time // since when healthd keeps the ledger
	Services []Service // sorted by name
	Omitted  int       // services beyond the bound, of which nothing is kept
}

// report returns the report of the services whose names wanted takes.
func (l *ledger) report(wanted func(name string) bool, from, to time.Time) Report {
	first, last := hourOf(from), hourOf(to)
	byHour := int64(last)-int64(first) < maxHours
	r := Report{From: startOfHour(first), To: to.UTC(), Began: l.began, Services: []Service{}, Omitted: l.omitted}
	if !byHour {
		r.From = startOfDay(dayOf(first))
	}
	for _, name := range l.names() {
		if !wanted(name) {
			continue
		}
		s := l.services[name]
		found := Service{Name: s.name, Project: s.project}
		if byHour {
			found.collect(s.hours, first, last, dayOf)
		} else {
			found.collect(s.days, dayOf(first), dayOf(last), func(day int32) int32 { return day })
		}
		if s.present || found.Observed+found.Stopped > 0 {
			r.Services = append(r.Services, found)
		}
	}
	return r
}

// collect adds the buckets from first to last; day tells the day of one.
func (f *Service) collect(all shelf, first, last int32, day func(int32) int32) {
	for i := range all {
		b := &all[i]
		if b.at < first || b.at > last {
			continue
		}
		begin := startOfDay(day(b.at))
		if len(f.Days) == 0 || !f.Days[len(f.Days)-1].Begin.Equal(begin) {
			f.Days = append(f.Days, Day{Begin: begin})
		}
		f.add(b)
		f.Days[len(f.Days)-1].add(b)
	}
}
