package notify

import (
	"hash/fnv"
	"slices"
	"strconv"
	"time"
)

// Bounds of what waits for one receiver.
const (
	maxPending = 100
	maxAge     = 24 * time.Hour
)

// Back-off of a receiver that fails.
const (
	minPause = time.Second
	maxPause = 5 * time.Minute
)

// toldAfter is how many attempts in a row must fail before that is an event.
const toldAfter = 3

// pending is a message that its receiver has not got.
type pending struct {
	Message *Message  `json:"message"`
	At      time.Time `json:"at"` // when it was made

	notBefore time.Time // of the next attempt
	saved     uint64    // the state that has it, see Notifier.save
}

// push adds a message. The oldest goes when there are too many.
func (o *outbox) push(m *Message, now time.Time) {
	o.Queue = append(o.Queue, &pending{Message: m, At: now})
	if len(o.Queue) > maxPending {
		o.drop()
	}
}

// drop gives up the oldest message that is not being sent.
func (o *outbox) drop() {
	i := 0
	if o.attempt {
		i = 1
	}
	o.Queue = slices.Delete(o.Queue, i, i+1)
	o.dropped++
	o.lost++
}

// expire gives up what is too old.
func (o *outbox) expire(now time.Time) {
	for len(o.Queue) > 0 && !o.attempt && now.Sub(o.Queue[0].At) > maxAge {
		o.drop()
	}
}

// head returns the message to send next, nil if there is none now, and when to look again.
func (o *outbox) head(now time.Time) (p *pending, next time.Time) {
	switch {
	case len(o.Queue) == 0 || o.attempt:
		return nil, time.Time{}
	case now.Before(o.Queue[0].notBefore):
		return nil, o.Queue[0].notBefore
	}
	return o.Queue[0], time.Time{}
}

// failed takes in that an attempt has failed. It says whether that is an outage which nobody was told of.
func (o *outbox) failed(name string, now time.Time) (tell bool) {
	o.attempt = false
	o.failures++
	if len(o.Queue) > 0 {
		o.Queue[0].notBefore = now.Add(pause(name, o.failures))
	}
	if o.failing || o.failures < toldAfter {
		return false
	}
	o.failing = true
	return true
}

// sent takes in that the first message was delivered. It says whether an outage ends with that, and how many
// messages were given up in it.
func (o *outbox) sent() (back bool, dropped int) {
	back, dropped = o.failing, o.dropped
	o.attempt, o.failures, o.failing, o.dropped = false, 0, false, 0
	o.Queue = slices.Delete(o.Queue, 0, 1)
	return back, dropped
}

// pause returns how long to wait after so many failures: twice as long each time. The hosts of a fleet, whose
// receiver is the same, must not come back at once: up to a quarter is taken off by a hash.
func pause(name string, failures int) time.Duration {
	d := maxPause
	if failures < 10 {
		d = min(maxPause, minPause<<(failures-1))
	}
	h := fnv.New32a()
	h.Write([]byte(name + strconv.Itoa(failures)))
	return d - d/4*time.Duration(h.Sum32()%1000)/1000
}
