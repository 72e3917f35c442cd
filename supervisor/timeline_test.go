package supervisor

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"healthd/prober"
	"healthd/runtime"
	"healthd/supervisor/core"
)

// What 10,000 containers with two probes each keep of their last hour is less than 10 MB, and at most 1 kB a probe.
func TestTimelineSize(t *testing.T) {
	of, probe := unsafe.Sizeof(timeline{}), unsafe.Sizeof(probeMinutes{})
	const sizeClasses = 1.15 // the allocator rounds up to 256 bytes, and the entry a little
	if whole := float64(of+2*probe) * sizeClasses * 10_000; whole > 10e6 || probe+of > 1000 {
		t.Errorf("a container takes %d bytes and a probe %d: %.1f MB of 10,000 containers", of, probe, whole/1e6)
	}
	t.Logf("a container takes %d bytes, and each of its probes %d", of, probe)
}

// letters writes minutes as the first letters of their worst looks, "." for none and "*" after a restart.
func letters(minutes [TimelineMinutes]LookSet) string {
	var b strings.Builder
	for _, m := range minutes {
		letter := "."
		if w := m.Worst(); w != LookNone {
			letter = w.String()[:1]
		}
		if m.Restarted() {
			letter += "*"
		}
		b.WriteString(letter)
	}
	return b.String()
}

// textOf writes a change as people read it.
func (c Change) textOf(start time.Time) string {
	text := fmt.Sprintf("%v %v", c.At.Sub(start).Round(time.Second), c.Look)
	if c.Restart != core.NoCause {
		text += " restarted by " + c.Restart.String()
	}
	if c.Ended {
		text += fmt.Sprintf(" ended %d %s", c.ExitCode, c.Reason)
	}
	return text
}

func TestTimelineOfARestart(t *testing.T) {
	play(t, webSpec(), func(h *harness) {
		began := time.Now()
		h.engine.run("c1")
		time.Sleep(10*time.Minute - time.Second) // between two probes
		h.probes.setResult("c1:1", prober.Result{Outcome: prober.Failure, Cause: prober.Status, Output: "500", Latency: 300 * time.Millisecond})
		time.Sleep(time.Minute)
		h.probes.setResult("c1:1", prober.Result{Outcome: prober.Success, Latency: 2 * time.Millisecond})
		time.Sleep(9 * time.Minute)
		h.engine.exit("c1", 7)
		pass(5*time.Minute + time.Second)

		got, found := h.Board().Timeline("c1", time.Now())
		if !found || !got.Since.Equal(began) {
			h.t.Fatalf("found %v, since %v, want %v", found, got.Since, began)
		}
		if got, want := letters(got.Minutes), strings.Repeat(".", 34)+"SRRRRRRRRRW*RRRRRRRRWW*RRRRR"; got != want {
			h.t.Errorf("minutes:\ngot  %s\nwant %s", got, want)
		}
		var changes []string
		for _, c := range got.Changes {
			changes = append(changes, c.textOf(began))
		}
		h.t.Log(strings.Join(changes, "\n"))
		for _, want := range []string{"10m20s Draining", "10m25s Waiting ended 0 LivenessFailed", "10m25s Starting restarted by liveness", "19m59s Waiting ended 7 Error", "Starting restarted by exit"} {
			if !slices.ContainsFunc(changes, func(c string) bool { return strings.HasSuffix(c, want) }) {
				h.t.Errorf("no change %q", want)
			}
		}
		p := got.Probes[core.Liveness]
		failed := p[slices.IndexFunc(p[:], func(m ProbeMinute) bool { return m.Failures > 0 })]
		if failed.Failures != 7 || failed.Worst < 297*time.Millisecond || failed.Worst > 303*time.Millisecond {
			h.t.Errorf("the minute of the failures: %+v", failed)
		}
		if got.Probes[core.Startup] != nil {
			h.t.Error("it has no startup probe")
		}
		if p := got.Probes[core.Readiness]; p[TimelineMinutes-2].Successes != 12 {
			h.t.Errorf("a minute of the readiness probe, which is every 5 s: %+v", p[TimelineMinutes-2])
		}
	})
}

