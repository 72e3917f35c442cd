package scenarios

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	goruntime "runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"healthd/prober"
)

// blindRole makes the test binary a prober that does not see the host's processes, as with
// a remote engine, or when healthd runs in a container. Its value is the endpoint, a container and a timeout.
const blindRole = "HEALTHD_TEST_BLIND"

// Dial returns a client that logs.
type Dial func(endpoint string, log *zap.Logger) (Engine, error)

// ActBlind does the work of a test binary that a row has started as a blind prober, and says
// whether it is one. TestMain calls it first.
func ActBlind(dial Dial) bool {
	var endpoint, id, timeout string
	if n, _ := fmt.Sscan(os.Getenv(blindRole), &endpoint, &id, &timeout); n != 3 {
		return false
	}
	if err := probeBlindly(dial, endpoint, id, timeout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return true
}

// blindResult is what the blind prober says about one probe.
type blindResult struct {
	Outcome    string
	Output     string
	Goroutines int
	Warnings   []string // so far
}

// probeBlindly probes the container once for each line of stdin. The line "new" begins with
// a new Probe, as healthd does for each run and after a reload.
func probeBlindly(dial Dial, endpoint, id, most string) error {
	timeout, err := time.ParseDuration(most)
	if err != nil {
		return err
	}
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return err
	}
	if err := syscall.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return err
	}
	core, logs := observer.New(zap.InfoLevel)
	e, err := dial(endpoint, zap.New(core))
	if err != nil {
		return err
	}
	defer e.Close()
	all := prober.New(prober.Config{Engines: map[string]prober.Engine{"engine": e}})
	var p prober.Probe
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		if lines.Text() == "new" {
			p, err = all.Probe(prober.Handler{Exec: &prober.Exec{Command: []string{"sleep", "1000"}}}, prober.Target{Runtime: "engine", ID: id})
			if err != nil {
				return err
			}
		}
		r := p.Ask(context.Background(), timeout)
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

func startBlindProber(t *testing.T, p Private, id string, timeout time.Duration) *blindProber {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %s %v", blindRole, p.Address(), id, timeout))
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

// askBlindly probes a container six times, as two runs of it, and returns the results.
func askBlindly(t *testing.T, p Private) (id string, blind *blindProber, results []blindResult) {
	t.Helper()
	briefly(t, func(timeout time.Duration) error {
		id, results = p.Run(t, Container{Cmd: idle}), nil
		blind = startBlindProber(t, p, id, timeout)
		for _, line := range []string{"new", "", "", "new", "", ""} {
			results = append(results, blind.ask(t, line))
		}
		if i := slices.IndexFunc(results, func(r blindResult) bool { return r.Outcome != "Failure" }); i >= 0 {
			return fmt.Errorf("probe %d: %+v", i, results[i])
		}
		return nil
	})
	if n := ProcessesRunning(id, "sleep"); n > 1 {
		t.Errorf("%d commands run, want 1 at most", n)
	}
	const passing = 2 // a connection's
	if first, last := results[1], results[len(results)-1]; last.Goroutines > first.Goroutines+passing {
		t.Errorf("%d goroutines, there were %d", last.Goroutines, first.Goroutines)
	}
	return id, blind, results
}

func blindCommandsDoNotPileUp(t *testing.T, p Private) {
	askBlindly(t, p)
}

// A command that healthd cannot kill runs on, and no other one joins it, until the run ends.
func blindCommandRunsOn(t *testing.T, p Private) {
	id, blind, results := askBlindly(t, p)
	for _, r := range results {
		if !strings.Contains(r.Output, "cannot be seen from here") {
			t.Errorf("got %+v", r)
		}
	}
	if last := results[len(results)-1]; len(last.Warnings) != 1 || !strings.Contains(last.Warnings[0], "runs on") {
		t.Errorf("got the warnings %q, want one", last.Warnings)
	}
	p.Freeze(t)
	r := blind.ask(t, "new")
	p.Thaw(t)
	if r.Outcome != "Unknown" || !strings.Contains(r.Output, "does not know whether the previous command still runs") {
		t.Errorf("while the engine hangs: got %+v", r)
	}
	if r := blind.ask(t, "new"); r.Outcome != "Failure" || ProcessesRunning(id, "sleep") != 1 {
		t.Errorf("after that: %d commands, %+v", ProcessesRunning(id, "sleep"), r)
	}
	e := connect(t, p)
	stop(t, e, id, 0)
	start(t, e, id)
	r = blind.ask(t, "new")
	if n := ProcessesRunning(id, "sleep"); n != 1 || r.Outcome != "Failure" || strings.Contains(r.Output, "still runs") {
		t.Errorf("the next run: %d commands, %+v; want a new command", n, r)
	}
}
