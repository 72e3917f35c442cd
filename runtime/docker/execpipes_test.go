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
		late  bool
		blind bool
		want  time.Duration
	}{
		{"not started", 0, false, false, pollMax},
		{"just started", time.Millisecond, false, false, pollMax},
		{"10 s old", 10 * time.Second, false, false, time.Second},
		{"a day old", 24 * time.Hour, false, false, pollSlowest},
		{"gone, and the engine is late", 24 * time.Hour, true, false, pollMax},
		{"processes are not visible", 24 * time.Hour, true, true, pollSlowest},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := undetectedExit{execution: &execution{}, containerHidden: tt.blind}
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
