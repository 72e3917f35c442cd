package report

import (
	"math"
	"slices"
	"time"

	"healthd/supervisor/core"
)

// ticks are the unit in which time is counted.
type ticks int64

const tick = 10 * time.Millisecond

// ticksOf rounds down; what is lost is left to the next look.
func ticksOf(d time.Duration) ticks { return ticks(d / tick) }

func (n ticks) duration() time.Duration { return time.Duration(n) * tick }

// Bounds of the ledger. maxHours covers 8 days: the last 7 and the parts of days at both ends.
const (
	maxServices = 1000
	maxHours    = 8 * 24
	maxDays     = 90
)

// numCauses is how many causes of restarts there are, core.NoCause among them.
const numCauses = len(core.Lasting{}.Restarts)

// bucket is what was observed in one hour or day. Times are in ticks, which fit for a year.
type bucket struct {
	at                                 int32 // hours or days since 1970, UTC
	observed, stopped, ready, capacity uint32
	incidents                          *incidents // nil: there were none
}

// incidents are what most buckets do not have.
type incidents struct {
	outages                           uint32 // that began
	longest                           uint32 // of an outage that went on then: its length so far
	detections, detected, slowestFind uint32
	restarts                          [numCauses]uint32
}

// note returns the incidents of b to add to.
func (b *bucket) note() *incidents {
	if b.incidents == nil {
		b.incidents = &incidents{}
	}
	return b.incidents
}

// spend counts n ticks, of which capacity by the part of the members that was ready.
func (b *bucket) spend(p Phase, n, capacity, outage ticks) {
	switch p {
	case Absent:
		return
	case Stopped:
		add(&b.stopped, n)
		return
	case Up:
		add(&b.ready, n)
		add(&b.capacity, capacity)
	case Down:
		i := b.note()
		i.longest = max(i.longest, saturated(outage))
	}
	add(&b.observed, n)
}

func (b *bucket) detect(n ticks) {
	i := b.note()
	add(&i.detections, 1)
	add(&i.detected, n)
	i.slowestFind = max(i.slowestFind, saturated(n))
}

func add(to *uint32, n ticks) { *to = saturated(ticks(*to) + n) }

func saturated(n ticks) uint32 { return uint32(min(max(n, 0), math.MaxUint32)) }

// shelf has buckets of one width, the oldest first.
type shelf []bucket

// at returns the bucket of that number, and makes it if there is none. Of more than most the one
// that is farthest away goes: the oldest, or one from when the clock was wrong.
func (s *shelf) at(number int32, most int) *bucket {
	i := len(*s)
	for i > 0 && (*s)[i-1].at > number {
		i--
	}
	if i > 0 && (*s)[i-1].at == number {
		return &(*s)[i-1]
	}
	if len(*s) >= most {
		first, last := (*s)[0].at, (*s)[len(*s)-1].at
		if int64(number)-int64(first) >= int64(last)-int64(number) {
			*s = slices.Delete(*s, 0, 1)
			i = max(0, i-1)
		} else {
			*s = slices.Delete(*s, len(*s)-1, len(*s))
			i = min(i, len(*s))
		}
	}
	*s = slices.Insert(*s, i, bucket{at: number})
	return &(*s)[i]
}

func hourOf(t time.Time) int32 { return int32(floorDiv(t.Unix(), 3600)) }
func dayOf(hour int32) int32   { return int32(floorDiv(int64(hour), 24)) }

// floorDiv rounds down also before 1970, where a host without a clock begins.
func floorDiv(a, b int64) int64 {
	if a%b < 0 {
		return a/b - 1
	}
	return a / b
}

func startOfHour(hour int32) time.Time { return time.Unix(int64(hour)*3600, 0).UTC() }
func startOfDay(day int32) time.Time   { return startOfHour(day * 24) }
