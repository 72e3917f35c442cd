package supervisor

import "time"

// maxCrashStarts is how many containers may be started again within a minute, on the whole host, that
// had ended soon after their start. Each start costs the engine half a second of CPU, and labels set how
// soon one follows the other.
const maxCrashStarts = 60

// crashStarts are the times of the newest such starts.
type crashStarts struct {
	times [maxCrashStarts]time.Time
	next  int // the oldest one
}

func (c *crashStarts) note(now time.Time) {
	c.times[c.next] = now
	c.next = (c.next + 1) % maxCrashStarts
}

// crowded says that there are as many as there may be.
func (c *crashStarts) crowded(now time.Time) bool {
	oldest := c.times[c.next]
	return !oldest.IsZero() && now.Sub(oldest) < time.Minute
}
