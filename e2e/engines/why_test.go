package engines

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"healthd/e2e/harness"
	"healthd/runtime/docker/dockertest"
	"healthd/supervisor"
)

const whySpec = `
[[spec]]
name = "why"
match = { e2e = "why" }
[spec.liveness]
exec = { command = ["test", "!", "-e", "/dev/shm/hangs"] }
period = "300ms"
timeout = "30s"
failure_threshold = 2
termination_grace_period = "1s"
[spec.recorder]
command = ["sh", "-c", "cat /tmp/where; echo as $PASSWORD"]
timeout = "30s"
`

// whySecret is a value that no record may have.
const whySecret = "correct-horse-battery"

// flightRecord returns a record of a container by healthd why, with these further arguments.
func flightRecord(d *harness.Daemon, name string, args ...string) (*supervisor.FlightRecord, error) {
	d.T.Helper()
	out, code := d.Run(append([]string{"why", name, "-o", "json"}, args...)...)
	if code != 0 {
		return nil, errors.New(out)
	}
	r := &supervisor.FlightRecord{}
	return r, json.Unmarshal([]byte(out), r)
}

// A container hangs, and its recorder command tells where. Then it crashes. The records survive
// healthd and the container, and have nothing that is secret.
func whyCommand(t *testing.T, e harness.Engine) {
	d := harness.StartDaemonOn(t, e, whySpec)
	id := e.Run(t, dockertest.RunOptions{
		Name: "why-a", Labels: map[string]string{"e2e": "why"}, Env: []string{"PASSWORD=" + whySecret},
		Cmd: []string{"sh", "-c", "echo serving with $PASSWORD; echo waits for the lock of orders >/tmp/where; exec sleep 4242"},
	})
	d.Until("why-a", "alive", func(s harness.Status) bool { return s.Probes["liveness"].Outcome == "Success" })
	if out, code := d.Run("why", "why-a"); code != 1 || !strings.Contains(out, "healthd has seen no failure of it") {
		t.Errorf("before a failure: %d %s", code, out)
	}
	if code := e.Exec(t, id, "touch", "/dev/shm/hangs"); code != 0 {
		t.Fatal(code)
	}
	d.Until("why-a", "stopped once", func(s harness.Status) bool { return s.RestartCount > 0 || s.State.Terminated != nil })
	hung := checkHang(d)
	s := d.Until("why-a", "alive again", func(s harness.Status) bool {
		return s.State.Running != nil && s.RestartCount > 0 && s.Probes["liveness"].Outcome == "Success"
	})
	d.EndProcess(e, id)
	var crash *supervisor.FlightRecord
	d.Eventually("record the crash", func() (err error) {
		if crash, err = flightRecord(d, "why-a"); err == nil && crash.Cause != "crash" {
			err = fmt.Errorf("the newest is of %s", crash.Cause)
		}
		return err
	})
	if crash.ExitCode != 137 || crash.Message != "exited with code 137 (SIGKILL)" || crash.Run != s.RestartCount+1 || crash.Usage.Error == "" {
		t.Errorf("of the crash after %d restarts: %+v", s.RestartCount, crash)
	}
	checkRecordFiles(d)
	e.Remove(t, id)
	if err := d.Stop(); err != nil {
		t.Fatal(err)
	}
	d.Restart()
	if again, err := flightRecord(d, "why-a", "--run", fmt.Sprint(hung.Run)); err != nil || again.Command.Output != hung.Command.Output {
		t.Errorf("after a restart, of a container that is gone: %+v, %v", again, err)
	}
	if code, body, err := d.Get("/v1/containers/why-a/records"); err != nil || code != 404 {
		t.Errorf("on the network: %d %s, %v", code, body, err)
	}
}

// checkHang checks the first record, and its page.
func checkHang(d *harness.Daemon) *supervisor.FlightRecord {
	d.T.Helper()
	var hung *supervisor.FlightRecord
	d.Eventually("record the hang", func() (err error) { hung, err = flightRecord(d, "why-a", "--run", "1"); return err })
	if hung.Cause != "liveness" || !strings.HasPrefix(hung.Message, "liveness probe failed (2 in a row)") || len(hung.Probes) != 1 || len(hung.Probes[0].Results) < 2 {
		d.T.Errorf("got %+v", hung)
	}
	if c := hung.Command; c.Output != "waits for the lock of orders\nas $(PASSWORD)\n" || c.TimedOut || c.Error != "" {
		d.T.Errorf("the command said %+v", c)
	}
	if l := hung.Log; l.Error != "" || len(l.Lines) != 1 || l.Lines[0].Text != "serving with $(PASSWORD)" {
		d.T.Errorf("got the log %+v", l)
	}
	if u := hung.Usage; u.Error != "" || u.MemoryBytes == 0 || u.PIDs == 0 {
		d.T.Errorf("got the usage %+v", u)
	}
	out, code := d.Run("why", "why-a", "--run", "1")
	for _, want := range []string{
		"run 1: liveness probe failed (2 in a row)", "  | waits for the lock of orders\n", "said (exit code 0)", "serving with $(PASSWORD)",
		"sleep 4242", "Unhealthy", "variables", "PASSWORD",
	} {
		if code != 0 || !strings.Contains(out, want) {
			d.T.Errorf("healthd why does not have %q: %d\n%s", want, code, out)
		}
	}
	if text, _ := json.Marshal(hung); strings.Contains(string(text)+out, whySecret) {
		d.T.Errorf("the record has a secret:\n%s", out)
	}
	return hung
}

// checkRecordFiles checks that the files are for nobody else.
func checkRecordFiles(d *harness.Daemon) {
	d.T.Helper()
	files, err := filepath.Glob(filepath.Join(filepath.Dir(d.Config), "state", "records", "*"))
	if err != nil || len(files) < 2 {
		d.T.Errorf("got %v, %v", files, err)
	}
	for _, file := range files {
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 || strings.Contains(file, "why-a") {
			d.T.Errorf("%s: %v, %v", file, info.Mode(), err)
		}
	}
}
