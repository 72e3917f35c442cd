package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"

	"healthd/runtime/docker/dockertest"
	"healthd/supervisor/core"
	"healthd/supervisor/journal"
)

// kill ends healthd as a power cut does.
func (d *daemon) kill() {
	d.t.Helper()
	_ = d.cmd.Process.Kill()
	<-d.exited
}

// waitForJournal waits until a container's newest event is in the journal, where it
// survives a kill. The journal writes a container's state before or with its events.
func (d *daemon) waitForJournal(name string) {
	d.t.Helper()
	all := d.events(name)
	last := all[len(all)-1]
	d.eventually(20*time.Second, "write its journal", func() error {
		for _, ev := range d.journalEvents() {
			if ev.Container == name && ev.Reason == last.Reason && ev.Time.Equal(last.Time) {
				return nil
			}
		}
		return fmt.Errorf("%+v is not there", last)
	})
}

// journalEvents reads a copy of the journal, because healthd locks its own. A copy that
// was made while healthd wrote may be damaged and then has no events.
func (d *daemon) journalEvents() []core.Event {
	d.t.Helper()
	dir := d.t.TempDir()
	db, err := os.ReadFile(filepath.Join(filepath.Dir(d.config), "state", "journal.db"))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "journal.db"), db, 0o600)
	}
	if err != nil {
		d.t.Fatal(err)
	}
	j, err := journal.Open(journal.Config{Dir: dir})
	if err != nil {
		d.t.Fatal(err)
	}
	defer j.Close()
	return j.Events("", time.Time{})
}

// restart starts healthd again and waits for its first full sync.
func (d *daemon) restart() {
	d.t.Helper()
	d.start()
	d.eventually(30*time.Second, "be synced again", d.synced)
}

func byOperator(s status) bool {
	return s.State.Terminated != nil && s.State.Terminated.Reason == "StoppedByOperator"
}

// What the operator stopped stays stopped over restarts of healthd and the engine. What
// crashed is started again, also when it crashed while healthd was down.
func operatorStopsSurviveRestarts(t *testing.T, e engine) {
	d := startDaemonOn(t, e, fmt.Sprintf(restartSpec, "wish", "Always"))
	labels := map[string]string{"e2e": "wish"}
	ids := map[string]string{}
	for _, name := range []string{"runs", "stopped", "stopped-while-away", "crashes-while-away"} {
		ids[name] = e.Run(t, dockertest.RunOptions{Name: name, Labels: labels})
		d.until(20*time.Second, name, "ready", ready)
	}
	e.StopByOperator(t, "stopped")
	d.until(20*time.Second, "stopped", "stopped by the operator", byOperator)
	d.waitForJournal("stopped")
	d.kill()
	e.StopByOperator(t, "stopped-while-away")
	d.endProcess(e, ids["crashes-while-away"])
	d.restart()
	d.until(20*time.Second, "crashes-while-away", "started again", func(s status) bool { return s.Ready && s.RestartCount == 1 })
	d.until(5*time.Second, "stopped-while-away", "stopped by the operator", byOperator)
	d.stays(2*time.Second, "stopped", "stopped", byOperator)

	e.Stop(t)
	e.Up(t)
	d.eventually(30*time.Second, "hear the engine again", func() error { return d.runtimeUp("1") })
	if err := d.stop(30 * time.Second); err != nil {
		t.Fatal(err)
	}
	d.restart()
	d.until(20*time.Second, "runs", "ready", ready)
	d.stays(2*time.Second, "stopped", "stopped", byOperator)
	d.stays(time.Second, "stopped-while-away", "stopped", byOperator)
	e.StartByOperator(t, ids["stopped"])
	d.until(20*time.Second, "stopped", "ready, as somebody has started it", ready)
}

// endProcess kills a container's main process without the engine.
func (d *daemon) endProcess(e engine, id string) {
	d.t.Helper()
	crash(d.t, e, id)
	d.eventually(20*time.Second, "see the process end", func() error { return ended(d.t, e, id) })
}

