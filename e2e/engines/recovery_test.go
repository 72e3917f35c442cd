package engines

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"

	"healthd/e2e/harness"
	"healthd/runtime/docker/dockertest"
)

// What the operator stopped stays stopped over restarts of healthd and the engine. What
// crashed is started again, also when it crashed while healthd was down.
func operatorStopsSurviveRestarts(t *testing.T, e harness.Engine) {
	d := harness.StartDaemonOn(t, e, fmt.Sprintf(restartSpec, "wish", "Always"))
	labels := map[string]string{"e2e": "wish"}
	ids := map[string]string{}
	for _, name := range []string{"runs", "stopped", "stopped-while-away", "crashes-while-away"} {
		ids[name] = e.Run(t, dockertest.RunOptions{Name: name, Labels: labels})
		d.Until(name, "ready", harness.Ready)
	}
	e.StopByOperator(t, "stopped")
	d.Until("stopped", "stopped by the operator", harness.ByOperator)
	d.WaitForJournal("stopped")
	d.Kill()
	e.StopByOperator(t, "stopped-while-away")
	d.EndProcess(e, ids["crashes-while-away"])
	d.Restart()
	d.Until("crashes-while-away", "started again", func(s harness.Status) bool { return s.Ready && s.RestartCount == 1 })
	d.Until("stopped-while-away", "stopped by the operator", harness.ByOperator)
	d.Stays(2*time.Second, "stopped", "stopped", harness.ByOperator)

	e.Stop(t)
	e.Up(t)
	d.Eventually("hear the engine again", func() error { return d.RuntimeUp("1") })
	if err := d.Stop(); err != nil {
		t.Fatal(err)
	}
	d.Restart()
	d.Until("runs", "ready", harness.Ready)
	d.Stays(2*time.Second, "stopped", "stopped", harness.ByOperator)
	d.Stays(time.Second, "stopped-while-away", "stopped", harness.ByOperator)
	e.StartByOperator(t, ids["stopped"])
	d.Until("stopped", "ready, as somebody has started it", harness.Ready)
}

// endedFor returns nil when the container has not run for that time.
func endedFor(t *testing.T, e harness.Engine, name string, wanted time.Duration) error {
	c := e.Inspect(t, name)
	if age := time.Since(c.FinishedAt); c.Running || age < wanted {
		return fmt.Errorf("%s runs, or ended only %v ago", name, age)
	}
	return nil
}

// An engine that shuts down stops its containers, and starts only those with a restart
// policy of its own again. healthd starts the others.
func TestEngineRestartStartsWhatRan(t *testing.T) {
	harness.RingTwo(t, "make test-engines")
	t.Parallel()
	for name, end := range map[string]func(*dockertest.Engine, testing.TB){
		"gracefully": (*dockertest.Engine).Stop, "killed": (*dockertest.Engine).Kill,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := dockertest.Start(t, "--live-restore=false")
			d := harness.StartDaemon(t, e.Endpoint, fmt.Sprintf(restartSpec, "reborn", "Always"))
			labels := map[string]string{"e2e": "reborn"}
			stoppedID := e.Run(t, dockertest.RunOptions{Name: "stopped", Labels: labels})
			for _, name := range []string{"one", "two"} {
				e.Run(t, dockertest.RunOptions{Name: name, Labels: labels})
				d.Until(name, "ready", harness.Ready)
			}
			if err := e.Client().ContainerStop(t.Context(), stoppedID, container.StopOptions{}); err != nil {
				t.Fatal(err)
			}
			d.Until("stopped", "stopped by the operator", harness.ByOperator)
			d.Stays(6*time.Second, "stopped", "stopped, which the engine outlives", harness.ByOperator)
			end(e, t)
			d.Eventually("notice that the engine is gone", func() error { return d.RuntimeUp("0") })
			e.Up(t)
			d.Eventually("hear the engine again", func() error { return d.RuntimeUp("1") })
			for _, name := range []string{"one", "two"} {
				d.Until(name, "ready again", harness.Ready)
			}
			d.Stays(2*time.Second, "stopped", "stopped", harness.ByOperator)
		})
	}
}

// With live-restore containers outlive their engine: a job that ends meanwhile has done its work, and is not run again.
func TestJobEndsWhileItsEngineIsAway(t *testing.T) {
	harness.RingTwo(t, "make test-engines")
	t.Parallel()
	e := dockertest.Start(t)
	d := harness.StartDaemon(t, e.Endpoint, fmt.Sprintf(restartSpec, "outlives", "OnFailure"))
	labels := map[string]string{"e2e": "outlives"}
	for _, name := range []string{"job", "neighbour"} {
		e.Run(t, dockertest.RunOptions{Name: name, Labels: labels})
		d.Until(name, "ready", harness.Ready)
	}
	before, pid := harness.StartedAt(t, e, "neighbour"), e.Inspect(t, "job").Pid
	e.Stop(t)
	d.Eventually("notice that the engine is gone", func() error { return d.RuntimeUp("0") })
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil { // it exits with 0
		t.Fatal(err)
	}
	d.Eventually("see the job end", func() error {
		if err := syscall.Kill(pid, 0); err == nil {
			return errors.New("it still runs")
		}
		return nil
	})
	e.Up(t)
	d.Eventually("hear the engine again", func() error { return d.RuntimeUp("1") })
	completed := func(s harness.Status) bool {
		return s.State.Terminated != nil && s.State.Terminated.Reason == "Completed" && s.RestartCount == 0
	}
	d.Until("job", "completed", completed)
	d.Stays(2*time.Second, "job", "left alone", completed)
	if after := harness.StartedAt(t, e, "neighbour"); !after.Equal(before) {
		t.Errorf("its neighbour has run since %v, and before since %v", after, before)
	}
}

