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

// The delays after runs that lasted this long.
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
		{"doubles up to the cap, reset by a long run", "173", Backoff{time.Second, 50 * time.Second, 100 * time.Second},
			append(whole(10), seconds(101, 1)...), seconds(0, 1, 2, 4, 8, 16, 32, 50, 50, 50, 0, 1)},
		{"stays at the cap, reset after twice the cap", "174", Backoff{time.Second, 5 * time.Second, 10 * time.Second},
			append(whole(6), seconds(11)...), seconds(0, 1, 2, 4, 5, 5, 0)},
		{"stays at the cap after a run a little longer than the cap", "175", Backoff{time.Second, 5 * time.Second, 10 * time.Second},
			append(whole(6), seconds(6, 6)...), seconds(0, 1, 2, 4, 5, 5, 5, 5)},
		{"reset_after 200 s: kept after 101 s, reset after 501 s", "177", Backoff{time.Second, 50 * time.Second, 200 * time.Second},
			seconds(1, 1, 101, 501, 1), seconds(0, 1, 2, 0, 1)},
		{"reset_after twice the cap: kept after 5 s, reset after 101 s", "177", Backoff{time.Second, 50 * time.Second, 100 * time.Second},
			seconds(1, 1, 5, 101, 1), seconds(0, 1, 2, 0, 1)},
		{"no jitter", "179", Backoff{100 * time.Millisecond, time.Minute, time.Hour},
			whole(13), seconds(0, .1, .2, .4, .8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2, 60, 60)},
		{"reset_after 8 s: doubles up to 8 s, reset beyond", "180", Backoff{time.Second, time.Minute, 8 * time.Second},
			seconds(1, 1, 8, 8, 8.001, 1, 1), seconds(0, 1, 2, 4, 0, 1, 2)},
		{"default reset_after: doubles up to it, reset beyond", "180", defaults,
			seconds(1, 600, 600, 600.001, 1), seconds(0, 10, 20, 0, 10)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Attr("kubelet", tt.kubelet)
			for range 2 { // without jitter both are the same
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

func TestBackoffReset(t *testing.T) {
	crashes := []string{"backoff=1s/50s/100s", "0s runs", "1s exits 1", "2s exits 1", "4s exits 1", "8s exits 1"}
	for _, tt := range []struct {
		name  string
		lines []string
		want  time.Duration
	}{
		{"not by a short run", []string{"20s exits 1"}, 8 * time.Second},
		{"by a long run", []string{"200s exits 1"}, 0},
		{"by other resources", []string{"9s resources 512m", "20s exits 1"}, 0},
		{"not by the same resources", []string{"9s resources ", "20s exits 1"}, 8 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Attr("kubelet", "173")
			sim := simulate(t, crashes...)
			if got := sim.backoffLeft(); got != 4*time.Second {
				t.Fatalf("back-off %v after four crashes, want 4 s", got)
			}
			for _, line := range tt.lines {
				words := strings.SplitN(line, " ", 3)
				if err := sim.playLine(words); err != nil {
					t.Fatal(err)
				}
			}
			if got := sim.backoffLeft(); got != tt.want {
				t.Errorf("back-off %v, want %v\n%s", got, tt.want, sim.transcript.String())
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
		active  bool // an end counts
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
			if got := sim.backoffLeft(); got != tt.want || sim.state.Lasting.Backoff.Active != tt.active {
				t.Errorf("back-off %v, want %v; its back-off is active: %v\n%s", got, tt.want, sim.state.Lasting.Backoff.Active, sim.transcript.String())
			}
			v := sim.view()
			if x := v.Waiting(); (x != nil && x.Reason == WaitCrashLoop) != (tt.want > 0) {
				t.Errorf("shown as waiting for %+v", x)
			}
		})
	}
}

// The delay counts from the end, not from the news of it.
func TestBackoffCountsFromEnd(t *testing.T) {
	t.Attr("kubelet", "183")
	sim := simulate(t, "backoff=1s/5s/1m", "0s runs", "1s exits 1", "2s")
	sim.endRun(1)
	ended := sim.now
	sim.now = sim.now.Add(400 * time.Millisecond)
	sim.step("late news", &Input{Kind: Observed})
	v := sim.view()
	x := v.Waiting()
	if x == nil || x.Reason != WaitCrashLoop || !x.Until.Equal(ended.Add(time.Second)) || !strings.Contains(x.Message, "back-off 1s") {
		t.Errorf("waits for %+v, want until 1 s after its end", x)
	}
}

// A container crashes at the next full second after each start. B: it is in back-off at
// that second.
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
		t.Fatalf("in back-off\n%s, want\n%s\n%s", got.String(), want, sim.transcript.String())
	}
	sim.play("62s exits 1") // it ran for more than 20 s
	if sim.backoffLeft() > 0 {
		t.Errorf("in back-off after a long run:\n%s", sim.transcript.String())
	}
	sim.play("63s exits 1")
	if d := sim.backoffLeft(); d != time.Second {
		t.Errorf("back-off %v after that, want 1 s\n%s", d, sim.transcript.String())
	}
}