// crash is endProcess for a container that the engine may not leave ended.
func crash(t *testing.T, e engine, id string) {
	t.Helper()
	if err := syscall.Kill(e.Inspect(t, id).Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

// ended returns nil when the container does not run.
func ended(t *testing.T, e engine, name string) error {
	if e.Inspect(t, name).Running {
		return fmt.Errorf("%s still runs", name)
	}
	return nil
}

// endedFor returns nil when the container has not run for that time.
func endedFor(t *testing.T, e engine, name string, wanted time.Duration) error {
	c := e.Inspect(t, name)
	if age := time.Since(c.FinishedAt); c.Running || age < wanted {
		return fmt.Errorf("%s runs, or ended only %v ago", name, age)
	}
	return nil
}

// An engine that shuts down stops its containers, and starts only those with a restart
// policy of its own again. healthd starts the others.
func TestEngineRestartStartsWhatRan(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*dockertest.Engine, testing.TB){
		"gracefully": (*dockertest.Engine).Stop, "killed": (*dockertest.Engine).Kill,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := dockertest.Start(t, "--live-restore=false")
			d := startDaemon(t, e.Endpoint, fmt.Sprintf(restartSpec, "reborn", "Always"))
			labels := map[string]string{"e2e": "reborn"}
			stoppedID := e.Run(t, dockertest.RunOptions{Name: "stopped", Labels: labels})
			for _, name := range []string{"one", "two"} {
				e.Run(t, dockertest.RunOptions{Name: name, Labels: labels})
				d.until(20*time.Second, name, "ready", ready)
			}
			if err := e.Client().ContainerStop(t.Context(), stoppedID, container.StopOptions{}); err != nil {
				t.Fatal(err)
			}
			d.until(20*time.Second, "stopped", "stopped by the operator", byOperator)
			d.stays(6*time.Second, "stopped", "stopped, which the engine outlives", byOperator)
			end(e, t)
			d.eventually(20*time.Second, "notice that the engine is gone", func() error { return d.runtimeUp("0") })
			e.Up(t)
			d.eventually(30*time.Second, "hear the engine again", func() error { return d.runtimeUp("1") })
			for _, name := range []string{"one", "two"} {
				d.until(20*time.Second, name, "ready again", ready)
			}
			d.stays(2*time.Second, "stopped", "stopped", byOperator)
		})
	}
}

const hungSpec = `
[[spec]]
name = %[1]q
match = { e2e = %[1]q }
termination_grace_period = "5s"
[spec.liveness]
exec = { command = ["test", "!", "-e", "/sick"] }
period = "200ms"
timeout = "5s"
[spec.backoff]
initial = "1s"
`

// A healthd that is killed during a restart's stop finishes the restart when it is back.
func killedHealthdFinishesARestart(t *testing.T, e engine) {
	d := killedDuringStop(t, e, "hung")
	d.eventually(20*time.Second, "see the engine finish the stop", func() error { return ended(t, e, "hung") })
	d.start()
	d.until(10*time.Second, "hung", "running again", func(s status) bool { return s.Ready && s.RestartCount == 1 })
}

func killedHealthdFinishesAStop(t *testing.T, e engine) {
	d := killedDuringStop(t, e, "hung-on")
	d.start()
	d.until(20*time.Second, "hung-on", "running again", func(s status) bool { return s.Ready && s.RestartCount == 1 })
}

// killedDuringStop returns a daemon that was killed while it stopped a hung container.
func killedDuringStop(t *testing.T, e engine, name string) *daemon {
	t.Helper()
	d := startDaemonOn(t, e, fmt.Sprintf(hungSpec, name))
	e.Run(t, dockertest.RunOptions{
		Name: name, Labels: map[string]string{"e2e": name},
		Cmd: []string{"sh", "-c", "trap '' TERM; rm -f /sick; while :; do sleep 0.2; done"},
	})
	d.until(20*time.Second, name, "ready", ready)
	inside(t, e, name, "touch", "/sick")
	d.until(20*time.Second, name, "being stopped", func(s status) bool { return s.Draining })
	// The stop is sent when the flight record is made, within two seconds.
	d.stays(2300*time.Millisecond, name, "in its grace period", func(s status) bool { return s.Draining })
	d.kill()
	return d
}

const groupSpec = `
[[spec]]
name = "crowd"
match = { e2e = "crowd" }
[spec.liveness]
exec = { command = ["test", "!", "-e", "/sick"] }
period = "300ms"
timeout = "5s"
failure_threshold = 1
[spec.startup]
exec = { command = ["test", "-e", "/warm"] }
period = "300ms"
timeout = "5s"
failure_threshold = 1000
[spec.group]
name = "crowd"
max_unavailable = 1
`

