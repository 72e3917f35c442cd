package runtime

import "testing"

func TestStops(t *testing.T) {
	for _, tt := range []struct {
		stopSignal string
		signal     int
		want       bool
	}{
		{"", 15, true}, {"", 9, true}, {"", 2, true}, {"", 3, true},
		{"", 1, false}, {"", 10, false}, {"", 28, false}, {"", 0, false},
		{"SIGUSR1", 10, true}, {"usr1", 10, true}, {"10", 10, true}, {"SIGUSR1", 12, false},
		{"SIGRTMIN+3", 37, true}, {"RTMIN", 34, true}, {"SIGRTMIN+x", 34, false},
		{"SIGNONSENSE", 0, false}, {"SIGWINCH", 28, true},
		{"SIGRTMAX", 64, true}, {"rtmax", 64, true}, {"SIGRTMAX-14", 50, true}, {"SIGRTMAX-x", 64, false},
		{"", UnknownSignal, true}, {"SIGUSR1", UnknownSignal, true},
		{"SIGRTMAX-31", 33, false}, {"SIGRTMAX+1", 65, false}, {"SIGRTMIN+31", 65, false}, {"SIGRTMIN-1", 33, false},
		{"SIGIOT", 6, true}, {"cld", 17, true}, {"SIGPOLL", 29, true}, {"SIGCLD", 18, false},
		{"-1", 28, false}, {"4096", 4096, false}, {"65", 65, false}, {"64", 64, true},
	} {
		c := &Container{StopSignal: tt.stopSignal}
		if got := c.Stops(tt.signal); got != tt.want {
			t.Errorf("stop signal %q: Stops(%d) = %v, want %v", tt.stopSignal, tt.signal, got, tt.want)
		}
	}
	for _, text := range []string{"", "SIGNONSENSE", "-1", "0", "65", "4096"} { // a stop that begins with no signal would fail
		if got := (&Container{StopSignal: text}).StopSignalNumber(); got != 15 {
			t.Errorf("stop signal %q: a stop begins with %d", text, got)
		}
	}
}