// An hour later nothing of it is left, and the container is as it was last.
func TestTimelineForgets(t *testing.T) {
	v := published("web", "web", false)
	v.State.Engine.State = runtime.Running
	ready := *v
	ready.State = ready.State.Copy()
	ready.State.Conditions.Ready.Status = true
	b := NewBoard(nil, v)
	now := time.Now()
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	b.Play("id-of-web", Moment{At: ago(3 * time.Hour), View: v}, Moment{At: ago(3 * time.Hour), Probe: core.Liveness, Result: refused},
		Moment{At: ago(30 * time.Minute), View: &ready}, Moment{At: ago(10 * time.Minute), Probe: core.Liveness, Result: prober.Result{Cause: prober.NotAsked}})
	got, _ := b.Timeline("id-of-web", now)
	if text := letters(got.Minutes); text != strings.Repeat("S", 30)+strings.Repeat("R", 30) && text != strings.Repeat("S", 29)+strings.Repeat("R", 31) {
		t.Errorf("minutes %s", text)
	}
	counts := ProbeMinute{}
	for _, m := range got.Probes[core.Liveness] {
		counts.Failures += m.Failures
		counts.Unknown += m.Unknown
	}
	if counts != (ProbeMinute{Unknown: 1}) {
		t.Errorf("counted in the last hour: %+v", counts)
	}
	if later, _ := b.Timeline("id-of-web", now.Add(90*time.Minute)); letters(later.Minutes) != strings.Repeat("R", 60) {
		t.Errorf("later: %s", letters(later.Minutes))
	}
	if _, found := b.Timeline("none", now); found || b.Minutes("none", now) != ([TimelineMinutes]LookSet{}) {
		t.Error("found a container that is not there")
	}
}

// A clock that is set back, or a probe without end, changes nothing but the counts.
func TestProbeCell(t *testing.T) {
	var c probeCell
	for range 1000 {
		c = c.with(prober.Result{Outcome: prober.Success}).with(prober.Result{Outcome: prober.Failure, Latency: 9 * time.Hour}).with(prober.Result{})
	}
	if c&mostCounted != mostCounted || c>>8&mostCounted != mostCounted || c>>16&mostUnknown != mostUnknown || c.latency() < time.Hour {
		t.Errorf("%x: %v", c, c.latency())
	}
	for d := leastLatency; d < time.Hour; d = d * 5 / 4 {
		if got := probeCell(0).with(prober.Result{Outcome: prober.Success, Latency: d}).latency(); got < d*98/100 || got > d*102/100 {
			t.Errorf("%v is kept as %v", d, got)
		}
	}
	p := &probeMinutes{}
	p.minute.Store(100)
	p.observe(refused, 100)
	p.observe(refused, 97)
	if m := p.minutes(41); m[59].Failures != 2 {
		t.Errorf("a result before the newest minute: %+v", m[59])
	}
}

func TestPackedChange(t *testing.T) {
	for _, c := range []change{
		{}, {at: time.Hour, look: numLooks - 1, restart: core.ByNetwork, exit: exit{reason: uint8(len(exitReasons)), code: mostExitCode}},
		{at: -3 * time.Hour, look: LookReady}, {at: 80 * 365 * 24 * time.Hour, look: LookWaiting, exit: exit{reason: 1}},
	} {
		if got := unpackChange(c.pack()); got != c {
			t.Errorf("got %+v, want %+v", got, c)
		}
	}
	if e := exitFrom(core.Exit{Code: -5, Reason: "new"}); e.code != 0 || exitReasons[e.reason-1] != "" {
		t.Errorf("%+v", e)
	}
}

// Readers see whole minutes while the loop writes.
func TestTimelineIsReadMeanwhile(t *testing.T) {
	v := published("web", "web", false)
	b := NewBoard(nil, v)
	s, _ := b.byID.get("id-of-web")
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for range 2 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				got, _ := b.Timeline("id-of-web", b.began.Add(10*time.Hour))
				for _, m := range got.Minutes {
					if m.Has(LookReady) {
						t.Error("it was never ready")
						return
					}
				}
			}
		})
	}
	before := v
	for i := range 20_000 {
		next := *before
		next.State = next.State.Copy()
		next.State.Lost = !before.State.Lost
		s.timeline.note(before, &next, time.Duration(i)*time.Second)
		s.timeline.observe(core.Liveness, refused, time.Duration(i)*time.Second)
		before = &next
	}
	close(stop)
	wg.Wait()
}

func BenchmarkTimeline(b *testing.B) {
	t, v := &timeline{}, published("web", "web", false)
	t.note(nil, v, 0)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		at := time.Duration(i) * time.Second
		t.note(v, v, at)
		t.observe(core.Liveness, refused, at)
	}
}
