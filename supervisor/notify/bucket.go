package notify

import "time"

// bucket limits how many messages a receiver gets: half of an hour's at once, the rest spread over the hour. So
// that many come in no hour, and after a storm healthd is never silent for long. It is full when it is zero.
type bucket struct {
	Used float64   `json:"used,omitempty"` // messages that count
	At   time.Time `json:"at,omitzero"`    // when they did
}

// room returns when the next message may go: now, or later.
func (b *bucket) room(perHour int, now time.Time) time.Time {
	most := float64(perHour) / 2
	used := b.usedAt(perHour, now)
	if used+1 <= most {
		return now
	}
	return now.Add(time.Duration((used + 1 - most) / most * float64(time.Hour)))
}

func (b *bucket) take(perHour int, now time.Time) {
	*b = bucket{b.usedAt(perHour, now) + 1, now}
}

// usedAt is what still counts: it drains within the hour. Clocks are set back: that drains nothing.
func (b *bucket) usedAt(perHour int, now time.Time) float64 {
	passed := max(0, now.Sub(b.At))
	return max(0, b.Used-passed.Hours()*float64(perHour)/2)
}
