package core

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

func seconds(n ...float64) []time.Duration {
	all := make([]time.Duration, len(n))
	for i, x := range n {
		all[i] = time.Duration(x * float64(time.Second))
	}
	return all
}

// The delays that follow the ends of runs that lasted so long.
func TestBackoffDelays(t *testing.T) {
	whole := func(n int) []time.Duration { return slices.Repeat(seconds(1), n) }
	defaults := Backoff{DefaultBackoffInitial, DefaultBackoffMax, DefaultBackoffReset}
	for _, tt := range []struct {
		name    string
		kubelet string
		backoff Backoff
		ran     []time.Duration
		want    []time.Duration
	}{
		{"doubles up to the cap, afresh after a long run", "173", Backoff{time.Second, 50 * time.Second, 100 * time.Second},
			append(whole(10), seconds(101, 1)...), seconds(0, 1, 2, 4, 8, 16, 32, 50, 50, 50, 0, 1)},
		{"holds at the cap, forgotten after twice the cap", "174", Backoff{time.Second, 5 * time.Second, 10 * time.Second},
			append(whole(6), seconds(11)...), seconds(0, 1, 2, 4, 5, 5, 0)},
		{"stays at the cap shortly after it", "175", Backoff{time.Second, 5 * time.Second, 10 * time.Second},
			append(whole(6), seconds(6, 6)...), seconds(0, 1, 2, 4, 5, 5, 5, 5)},
		{"a rule of 200 s: kept after 101 s, gone after 501 s", "177", Backoff{time.Second, 50 * time.Second, 200 * time.Second},
			seconds(1, 1, 101, 501, 1), seconds(0, 1, 2, 0, 1)},
		{"a rule of twice the cap: kept after 5 s, gone after 101 s", "177", Backoff{time.Second, 50 * time.Second, 100 * time.Second},
			seconds(1, 1, 5, 101, 1), seconds(0, 1, 2, 0, 1)},
		{"no jitter", "179", Backoff{100 * time.Millisecond, time.Minute, time.Hour},
			whole(13), seconds(0, .1, .2, .4, .8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2, 60, 60)},
		{"within a rule of 8 s it doubles, beyond it begins anew", "180", Backoff{time.Second, time.Minute, 8 * time.Second},
			seconds(1, 1, 8, 8, 8.001, 1, 1), seconds(0, 1, 2, 4, 0, 1, 2)},
		{"within the default it doubles, beyond it begins anew", "180", defaults,
			seconds(1, 600, 600, 600.001, 1), seconds(0, 10, 20, 0, 10)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Attr("kubelet", tt.kubelet)
			for range 2 { // and the same another time
				var s BackoffState
				var got []time.Duration
				for _, ran := range tt.ran {
					s = tt.backoff.next(s, ran)
					got = append(got, s.Delay)
				}
				if !slices.Equal(got, tt.want) {
					t.Errorf("delays %v, want %v", got, tt.want)
				}
			}
		})
	}
}

// What makes a container's back-off begin afresh.
func TestBackoffBeginsAfresh(t *testing.T) {
	crashes := []string{"backoff=1s/50s/100s", "0s runs", "1s exits 1", "2s exits 1", "4s exits 1", "8s exits 1"}
	for _, tt := range []struct {
		name  string
		lines []string
		want  time.Duration
	}{
		{"a short run does not", []string{"20s exits 1"}, 8 * time.Second},
		{"a long run does", []string{"200s exits 1"}, 0},
		{"other resources do", []string{"9s resources 512m", "20s exits 1"}, 0},
		{"the same resources do not", []string{"9s resources ", "20s exits 1"}, 8 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Attr("kubelet", "173")
			sim := simulate(t, crashes...)
			if got := sim.backoffLeft(); got != 4*time.Second {
				t.Fatalf("held back for %v after four crashes, want 4 s", got)
			}
			for _, line := range tt.lines {
				words := strings.SplitN(line, " ", 3)
				if err := sim.playLine(words); err != nil {
					t.Fatal(err)
				}
			}
			if got := sim.backoffLeft(); got != tt.want {
				t.Errorf("held back for %v, want %v\n%s", got, tt.want, sim.transcript.String())
			}
		})
	}
}

