package supervisor

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// When a container is looked at next. There is no period after which everything is
// looked at again, so what is due must be named exactly.
func TestNextLook(t *testing.T) {
	const nothing = -1
	for _, tt := range []struct {
		name  string
		lines []string
		want  time.Duration // from the end of the lines
		acts  []string
	}{
		{"news of an end is acted on at once", []string{"0s runs", "5s exits 1"}, nothing, []string{"START"}},
		{"nothing is due", []string{"0s runs", "1m"}, nothing, nil},
		{"the next probe", []string{"liveness=0s/20s/1/3", "0s runs"}, 20 * time.Second, nil},
		{"a failed call is tried again", []string{"0s stop-fails yes", "0s runs", "5s restart-asked", "5001ms"}, 9999 * time.Millisecond, []string{"STOP grace 30s"}},
		{"the end of a back-off", []string{"backoff=5s/1m/1h", "0s runs", "1s exits 1", "2s exits 1"}, 5 * time.Second, []string{"START"}},
		{"of a drain and a probe the earlier", []string{"readiness=0s/20s/1/3 drain=7s", "0s runs", "1s restart-asked"}, 7 * time.Second, nil},
		{"of a probe and a drain the earlier", []string{"readiness=0s/3s/1/3 drain=7s", "0s runs", "1s restart-asked"}, 2 * time.Second, nil},
		{"of two probes the earlier", []string{"readiness=0s/5s/1/3 liveness=0s/3s/1/3", "0s runs"}, 3 * time.Second, nil},
		{"a back-off that is over is acted on at once", []string{"0s runs", "1s exits 1", "2s exits 1", "3s engine-lost", "1m engine-back"}, nothing, []string{"START", "START"}},
		{"a long back-off is not looked at before its end", []string{"backoff=1h/1h/2h", "0s runs", "1s exits 1", "2s exits 1"}, time.Hour, []string{"START"}},
		{"while the engine is away no back-off ends", []string{"0s runs", "1s exits 1", "2s exits 1", "3s engine-lost"}, nothing, []string{"START"}},
		{"while the engine is away no drain ends, but probes go on", []string{"readiness=0s/20s/1/3 drain=7s", "0s runs", "1s restart-asked", "2s engine-lost"}, 18 * time.Second, nil},
		{"a hook that could not run is tried again", []string{"post-start=1s", "0s post-start cannot", "0s runs", "2s"}, 9 * time.Second, []string{"PostStart HOOK within 5m1s"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Attr("kubelet", "191")
			for range 2 { // without jitter it is the same another time
				w := tale(t, tt.lines...)
				got := time.Duration(nothing)
				if due := wake(&w.state); !due.IsZero() {
					got = due.Sub(w.now).Round(time.Millisecond)
				}
				if acts := w.acts(); got != tt.want || !slices.Equal(acts, tt.acts) {
					t.Errorf("due in %v, want %v; acts %q, want %q\n%s", got, tt.want, acts, tt.acts, w.told.String())
				}
			}
		})
	}
}

// Of two containers that are held back the one whose time comes first is started
// first, whichever ended first.
func TestTwoBackoffs(t *testing.T) {
	t.Attr("kubelet", "191 192")
	synctest.Test(t, func(t *testing.T) {
		h := open(t, nil)
		defer h.close(t)
		h.specs["n-long"] = &Spec{RestartPolicy: Always, Backoff: Backoff{5 * time.Second, time.Minute, time.Hour}}
		h.specs["n-short"] = &Spec{RestartPolicy: Always, Backoff: Backoff{3 * time.Second, time.Minute, time.Hour}}
		h.synced()
		for _, id := range []string{"long", "short"} {
			h.engine.run(id)
			h.engine.exit(id, 1) // started at once
			synctest.Wait()
			h.engine.exit(id, 1)
			synctest.Wait()
		}
		begun := time.Now()
		for _, tt := range []struct {
			at   time.Duration
			want []string
		}{
			{3*time.Second - 1, nil}, {3*time.Second + time.Millisecond, []string{"start short"}},
			{5*time.Second - 1, []string{"start short"}}, {5*time.Second + time.Millisecond, []string{"start short", "start long"}},
		} {
			time.Sleep(time.Until(begun.Add(tt.at)))
			synctest.Wait()
			if got := h.engine.madeCalls()[2:]; !slices.Equal(got, tt.want) {
				t.Errorf("after %v: %v, want %v", tt.at, got, tt.want)
			}
		}
	})
}

// The queue of all containers that wait for a time.
func TestEarliestOfAll(t *testing.T) {
	type wait struct{ who, until int } // until 0: for nothing
	for _, tt := range []struct {
		name  string
		waits []wait
		first int // -1: nobody
	}{
		{"nobody", nil, -1},
		{"one that waits for nothing", []wait{{0, 0}}, -1},
		{"one", []wait{{0, 5}}, 0},
		{"one among those that wait for nothing", []wait{{0, 0}, {1, 5}, {2, 0}}, 1},
		{"two, the earlier first", []wait{{0, 3}, {1, 5}}, 0},
		{"two, the later first", []wait{{0, 5}, {1, 3}}, 1},
		{"many", []wait{{0, 9}, {1, 4}, {2, 7}, {3, 2}, {4, 8}, {5, 6}}, 3},
		{"the later one becomes the earlier", []wait{{0, 3}, {1, 5}, {1, 2}}, 1},
		{"the earlier one is put off", []wait{{0, 3}, {1, 5}, {0, 7}}, 1},
		{"the earlier one waits no more", []wait{{0, 3}, {1, 5}, {2, 4}, {0, 0}}, 2},
		{"one from the middle waits no more", []wait{{0, 3}, {1, 4}, {2, 5}, {1, 0}, {0, 0}}, 2},
		{"none waits any more", []wait{{0, 3}, {1, 5}, {0, 0}, {1, 0}}, -1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Attr("kubelet", "192")
			var q queue
			all := make([]*entry, 6)
			for i := range all {
				all[i] = &entry{index: -1}
			}
			until := make(map[int]int)
			for _, x := range tt.waits {
				at := time.Time{}
				if until[x.who] = x.until; x.until != 0 {
					at = time.Unix(int64(x.until), 0)
				}
				q.set(all[x.who], at)
			}
			got := q.first()
			if who := slices.Index(all, got); who != tt.first {
				t.Fatalf("the first is %d, want %d", who, tt.first)
			}
			if got != nil && got.wake.Unix() != int64(until[tt.first]) {
				t.Errorf("it waits until %v, want %d", got.wake, until[tt.first])
			}
		})
	}
}
