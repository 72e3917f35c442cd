package engines

import (
	"errors"
	"strings"
	"testing"
	"time"

	"healthd/e2e/harness"
	"healthd/runtime/docker/dockertest"
)

// The first restart is immediate, the next ones come after 8 s and 16 s. A healthd that is killed in between keeps the
// back-off and the time already waited.
func backoffSurvivesHealthdRestart(t *testing.T, e harness.Engine) {
	const wait = 8 * time.Second // longer than a busy machine takes to look
	d := harness.StartDaemonOn(t, e, "[[spec]]\nname = \"looping\"\nmatch = { e2e = \"looping\" }\nbackoff = { initial = \"8s\" }\n")
	e.Run(t, dockertest.RunOptions{Name: "looping", Labels: map[string]string{"e2e": "looping"}, Cmd: []string{"false"}})
	waits := func(restarts int, wait time.Duration) func(harness.Status) bool {
		return func(s harness.Status) bool {
			return s.RestartCount == restarts && harness.WaitsFor("CrashLoopBackOff")(s) && strings.HasPrefix(s.State.Waiting.Message, "back-off "+wait.String()+" ")
		}
	}
	s := d.Until("looping", "waiting, after a restart without a wait", waits(1, wait))
	ended, until := s.LastState.Terminated.FinishedAt, s.State.Waiting.Until
	d.WaitForJournal("looping")
	d.Kill()
	d.Restart()
	if s, err := d.Status("looping"); err != nil || waits(1, wait)(s) && s.State.Waiting.Until.Sub(until).Abs() > time.Millisecond {
		t.Errorf("it waits until %v, and before the kill it did until %v; %v", s.State.Waiting, until, err)
	}
	d.Until("looping", "started again", func(s harness.Status) bool { return s.RestartCount >= 2 })
	d.Eventually("wait for twice as long next", func() error {
		for _, ev := range d.Events("looping") {
			if ev.Reason == "BackOff" && strings.HasPrefix(ev.Message, "Back-off 16s ") {
				return nil
			}
		}
		return errors.New("no event says so")
	})
	if waited := newestStart(d, e, "looping").Sub(ended); waited < wait {
		t.Errorf("it was started again %v after its end, want %v", waited, wait)
	}
}

// After a run longer than reset_after there is no back-off, and the next one is the
// shortest.
func backoffIsForgottenAfterALongRun(t *testing.T, e harness.Engine) {
	const long = 8 * time.Second // longer than a busy machine takes for the three short runs
	d := harness.StartDaemonOn(t, e, `
[[spec]]
name = "settles"
match = { e2e = "settles" }
[spec.backoff]
initial = "1s"
max = "1h"
reset_after = "8s"
`)
	// The first three runs end at once.
	id := e.Run(t, dockertest.RunOptions{Name: "settles", Labels: map[string]string{"e2e": "settles"},
		Cmd: []string{"sh", "-c", "echo >> /runs; test $(wc -l < /runs) -le 3 && exit 1; exec sleep 1000"}})
	backoffs := func() string {
		var all []string
		for _, ev := range d.Events("settles") {
			if ev.Reason == "BackOff" {
				all = append(all, strings.Fields(ev.Message)[1])
			}
		}
		return strings.Join(all, " ")
	}
	s := d.Until("settles", "running", harness.Restarted(3))
	if got, want := backoffs(), "1s 2s"; got != want {
		t.Fatalf("back-offs %s, want %s", got, want)
	}
	d.Until("settles", "running for long", func(harness.Status) bool { return time.Since(s.State.Running.StartedAt) > long+500*time.Millisecond })
	d.EndProcess(e, id)
	d.Until("settles", "started again", harness.Restarted(4))
	if got, want := backoffs(), "1s 2s"; got != want {
		t.Errorf("back-offs %s, want %s and none after the long run", got, want)
	}
	d.EndProcess(e, id)
	d.Until("settles", "started again", harness.Restarted(5))
	if got, want := backoffs(), "1s 2s 1s"; got != want {
		t.Errorf("back-offs %s, want %s", got, want)
	}
}