const hungSpec = `
[[spec]]
name = %[1]q
match = { e2e = %[1]q }
termination_grace_period = "5s"
[spec.liveness]
exec = { command = ["test", "!", "-e", "/dev/shm/sick"] }
period = "200ms"
timeout = "30s"
[spec.backoff]
initial = "1s"
`

// A healthd that is killed during a restart's stop finishes the restart when it is back.
func killedHealthdFinishesARestart(t *testing.T, e harness.Engine) {
	d := killedDuringStop(t, e, "hung")
	d.Eventually("see the engine finish the stop", func() error { return harness.Ended(t, e, "hung") })
	d.Start()
	d.Until("hung", "running again", func(s harness.Status) bool { return s.Ready && s.RestartCount == 1 })
}

func killedHealthdFinishesAStop(t *testing.T, e harness.Engine) {
	d := killedDuringStop(t, e, "hung-on")
	d.Start()
	d.Until("hung-on", "running again", func(s harness.Status) bool { return s.Ready && s.RestartCount == 1 })
}

// killedDuringStop returns a daemon that was killed while it stopped a hung container.
func killedDuringStop(t *testing.T, e harness.Engine, name string) *harness.Daemon {
	t.Helper()
	d := harness.StartDaemonOn(t, e, fmt.Sprintf(hungSpec, name))
	e.Run(t, dockertest.RunOptions{
		Name: name, Labels: map[string]string{"e2e": name},
		Cmd: []string{"sh", "-c", "trap 'touch /dev/shm/asked' TERM; while :; do sleep 0.2; done"},
	})
	d.Until(name, "ready", harness.Ready)
	harness.Inside(t, e, name, "touch", "/dev/shm/sick")
	d.Eventually("ask it to stop", func() error {
		if e.Exec(t, name, "test", "-e", "/dev/shm/asked") != 0 {
			return errors.New("it was not asked")
		}
		return nil
	})
	d.Kill()
	return d
}

// groupSpec asks for files in /dev/shm, which are gone with their run: one that removed them itself might do so after its
// first probe.
const groupSpec = `
[[spec]]
name = "crowd"
match = { e2e = "crowd" }
[spec.liveness]
exec = { command = ["test", "!", "-e", "/dev/shm/sick"] }
period = "300ms"
timeout = "30s"
failure_threshold = 1
[spec.startup]
exec = { command = ["test", "-e", "/dev/shm/warm"] }
period = "300ms"
timeout = "30s"
failure_threshold = 1000
[spec.group]
name = "crowd"
max_unavailable = 1
`

// All members of a group fail at once: they are restarted one after the other, each when the
// one before is ready, and one that recovers while it waits is not restarted.
func groupLimit(t *testing.T, e harness.Engine) {
	d := harness.StartDaemonOn(t, e, groupSpec)
	names := []string{"crowd-1", "crowd-2", "crowd-3"}
	for _, name := range names {
		e.Run(t, dockertest.RunOptions{
			Name: name, Labels: map[string]string{"e2e": "crowd"},
			Cmd: []string{"sh", "-c", "trap exit TERM; touch /up; while :; do sleep 0.1; done"},
		})
	}
	warm := func(name string, restarts int) {
		t.Helper()
		harness.Inside(t, e, name, "touch", "/dev/shm/warm")
		d.Until(name, "ready", func(s harness.Status) bool { return s.Ready && s.RestartCount == restarts })
	}
	for _, name := range names {
		harness.Inside(t, e, name, "sh", "-c", "until test -e /up; do sleep 0.1; done")
		warm(name, 0)
	}
	for _, name := range names {
		harness.Inside(t, e, name, "touch", "/dev/shm/sick")
	}
	var waiting, down []string
	d.Eventually("restart one and let two wait", func() error {
		waiting, down = nil, nil
		for _, name := range names {
			switch s, err := d.Status(name); {
			case err != nil:
				return err
			case harness.WaitsFor("GroupLimit")(s):
				waiting = append(waiting, name)
			// The startup probe has failed in the new run.
			case harness.Restarted(1)(s) && s.Probes["startup"].Outcome == "Failure":
				down = append(down, name)
			}
		}
		if len(waiting) != 2 || len(down) != 1 {
			return fmt.Errorf("%v wait, and %v is starting again", waiting, down)
		}
		return nil
	})
	spared, next := waiting[0], waiting[1]
	harness.Inside(t, e, spared, "rm", "/dev/shm/sick")
	d.Until(spared, "recovered", func(s harness.Status) bool { return s.Ready && !harness.WaitsFor("GroupLimit")(s) })
	warm(down[0], 1)
	d.Until(next, "started again", func(s harness.Status) bool {
		return harness.Restarted(1)(s) && s.Probes["startup"].Outcome == "Failure"
	})
	warm(next, 1)
	if n := maxDownAtOnce(d); n != 1 {
		t.Errorf("%d members were down at once by healthd's hand, want 1", n)
	}
	d.Stays(2*time.Second, spared, "spared, as it has recovered", func(s harness.Status) bool { return s.RestartCount == 0 })
}

