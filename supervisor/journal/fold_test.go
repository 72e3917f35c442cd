package journal

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"healthd/supervisor/core"
)

// flap records n events of a container, 900 ms apart, so that none meets a timer.
func flap(j *Journal, n int, message func(i int) string) {
	for i := range n {
		time.Sleep(900 * time.Millisecond)
		j.Record(core.Event{Time: time.Now(), Container: "web", Reason: core.EventNotReady, Message: message(i)})
	}
}

func same(int) string { return "Container web is not ready" }

// transcript writes events in short: what came how often in which time.
func transcript(events []core.Event) string {
	var b strings.Builder
	for _, ev := range events {
		fmt.Fprintf(&b, "%s %s", ev.Container, ev.Message)
		if ev.Count > 0 {
			fmt.Fprintf(&b, " x%d in %v", ev.Count, ev.Time.Sub(ev.First))
		}
		b.WriteString("\n")
	}
	return b.String()
}

func TestRepeatsAreFolded(t *testing.T) {
	each := strings.Repeat("web Container web is not ready\n", foldAfter)
	number := func(i int) string { return fmt.Sprint("failed: ", i) }
	for _, tt := range []struct {
		name string
		play func(*Journal)
		want string
	}{
		{"few are kept one by one", func(j *Journal) { flap(j, foldAfter, same) }, each},
		{"the one after them, too", func(j *Journal) { flap(j, foldAfter+1, same) }, each + "web Container web is not ready\n"},
		{"more are one, and seen at once", func(j *Journal) { flap(j, foldAfter+41, same) }, each + "web Container web is not ready x41 in 36s\n"},
		{"one in a minute", func(j *Journal) { flap(j, foldAfter+90, same) },
			each + "web Container web is not ready x67 in 59.4s\nweb Container web is not ready x23 in 19.8s\n"},
		{"different messages: the newest", func(j *Journal) { flap(j, foldAfter, same); flap(j, 3, number) },
			each + "web (combined from similar events) failed: 2 x3 in 1.8s\n"},
		{"quiet for ten minutes", func(j *Journal) { flap(j, foldAfter+5, same); time.Sleep(foldQuiet); flap(j, 2, same) },
			each + "web Container web is not ready x5 in 3.6s\n" + strings.Repeat("web Container web is not ready\n", 2)},
		{"quiet for less", func(j *Journal) { flap(j, foldAfter+5, same); time.Sleep(foldQuiet - time.Minute); flap(j, 2, same) },
			each + "web Container web is not ready x5 in 3.6s\nweb Container web is not ready x2 in 900ms\n"},
		{"other reasons and containers", func(j *Journal) {
			flap(j, foldAfter+2, same)
			j.Record(core.Event{Time: time.Now(), Container: "web", Reason: core.EventReady, Message: "ready"})
			j.Record(core.Event{Time: time.Now(), Container: "db", Reason: core.EventNotReady, Message: "not ready"})
		}, each + "web ready\ndb not ready\nweb Container web is not ready x2 in 900ms\n"},
		{"of the host, only the same message", func(j *Journal) {
			for i := range 3 * foldAfter {
				j.Record(core.Event{Time: time.Now(), Reason: core.EventRuntimeLost, Message: fmt.Sprint(i % 3)})
			}
		}, strings.Repeat(" 0\n 1\n 2\n", foldAfter)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j := New()
				tt.play(j)
				if got := transcript(j.Events("", time.Time{})); got != tt.want {
					t.Errorf("got:\n%swant:\n%s", got, tt.want)
				}
				time.Sleep(foldEvery)
				synctest.Wait()
				if events, _, _ := j.After(0); transcript(events) != transcript(j.Events("", time.Time{})) {
					t.Errorf("after a minute, followers have:\n%s", transcript(events))
				}
			})
		})
	}
}

// Repeats are told where they happened, before and after they are kept.
func TestFoldedRepeatsAreInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := New()
		j.Record(core.Event{Time: time.Now().Add(time.Hour), Container: "db", Reason: core.EventNotReady, Message: "before the clock was set back"})
		flap(j, foldAfter+2, same)
		time.Sleep(time.Second)
		j.Record(core.Event{Time: time.Now(), Container: "web", Reason: core.EventReady, Message: "ready"})
		want := "db before the clock was set back\n" + strings.Repeat("web Container web is not ready\n", foldAfter) + "web Container web is not ready x2 in 900ms\nweb ready\n"
		for range 2 {
			if got := transcript(j.Events("", time.Time{})); got != want {
				t.Errorf("got:\n%swant:\n%s", got, want)
			}
			time.Sleep(foldEvery)
			synctest.Wait()
		}
	})
}

// What is held back is on the disk when Run ends.
func TestFoldedRepeatsSurviveTheEnd(t *testing.T) {
	dir := t.TempDir()
	j := open(t, dir)
	stop := run(t, j)
	for i := range foldAfter + 7 {
		j.Record(core.Event{Time: time.Unix(int64(i), 0), Container: "web", Reason: core.EventNotReady, Message: same(i)})
	}
	stop()
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	events := open(t, dir).Events("web", time.Time{})
	if last := events[len(events)-1]; len(events) != foldAfter+1 || last.Count != 7 || last.Time.Sub(last.First) != 6*time.Second {
		t.Errorf("%d events, the last one: %+v", len(events), last)
	}
}

// Names that never come again do not fill the memory.
func TestFoldsAreBounded(t *testing.T) {
	j := New()
	for i := range 3 * Size {
		j.Record(core.Event{Time: time.Unix(int64(i), 0), Container: fmt.Sprint("build-", i), Reason: core.EventStarted, Message: "started"})
	}
	if n := len(j.folds.repeats); n > Size {
		t.Errorf("%d entries", n)
	}
}
