package supervisor

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"healthd/supervisor/core"
)

// Containers that crash at once and ask for a short back-off do not keep the engine busy. Who crashes for
// the first time is started at once all the same.
func TestCrashLoopsOfTheHost(t *testing.T) {
	hasty := webSpec()
	hasty.Backoff = core.Backoff{Initial: time.Second, Max: time.Second, ResetAfter: time.Hour}
	play(t, hasty, func(h *harness) {
		const loops = 20
		for i := range loops {
			h.engine.run(fmt.Sprint("c", i))
		}
		h.engine.run("calm")
		synctest.Wait()
		for range 5 * 60 {
			time.Sleep(time.Second)
			for i := range loops {
				if id := fmt.Sprint("c", i); h.view("n-" + id).State.Engine.State.Alive() {
					h.engine.exit(id, 1)
				}
			}
			synctest.Wait()
		}
		starts := strings.Count(strings.Join(h.engine.calls(), " "), "start ")
		if least, most := 5*60, maxCrashStarts+5*60*loops/10+loops; starts < least || starts > most {
			h.t.Errorf("%d starts in 5 minutes, want %d to %d", starts, least, most)
		}
		h.engine.exit("calm", 1)
		synctest.Wait()
		if !h.view("n-calm").State.Engine.State.Alive() {
			h.t.Error("one that crashed for the first time was not started at once")
		}
	})
}

// Labels may set a reset_after that is shorter than a crash loop's runs. Their back-off then never grows,
// but each of them still crashes again.
func TestCrashLoopsThatOutlastResetAfter(t *testing.T) {
	hasty := webSpec()
	hasty.Probes = [core.NumProbes]*core.ProbeSpec{}
	hasty.Backoff = core.Backoff{Initial: time.Second, Max: time.Second, ResetAfter: time.Second}
	play(t, hasty, func(h *harness) {
		const loops, minutes = 20, 5
		for i := range loops {
			h.engine.run(fmt.Sprint("c", i))
		}
		synctest.Wait()
		for range minutes * 60 / 2 {
			time.Sleep(2 * time.Second) // longer than reset_after
			for i := range loops {
				if id := fmt.Sprint("c", i); h.view("n-" + id).State.Engine.State.Alive() {
					h.engine.exit(id, 1)
				}
			}
			synctest.Wait()
		}
		starts := strings.Count(strings.Join(h.engine.calls(), " "), "start ")
		if most := maxCrashStarts + minutes*60*loops/10 + loops; starts > most {
			h.t.Errorf("%d starts in %d minutes, want at most %d", starts, minutes, most)
		}
	})
}
