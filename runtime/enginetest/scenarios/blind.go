package docker_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	goruntime "runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"healthd/prober"
	"healthd/runtime/docker"
	"healthd/runtime/docker/dockertest"
	"healthd/runtime/enginetest/scenarios"
)

// blindRole makes the test binary a prober that does not see the host's processes, as with
// a remote engine, or when healthd runs in a container.
const blindRole = "DOCKER_TEST_BLIND"

// blindResult is what the blind prober says about one probe.
type blindResult struct {
	Outcome    string
	Output     string
	Goroutines int
	Warnings   []string // so far
}

const blindTimeout = 300 * time.Millisecond

// probeBlindly probes the container once for each line of stdin. The line "new" begins with
// a new Probe, as healthd does for each run and after a reload.
func probeBlindly(endpoint, id string) error {
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return err
	}
	if err := syscall.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return err
	}
	core, logs := observer.New(zap.InfoLevel)
	e, err := docker.New(docker.Config{Endpoint: endpoint, Log: zap.New(core)})
	if err != nil {
		return err
	}
	defer e.Close()
	all := prober.New(prober.Config{Engines: map[string]prober.Engine{"docker": e}})
	var p prober.Probe
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		if lines.Text() == "new" {
			p, err = all.Probe(prober.Handler{Exec: &prober.Exec{Command: []string{"sleep", "1000"}}}, prober.Target{Runtime: "docker", ID: id})
			if err != nil {
				return err
			}
		}
		r := p.Ask(context.Background(), blindTimeout)
		answer := blindResult{Outcome: r.Outcome.String(), Output: r.Output, Goroutines: goruntime.NumGoroutine()}
		for _, l := range logs.All() {
			answer.Warnings = append(answer.Warnings, fmt.Sprint(l.Message, l.ContextMap()))
		}
		if err := json.NewEncoder(os.Stdout).Encode(answer); err != nil {
			return err
		}
	}
	return lines.Err()
}

// blindProber is the process that does it.
type blindProber struct {
	stdin  io.Writer
	stdout *bufio.Reader
}

func startBlindProber(t *testing.T, private *dockertest.Engine, id string) *blindProber {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), blindRole+"="+private.Endpoint+" "+id)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS}
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = stdin.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("the blind prober: %v", err)
		}
	})
	return &blindProber{stdin, bufio.NewReader(stdout)}
}

// ask sends a line and returns the answer.
func (b *blindProber) ask(t *testing.T, line string) blindResult {
	t.Helper()
	if _, err := io.WriteString(b.stdin, line+"\n"); err != nil {
		t.Fatal(err)
	}
	answer, err := b.stdout.ReadBytes('\n')
	if err != nil {
		t.Fatal(err)
	}
	var r blindResult
	if err := json.Unmarshal(answer, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// A command that healthd cannot kill runs on, and no other one joins it, until the run ends.
func TestExecThatCannotBeKilledDoesNotPileUp(t *testing.T) {
	private := private.Engine(t)
	id := private.Run(t, dockertest.RunOptions{Cmd: []string{"tail", "-f", "/dev/null"}})
	blind := startBlindProber(t, private, id)
	var results []blindResult
	for _, line := range []string{"new", "", "", "new", "", ""} {
		r := blind.ask(t, line)
		if r.Outcome != "Failure" || !strings.Contains(r.Output, "cannot be seen from here") {
			t.Errorf("got %+v", r)
		}
		results = append(results, r)
	}
	if n := scenarios.ProcessesRunning(id, "sleep"); n != 1 {
		t.Errorf("%d commands run, want 1", n)
	}
	if c, err := private.Client().ContainerInspect(t.Context(), id); err != nil || len(c.ExecIDs) != 1 {
		t.Errorf("the engine has the commands %v, %v, want 1", c.ExecIDs, err)
	}
	last := results[len(results)-1]
	if last.Goroutines > results[1].Goroutines {
		t.Errorf("%d goroutines, there were %d", last.Goroutines, results[1].Goroutines)
	}
	if len(last.Warnings) != 1 || !strings.Contains(last.Warnings[0], "runs on") {
		t.Errorf("got the warnings %q, want one", last.Warnings)
	}
	private.Freeze(t)
	r := blind.ask(t, "new")
	private.Thaw(t)
	if r.Outcome != "Unknown" || !strings.Contains(r.Output, "does not know whether the previous command still runs") {
		t.Errorf("while the engine hangs: got %+v", r)
	}
	if r := blind.ask(t, "new"); r.Outcome != "Failure" || scenarios.ProcessesRunning(id, "sleep") != 1 {
		t.Errorf("after that: %d commands, %+v", scenarios.ProcessesRunning(id, "sleep"), r)
	}
	none := 0
	if err := private.Client().ContainerRestart(t.Context(), id, container.StopOptions{Timeout: &none}); err != nil {
		t.Fatal(err)
	}
	r = blind.ask(t, "new")
	if n := scenarios.ProcessesRunning(id, "sleep"); n != 1 || r.Outcome != "Failure" || strings.Contains(r.Output, "still runs") {
		t.Errorf("the next run: %d commands, %+v; want a new command", n, r)
	}
}
