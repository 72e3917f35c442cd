package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"healthd/runtime/docker/dockertest"
)

// By default the first restart is immediate, the next ones come after 10 s and 20 s. A
// healthd that is killed in between keeps the back-off and the time already waited.
func backoffSurvivesHealthdRestart(t *testing.T, e engine) {
	d := startDaemonOn(t, e, "[[spec]]\nname = \"looping\"\nmatch = { e2e = \"looping\" }\n")
	e.Run(t, dockertest.RunOptions{Name: "looping", Labels: map[string]string{"e2e": "looping"}, Cmd: []string{"false"}})
	waits := func(restarts int, wait string) func(status) bool {
		return func(s status) bool {
			return s.RestartCount == restarts && waitsFor("CrashLoopBackOff")(s) && strings.HasPrefix(s.State.Waiting.Message, "back-off "+wait+" ")
		}
	}
	s := d.until(20*time.Second, "looping", "waiting 10 s, after a restart without a wait", waits(1, "10s"))
	ended := s.LastState.Terminated.FinishedAt
	d.waitForJournal("looping")
	d.kill()
	const wait, away = 10 * time.Second, 5 * time.Second
	d.eventually(2*away, "stay away for long", func() error {
		if since := time.Since(ended); since < away {
			return fmt.Errorf("it is %v since the end", since)
		}
		return nil
	})
	d.restart()
	d.stays(time.Second, "looping", "waiting all the same", waits(1, "10s"))
	d.until(20*time.Second, "looping", "waiting 20 s", waits(2, "20s"))
	if waited := d.newestStart(e, "looping").Sub(ended); waited < wait || waited > away+wait { // as late as if the wait had begun afresh
		t.Errorf("it was started again %v after its end, want %v, and less than %v", waited, wait, away+wait)
	}
}

// After a run longer than reset_after there is no back-off, and the next one is the
// shortest.
func backoffIsForgottenAfterALongRun(t *testing.T, e engine) {
	const long = 3 * time.Second
	d := startDaemonOn(t, e, `
[[spec]]
name = "settles"
match = { e2e = "settles" }
[spec.backoff]
initial = "1s"
max = "1h"
reset_after = "3s"
`)
	// The first three runs end at once.
	id := e.Run(t, dockertest.RunOptions{Name: "settles", Labels: map[string]string{"e2e": "settles"},
		Cmd: []string{"sh", "-c", "echo >> /runs; test $(wc -l < /runs) -le 3 && exit 1; exec sleep 1000"}})
	backoffs := func() string {
		var all []string
		for _, ev := range d.events("settles") {
			if ev.Reason == "BackOff" {
				all = append(all, strings.Fields(ev.Message)[1])
			}
		}
		return strings.Join(all, " ")
	}
	s := d.until(20*time.Second, "settles", "running", restarted(3))
	if got, want := backoffs(), "1s 2s"; got != want {
		t.Fatalf("back-offs %s, want %s", got, want)
	}
	d.until(20*time.Second, "settles", "running for long", func(status) bool { return time.Since(s.State.Running.StartedAt) > long+500*time.Millisecond })
	d.endProcess(e, id)
	d.until(20*time.Second, "settles", "started again", restarted(4))
	if got, want := backoffs(), "1s 2s"; got != want {
		t.Errorf("back-offs %s, want %s and none after the long run", got, want)
	}
	d.endProcess(e, id)
	d.until(20*time.Second, "settles", "started again", restarted(5))
	if got, want := backoffs(), "1s 2s 1s"; got != want {
		t.Errorf("back-offs %s, want %s", got, want)
	}
}