func TestCrashLoopBackOff(t *testing.T) {
	for _, tt := range []struct {
		name    string
		kubelet string
		lines   []string
		want    time.Duration
		known   bool // its end is remembered
	}{
		{"runs", "181", []string{"0s runs", "1m"}, 0, false},
		{"runs again after crashes", "181", []string{"0s runs", "1s exits 1", "2s exits 1", "4s"}, 0, true},
		{"ended for the first time", "182", []string{"0s runs", "1s exits 1"}, 0, true},
		{"ended again just now", "183", []string{"0s runs", "1s exits 1", "2s exits 1"}, time.Second, true},
		{"ended again a while ago", "183", []string{"0s runs", "1s exits 1", "2s exits 1", "2700ms"}, 300 * time.Millisecond, true},
		{"at its cap", "174", []string{"0s runs", "1s exits 1", "2s exits 1", "4s exits 1", "8s exits 1", "16s exits 1", "32s exits 1"}, 5 * time.Second, true},
		{"after the cap", "174", []string{"0s runs", "1s exits 1", "2s exits 1", "4s exits 1", "8s exits 1", "16s exits 1", "27s"}, 0, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Attr("kubelet", tt.kubelet)
			sim := simulate(t, append([]string{"backoff=1s/5s/1m"}, tt.lines...)...)
			if got := sim.backoffLeft(); got != tt.want || sim.state.Lasting.Backoff.Active != tt.known {
				t.Errorf("held back for %v, want %v; its end is known: %v\n%s", got, tt.want, sim.state.Lasting.Backoff.Active, sim.transcript.String())
			}
			v := View{Container: &sim.c, Spec: sim.spec, State: sim.state}
			if x := v.Waiting(); (x != nil && x.Reason == WaitCrashLoop) != (tt.want > 0) {
				t.Errorf("shown as waiting for %+v", x)
			}
		})
	}
}

// The delay counts from the end, not from when its news came.
func TestBackoffIsFromTheEnd(t *testing.T) {
	t.Attr("kubelet", "183")
	sim := simulate(t, "backoff=1s/5s/1m", "0s runs", "1s exits 1", "2s")
	sim.endRun(1)
	ended := sim.now
	sim.now = sim.now.Add(400 * time.Millisecond)
	sim.step("late news", &Input{Kind: Observed})
	v := View{Container: &sim.c, Spec: sim.spec, State: sim.state}
	x := v.Waiting()
	if x == nil || x.Reason != WaitCrashLoop || !x.Until.Equal(ended.Add(time.Second)) || !strings.Contains(x.Message, "back-off 1s") {
		t.Errorf("waits for %+v, want until 1 s after its end", x)
	}
}

// A container that crashes whenever it is looked at, once a second: B while it is
// held back. It runs for a second each time before it is seen to end.
func TestBackoffTimeline(t *testing.T) {
	t.Attr("kubelet", "178")
	sim := simulate(t, "backoff=1s/10s/20s", "0s runs")
	var got strings.Builder
	for second := range 37 {
		sim.advanceTo(sim.start.Add(time.Duration(second) * time.Second))
		if sim.c.State.Alive() {
			sim.play(fmt.Sprintf("%ds exits 1", second))
		}
		if sim.backoffLeft() > 0 {
			got.WriteByte('B')
		} else {
			got.WriteByte('.')
		}
	}
	want := "." + "B." + "BB." + "BBBB." + "BBBBBBBB." + "BBBBBBBBBB." + "BBBBBB"
	if got.String() != want {
		t.Fatalf("held back\n%s, want\n%s\n%s", got.String(), want, sim.transcript.String())
	}
	sim.play("62s exits 1") // it ran for more than 20 s
	if sim.backoffLeft() > 0 {
		t.Errorf("held back after a long run:\n%s", sim.transcript.String())
	}
	sim.play("63s exits 1")
	if d := sim.backoffLeft(); d != time.Second {
		t.Errorf("held back for %v after that, want 1 s: afresh\n%s", d, sim.transcript.String())
	}
}
