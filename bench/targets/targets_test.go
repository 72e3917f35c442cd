package targets

import (
	"testing"
	"time"
)

func TestLateness(t *testing.T) {
	const period = 10 * time.Second
	at := func(seconds ...float64) (all []time.Time) {
		for _, s := range seconds {
			all = append(all, time.Unix(1000, 0).Add(time.Duration(s*float64(time.Second))))
		}
		return all
	}
	for name, tt := range map[string]struct {
		asked   []time.Time
		missed  int
		longest time.Duration
	}{
		"in time":             {at(0, 10, 20), 0, 0},
		"one is late":         {at(0, 10.5, 20), 0, 500 * time.Millisecond},
		"the first is late":   {at(0.25, 10, 20), 0, 250 * time.Millisecond},
		"one is missing":      {at(0, 20, 30), 1, 0},
		"two are missing":     {at(0, 10, 40), 2, 0},
		"it was asked once":   {at(7), 0, 0},
		"another phase comes": {at(0, 10, 24, 34), 0, 4 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			late, missed := lateness(tt.asked, period)
			var longest time.Duration
			for _, d := range late {
				longest = max(longest, d)
			}
			if missed != tt.missed || longest != tt.longest {
				t.Errorf("%d are missing, the longest delay is %v; want %d, %v", missed, longest, tt.missed, tt.longest)
			}
		})
	}
}

func TestListens(t *testing.T) {
	for port, want := range map[int]bool{
		17999: false, 18000: true, 18049: true, 18050: false, 19000: true, 20000: true, 20002: true, 20003: false,
		27999: false, 28000: true, 28049: true, 28050: false, 29000: false, 30000: true, 30002: true, 30003: false,
	} {
		if got := Listens(port, 3); got != want {
			t.Errorf("port %d: %v, want %v", port, got, want)
		}
	}
}
