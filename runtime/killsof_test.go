package runtime

import (
	"slices"
	"testing"
	"time"
)

func TestFindKillsOf(t *testing.T) {
	at := func(ms int64) time.Time { return time.UnixMilli(100_000 + ms) }
	start := func(ms int64) Event { return Event{ID: "a", Action: ActionStart, Time: at(ms)} }
	kill := func(ms int64, signal int) Event {
		return Event{ID: "a", Action: ActionKill, Signal: signal, Time: at(ms)}
	}
	run := (&Container{ID: "a", StartedAt: at(0)}).Run()
	for _, tt := range []struct {
		name   string
		events []Event
		want   []int
	}{
		{"none", nil, nil},
		{"its own", []Event{start(10), kill(20, 15), kill(30, 9)}, []int{15, 9}},
		{"those of the runs before and after", []Event{start(-90), kill(-80, 1), start(10), kill(20, 2), start(9000), kill(9010, 3)}, []int{2}},
		{"its start was dropped", []Event{kill(20, 15), start(9000), kill(9010, 3)}, []int{15}},
		{"it has none", []Event{kill(-80, 1), start(10)}, nil},
		{"another container's", []Event{start(10), {ID: "b", Action: ActionKill, Signal: 1, Time: at(15)}, kill(20, 15)}, []int{15}},
		{"the clock was set back before its start", []Event{start(4000), kill(4010, 1), start(10), kill(20, 2)}, []int{2}},
		{"the clock was set back after its end", []Event{start(10), kill(8000, 1), start(4000), kill(4010, 2)}, []int{1}},
		{"too many", []Event{start(10), kill(20, 1), kill(21, 2), kill(22, 3), kill(23, 4)}, []int{2, 3, 4}},
		{"too many before it", []Event{kill(-30, 1), kill(-29, 2), kill(-28, 3), start(10), kill(20, 4)}, []int{4}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			k := FindKillsOf(run, 3)
			for _, ev := range tt.events {
				k.Add(ev)
			}
			var got []int
			for _, ev := range k.Kills() {
				got = append(got, ev.Signal)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("found %v, want %v", got, tt.want)
			}
		})
	}
}
