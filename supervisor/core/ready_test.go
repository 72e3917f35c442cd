package core

import (
	"strings"
	"testing"
)

func TestReadyAndStarted(t *testing.T) {
	for _, tt := range []struct {
		name    string
		kubelet string
		lines   []string
		started bool
		ready   bool
		reason  string
	}{
		{"runs, no probes", "154", []string{"0s runs"}, true, true, ""},
		{"readiness succeeded", "155", []string{"readiness=" + everySecond, "0s runs"}, true, true, ""},
		{"readiness has no result yet", "156", []string{"readiness=1h/1s/1/1", "0s runs", "1m"}, true, false, NotReadyPending},
		{"readiness failed", "157", []string{"readiness=" + everySecond, "0s readiness fails", "0s runs"}, true, false, NotReadyReadiness},
		{"startup has no result yet", "158", []string{"startup=1h/1s/1/1", "0s runs", "1m"}, false, false, NotReadyStarting},
		{"startup failed below its threshold", "158", []string{"startup=0s/1s/1/9", "0s startup fails", "0s runs", "2s"}, false, false, NotReadyStarting},
		{"startup succeeded", "159", []string{"startup=" + everySecond, "0s runs"}, true, true, ""},
		{"ended after readiness had succeeded", "160", []string{"policy=Never", "readiness=" + everySecond, "0s runs", "1s exits 1"}, false, false, NotReadyNotRun},
		{"killed after readiness had succeeded", "160", []string{"readiness=" + everySecond, "0s runs", "1s docker-stop"}, false, false, NotReadyNotRun},
		{"completed, no probes", "161", []string{"policy=OnFailure", "0s runs", "1s exits 0"}, false, false, NotReadyNotRun},
		{"started and ready by startup alone", "161", []string{"policy=Never", "startup=" + everySecond, "0s runs", "1s"}, true, true, ""},
		{"started and ready by startup alone, completed", "161", []string{"policy=Never", "startup=" + everySecond, "0s runs", "1s exits 0"}, false, false, NotReadyNotRun},
		{"started and ready by startup alone, failed", "161", []string{"policy=Never", "startup=" + everySecond, "0s runs", "1s exits 1"}, false, false, NotReadyNotRun},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Attr("kubelet", tt.kubelet)
			sim := simulate(t, tt.lines...)
			started, _ := sim.view().Started()
			ready, reason, _ := sim.view().Readiness()
			if started != tt.started || ready != tt.ready || reason != tt.reason {
				t.Errorf("started %v, ready %v %s; want %v, %v %s", started, ready, reason, tt.started, tt.ready, tt.reason)
			}
			if published := strings.Count(sim.transcript.String(), " "+EventReady+" ") > strings.Count(sim.transcript.String(), " "+EventNotReady+" "); published != tt.ready {
				t.Errorf("the events say ready: %v\n%s", published, sim.transcript.String())
			}
		})
	}
}