// All members of a group fail at once: they are restarted one after the other, each when the
// one before is ready, and one that recovers while it waits is not restarted.
func groupLimit(t *testing.T, e engine) {
	d := startDaemonOn(t, e, groupSpec)
	names := []string{"crowd-1", "crowd-2", "crowd-3"}
	for _, name := range names {
		e.Run(t, dockertest.RunOptions{
			Name: name, Labels: map[string]string{"e2e": "crowd"},
			Cmd: []string{"sh", "-c", "trap exit TERM; rm -f /sick /warm; touch /up; while :; do sleep 0.1; done"},
		})
	}
	warm := func(name string, restarts int) {
		t.Helper()
		inside(t, e, name, "touch", "/warm")
		d.until(30*time.Second, name, "ready", func(s status) bool { return s.Ready && s.RestartCount == restarts })
	}
	for _, name := range names {
		inside(t, e, name, "sh", "-c", "until test -e /up; do sleep 0.1; done")
		warm(name, 0)
	}
	for _, name := range names {
		inside(t, e, name, "touch", "/sick")
	}
	var waiting, down []string
	d.eventually(time.Minute, "restart one and let two wait", func() error {
		waiting, down = nil, nil
		for _, name := range names {
			switch s, err := d.status(name); {
			case err != nil:
				return err
			case waitsFor("GroupLimit")(s):
				waiting = append(waiting, name)
			// Once the startup probe has failed, the new run has removed /warm.
			case restarted(1)(s) && s.Probes["startup"].Outcome == "Failure":
				down = append(down, name)
			}
		}
		if len(waiting) != 2 || len(down) != 1 {
			return fmt.Errorf("%v wait, and %v is starting again", waiting, down)
		}
		return nil
	})
	spared, next := waiting[0], waiting[1]
	inside(t, e, spared, "rm", "/sick")
	d.until(30*time.Second, spared, "recovered", func(s status) bool { return s.Ready && !waitsFor("GroupLimit")(s) })
	warm(down[0], 1)
	d.until(30*time.Second, next, "started again", func(s status) bool {
		return restarted(1)(s) && s.Probes["startup"].Outcome == "Failure"
	})
	warm(next, 1)
	if n := d.maxDownAtOnce(); n != 1 {
		t.Errorf("%d members were down at once by healthd's hand, want 1", n)
	}
	d.stays(2*time.Second, spared, "spared, as it has recovered", func(s status) bool { return s.RestartCount == 0 })
}

// maxDownAtOnce returns how many containers were at most between a decision of healthd to
// stop them and their being ready again.
func (d *daemon) maxDownAtOnce() int {
	d.t.Helper()
	down, most := map[string]bool{}, 0
	for _, e := range d.events("") {
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

func holdAndReload(t *testing.T, e engine) {
	d := startDaemonOn(t, e, fmt.Sprintf(hungSpec, "held"))
	e.Run(t, dockertest.RunOptions{
		Name: "held", Labels: map[string]string{"e2e": "held"}, Cmd: []string{"sh", "-c", "rm -f /sick; while :; do sleep 0.2; done"},
	})
	d.until(20*time.Second, "held", "ready", ready)
	if out, code := d.run("hold", "held"); code != 0 {
		t.Fatalf("hold: exit %d: %s", code, out)
	}
	inside(t, e, "held", "touch", "/sick")
	d.until(20*time.Second, "held", "waiting", func(s status) bool { return s.State.Waiting != nil && s.State.Waiting.Reason == "Held" })
	d.waitForJournal("held")
	d.kill()
	d.restart()
	d.stays(2*time.Second, "held", "held", func(s status) bool { return s.RestartCount == 0 })
	if out, code := d.run("restart", "held"); code != 1 || !strings.Contains(out, "resume") {
		t.Errorf("restart of a held one: exit %d: %s", code, out)
	}
	if out, code := d.run("resume", "held"); code != 0 {
		t.Fatalf("resume: exit %d: %s", code, out)
	}
	d.until(30*time.Second, "held", "restarted", func(s status) bool { return s.RestartCount == 1 && s.Ready })

	e.Run(t, dockertest.RunOptions{Name: "newcomer", Labels: map[string]string{"e2e": "newcomer"}})
	before := startedAt(t, e, "held")
	d.rewrite(func(text string) string {
		return text + "\n[[spec]]\nname = \"newcomer\"\nmatch = { e2e = \"newcomer\" }\n"
	})
	_ = d.cmd.Process.Signal(syscall.SIGHUP)
	d.until(20*time.Second, "newcomer", "supervised", ready)
	d.rewrite(func(text string) string { return text + "\n[spec.livenes]\n" })
	_ = d.cmd.Process.Signal(syscall.SIGHUP)
	d.eventually(20*time.Second, "refuse a wrong configuration", func() error {
		if !strings.Contains(d.log.String(), "livenes") {
			return fmt.Errorf("no word of it in the log")
		}
		return nil
	})
	d.stays(time.Second, "newcomer", "supervised all the same", ready)
	if after := startedAt(t, e, "held"); !after.Equal(before) {
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
func sharedNetworkRestartsWithItsOwner(t *testing.T, e engine) {
	d := startDaemonOn(t, e, sharedSpec)
	host := e.Run(t, dockertest.RunOptions{Name: "vpn", Cmd: []string{"sleep", "1000"}})
	e.Run(t, dockertest.RunOptions{Name: "client", Labels: map[string]string{"e2e": "shared"}, Network: "container:" + host})
	d.until(20*time.Second, "client", "ready", ready)
	e.RestartByOperator(t, host)
	d.until(60*time.Second, "client", "restarted", func(s status) bool { return s.RestartCount == 1 && s.Ready })
	e.Remove(t, host)
	d.eventually(20*time.Second, "report that the network is gone", func() error {
		if r := d.reasons("client"); !slices.Contains(r, "NetworkLost") {
			return fmt.Errorf("events %v", r)
		}
		return nil
	})
}