// maxDownAtOnce returns how many containers were at most between a decision of healthd to
// stop them and their being ready again.
func maxDownAtOnce(d *harness.Daemon) int {
	d.T.Helper()
	down, most := map[string]bool{}, 0
	for _, e := range d.Events("") {
		switch e.Reason {
		case "Killing":
			down[e.Container] = true
		case "Ready":
			delete(down, e.Container)
		}
		most = max(most, len(down))
	}
	return most
}

func holdAndReload(t *testing.T, e harness.Engine) {
	d := harness.StartDaemonOn(t, e, fmt.Sprintf(hungSpec, "held"))
	e.Run(t, dockertest.RunOptions{
		Name: "held", Labels: map[string]string{"e2e": "held"}, Cmd: []string{"sh", "-c", "while :; do sleep 0.2; done"},
	})
	d.Until("held", "ready", harness.Ready)
	if out, code := d.Run("hold", "held"); code != 0 {
		t.Fatalf("hold: exit %d: %s", code, out)
	}
	harness.Inside(t, e, "held", "touch", "/dev/shm/sick")
	d.Until("held", "waiting", func(s harness.Status) bool { return s.State.Waiting != nil && s.State.Waiting.Reason == "Held" })
	d.WaitForJournal("held")
	d.Kill()
	d.Restart()
	d.Stays(2*time.Second, "held", "held", func(s harness.Status) bool { return s.RestartCount == 0 })
	if out, code := d.Run("restart", "held"); code != 1 || !strings.Contains(out, "resume") {
		t.Errorf("restart of a held one: exit %d: %s", code, out)
	}
	if out, code := d.Run("resume", "held"); code != 0 {
		t.Fatalf("resume: exit %d: %s", code, out)
	}
	d.Until("held", "restarted", func(s harness.Status) bool { return s.RestartCount == 1 && s.Ready })

	e.Run(t, dockertest.RunOptions{Name: "newcomer", Labels: map[string]string{"e2e": "newcomer"}})
	before := harness.StartedAt(t, e, "held")
	d.Rewrite(func(text string) string {
		return text + "\n[[spec]]\nname = \"newcomer\"\nmatch = { e2e = \"newcomer\" }\n"
	})
	_ = d.Cmd.Process.Signal(syscall.SIGHUP)
	d.Until("newcomer", "supervised", harness.Ready)
	d.Rewrite(func(text string) string { return text + "\n[spec.livenes]\n" })
	_ = d.Cmd.Process.Signal(syscall.SIGHUP)
	d.Eventually("refuse a wrong configuration", func() error {
		if !strings.Contains(d.Log.String(), "livenes") {
			return fmt.Errorf("no word of it in the log")
		}
		return nil
	})
	d.Stays(time.Second, "newcomer", "supervised all the same", harness.Ready)
	if after := harness.StartedAt(t, e, "held"); !after.Equal(before) {
		t.Error("the reload restarted a container")
	}
}

const sharedSpec = `
[[spec]]
name = "shared"
match = { e2e = "shared" }
[spec.backoff]
initial = "1s"
[spec.readiness]
tcp_socket = { port = 8080 }
period = "300ms"
`

// A container in another one's network is restarted when that one, which is not supervised,
// has a new run. When it is gone, that is reported.
func sharedNetworkRestartsWithItsOwner(t *testing.T, e harness.Engine) {
	d := harness.StartDaemonOn(t, e, sharedSpec)
	host := e.Run(t, dockertest.RunOptions{Name: "vpn", Cmd: []string{"sleep", "1000"}})
	e.Run(t, dockertest.RunOptions{Name: "client", Labels: map[string]string{"e2e": "shared"}, Network: "container:" + host})
	d.Until("client", "ready", harness.Ready)
	e.RestartByOperator(t, host)
	d.Until("client", "restarted", func(s harness.Status) bool { return s.RestartCount == 1 && s.Ready })
	e.Remove(t, host)
	d.Eventually("report that the network is gone", func() error {
		if r := d.Reasons("client"); !slices.Contains(r, "NetworkLost") {
			return fmt.Errorf("events %v", r)
		}
		return nil
	})
}
