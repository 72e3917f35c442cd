package supervisor

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"healthd/supervisor/core"
)

// Of two containers in back-off, healthd starts first the one whose back-off ends first.
func TestEarlierBackoffStartsFirst(t *testing.T) {
	t.Attr("kubelet", "191 192")
	playWith(t, nil, nil, func(h *harness) {
		h.specs["n-long"] = &core.Spec{RestartPolicy: core.Always, Backoff: core.Backoff{Initial: 5 * time.Second, Max: time.Minute, ResetAfter: time.Hour}}
		h.specs["n-short"] = &core.Spec{RestartPolicy: core.Always, Backoff: core.Backoff{Initial: 3 * time.Second, Max: time.Minute, ResetAfter: time.Hour}}
		h.sendSynced()
		for _, id := range []string{"long", "short"} {
			h.engine.run(id)
			h.engine.exit(id, 1) // healthd starts it at once
			synctest.Wait()
			h.engine.exit(id, 1)
			synctest.Wait()
		}
		began := time.Now()
		for _, tt := range []struct {
			at   time.Duration
			want []string
		}{
			{3*time.Second - 1, nil}, {3*time.Second + time.Millisecond, []string{"start short"}},
			{5*time.Second - 1, []string{"start short"}}, {5*time.Second + time.Millisecond, []string{"start short", "start long"}},
		} {
			pass(time.Until(began.Add(tt.at)))
			if got := h.engine.calls()[2:]; !slices.Equal(got, tt.want) {
				h.t.Errorf("after %v: %v, want %v", tt.at, got, tt.want)
			}
		}
	})
}

// The queue returns the entry that is due first.
func TestQueueFirst(t *testing.T) {
	type wait struct{ entry, until int } // 0: not queued
	for _, tt := range []struct {
		name  string
		waits []wait
		first int // -1: none
	}{
		{"empty", nil, -1},
		{"one that is not queued", []wait{{0, 0}}, -1},
		{"one", []wait{{0, 5}}, 0},
		{"one among entries that are not queued", []wait{{0, 0}, {1, 5}, {2, 0}}, 1},
		{"two, the earlier first", []wait{{0, 3}, {1, 5}}, 0},
		{"two, the later first", []wait{{0, 5}, {1, 3}}, 1},
		{"many", []wait{{0, 9}, {1, 4}, {2, 7}, {3, 2}, {4, 8}, {5, 6}}, 3},
		{"the later one becomes the earlier", []wait{{0, 3}, {1, 5}, {1, 2}}, 1},
		{"the earlier one becomes the later", []wait{{0, 3}, {1, 5}, {0, 7}}, 1},
		{"the earlier one is taken out", []wait{{0, 3}, {1, 5}, {2, 4}, {0, 0}}, 2},
		{"one from the middle is taken out", []wait{{0, 3}, {1, 4}, {2, 5}, {1, 0}, {0, 0}}, 2},
		{"all are taken out", []wait{{0, 3}, {1, 5}, {0, 0}, {1, 0}}, -1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Attr("kubelet", "192")
			q := newQueue()
			all := make([]*entry, 6)
			for i := range all {
				all[i] = &entry{}
			}
			until := make(map[int]int)
			for _, x := range tt.waits {
				at := time.Time{}
				if until[x.entry] = x.until; x.until != 0 {
					at = time.Unix(int64(x.until), 0)
				}
				q.set(all[x.entry], at)
			}
			got := q.first()
			if i := slices.Index(all, got); i != tt.first {
				t.Fatalf("the first is %d, want %d", i, tt.first)
			}
			if got != nil && got.wake.Unix() != int64(until[tt.first]) {
				t.Errorf("it waits until %v, want %d", got.wake, until[tt.first])
			}
		})
	}
}

// What is due within the same turn is done together, so that healthd wakes less often; what is due already is done at
// once.
func TestTurnOf(t *testing.T) {
	now := time.Date(2026, 11, 25, 12, 0, 0, int(3*time.Millisecond), time.UTC)
	at := func(d time.Duration) time.Time { return now.Truncate(time.Second).Add(d) }
	for _, tt := range []struct {
		name      string
		due, want time.Time
	}{
		{"nothing is due", time.Time{}, time.Time{}},
		{"due before", at(2 * time.Millisecond), at(2 * time.Millisecond)},
		{"due now", now, now},
		{"due in a moment", now.Add(1), at(turnEvery)},
		{"due shortly before a turn", at(turnEvery - 1), at(turnEvery)},
		{"due in a turn", at(turnEvery), at(turnEvery)},
		{"due shortly after a turn", at(turnEvery + 1), at(2 * turnEvery)},
		{"due much later", at(time.Hour + time.Microsecond), at(time.Hour + turnEvery)},
	} {
		if got := turnOf(tt.due, now); !got.Equal(tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// Probes with phases of their own share the moments at which the loop wakes, and each keeps its phase.
func TestProbesShareTurns(t *testing.T) {
	playWith(t, webSpec(), nil, func(h *harness) {
		const containers = 50
		for i := range containers {
			h.engine.run(fmt.Sprint("c", i))
			time.Sleep(time.Second/containers + 7*time.Microsecond)
		}
		h.sendSynced()
		last := func(i int) time.Time {
			return h.view(fmt.Sprintf("n-c%d", i)).State.Health.Probes[core.Readiness].LastAt
		}
		time.Sleep(15 * time.Second)
		before := make([]time.Time, containers)
		for i := range before {
			before[i] = last(i)
		}
		time.Sleep(50 * time.Second)
		turns := map[time.Duration]bool{}
		for i, was := range before {
			at := last(i)
			if passed := at.Sub(was); passed != 50*time.Second {
				h.t.Errorf("container %d: %v passed between ten probes of a period of 5s", i, passed)
			}
			if over := time.Duration(at.UnixNano()) % turnEvery; over != 0 {
				h.t.Errorf("container %d was probed %v after a turn", i, over)
			}
			turns[time.Duration(at.UnixNano())%(5*time.Second)] = true
		}
		if len(turns) < containers/2 {
			h.t.Errorf("only %d phases of %d containers are left", len(turns), containers)
		}
	})
}
