package docker

import (
	"testing"
	"time"
)

func TestSlowestPoll(t *testing.T) {
	now := time.Now()
	for _, tt := range []struct {
		name  string
		age   time.Duration // 0: the command has not started
		limit time.Duration
		late  bool
		blind bool
		want  time.Duration
	}{
		{"not started", 0, time.Second, false, false, pollMax},
		{"not started, a hook's", 0, noTimeout, false, false, pollMax},
		{"not started, a short timeout", 0, 200 * time.Millisecond, false, false, 20 * time.Millisecond},
		{"not started, the shortest timeout", 0, 10 * time.Millisecond, false, false, pollMin},
		{"just started", time.Millisecond, time.Minute, false, false, pollMax},
		{"10 s old", 10 * time.Second, time.Minute, false, false, time.Second},
		{"a day old", 24 * time.Hour, noTimeout, false, false, pollSlowest},
		{"gone, and the engine is late", 24 * time.Hour, noTimeout, true, false, pollMax},
		{"processes are not visible", 24 * time.Hour, noTimeout, true, true, pollSlowest},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := undetectedExit{execution: &execution{timeout: tt.limit}, containerHidden: tt.blind}
			if tt.age > 0 {
				d.startedAt = now.Add(-tt.age)
			}
			if tt.late {
				d.goneSince = now
			}
			if got := d.slowestPoll(now); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}
