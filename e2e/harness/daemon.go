package harness

import (
	"healthd/e2e/ports"

	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"healthd/e2e/patience"
	"healthd/supervisor/core"
	"healthd/supervisor/journal"
)

// Daemon is one healthd.
type Daemon struct {
	T       *testing.T
	Path    string   // of the program
	Config  string   // the file
	More    []string // further configurations
	Under   []string // what runs it, if it is not run alone
	Env     []string // its environment; nil: that of the test
	Runtime string   // the name of its runtime
	URL     string   // of the read-only listener
	Cmd     *exec.Cmd
	Log     *Buffer
	engine  Engine // nil: not known
	exited  chan struct{}
	exitErr error
}

// StartDaemon starts healthd on an engine with the given specs and waits for its
// first full sync. At the end of the test it is stopped, and must exit with 0.
func StartDaemon(t *testing.T, endpoint, specs string) *Daemon {
	t.Helper()
	return StartedDaemon(NewDaemon(t, endpoint, specs))
}

// StartDaemonOn is StartDaemon for any engine.
func StartDaemonOn(t *testing.T, e Engine, specs string) *Daemon {
	t.Helper()
	return StartedDaemon(NewDaemonOn(t, e, specs))
}

// StartedDaemon starts what has been made and waits for its first full sync.
func StartedDaemon(d *Daemon) *Daemon {
	d.T.Helper()
	d.Start()
	d.Eventually("be synced", d.Synced)
	return d
}

// In is the daemon for a subtest, which fails for it.
func (d *Daemon) In(t *testing.T) *Daemon {
	sub := *d
	sub.T = t
	return &sub
}

// Synced returns nil after the first full sync.
func (d *Daemon) Synced() error {
	status, body, err := d.Get("/readyz")
	if err == nil && status != http.StatusOK {
		err = errors.New(body)
	}
	return err
}

// Rewrite changes the configuration file.
func (d *Daemon) Rewrite(change func(string) string) {
	d.T.Helper()
	text, err := os.ReadFile(d.Config)
	if err == nil {
		err = os.WriteFile(d.Config, []byte(change(string(text))), 0o600)
	}
	if err != nil {
		d.T.Fatal(err)
	}
}

// NewDaemon makes a daemon that does not run yet, for the Docker engine at an endpoint.
func NewDaemon(t *testing.T, endpoint, specs string) *Daemon {
	t.Helper()
	d := NewDaemonWith(t, fmt.Sprintf("[[runtime]]\ntype = \"docker\"\nendpoint = %q\n", endpoint), specs)
	d.Runtime = "docker"
	return d
}

// NewDaemonOn is NewDaemon for any engine.
func NewDaemonOn(t *testing.T, e Engine, specs string) *Daemon {
	t.Helper()
	d := NewDaemonWith(t, e.Runtime(), specs)
	d.Runtime, d.engine = e.Name(), e
	return d
}

// patientProbes are the defaults of specs that set none: a probe that a busy machine answers late must not fail.
const patientProbes = `[defaults]
startup = { timeout = "30s" }
liveness = { timeout = "30s" }
readiness = { timeout = "30s" }
`

// NewDaemonWith is NewDaemon with these [[runtime]]s. Probes time out after 30 s unless the specs say otherwise.
func NewDaemonWith(t *testing.T, runtimes, specs string) *Daemon {
	t.Helper()
	path, err := Program()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "hd-e2e") // a socket's path has 107 bytes at most
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	address := ports.Address(t)
	if !strings.Contains(specs, "[defaults]") {
		specs = patientProbes + specs
	}
	if !strings.Contains(runtimes, "exclusive") { // tests share an engine
		runtimes = strings.ReplaceAll(runtimes, "[[runtime]]\n", "[[runtime]]\nexclusive = false\n")
	}
	text := fmt.Sprintf("%s[listen]\nhttp = %q\nagent = \"\"\ncontrol = %q\n[state]\ndir = %q\n[log]\nformat = \"console\"\nlevel = \"debug\"\n%s",
		runtimes, address, filepath.Join(dir, "control.sock"), filepath.Join(dir, "state"), specs)
	config := filepath.Join(dir, "healthd.toml")
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	d := &Daemon{T: t, Path: path, Config: config, URL: "http://" + address, Log: &Buffer{}}
	t.Cleanup(d.tellFailure) // after it has ended
	return d
}

// tellFailure leaves the logs of a failed test where its report says.
func (d *Daemon) tellFailure() {
	log := d.Log.String()
	if !d.T.Failed() && !strings.Contains(log, "DATA RACE") {
		return
	}
	d.T.Errorf("log of healthd:\n%s", log)
	of := filepath.Join(d.T.ArtifactDir(), filepath.Base(filepath.Dir(d.Config))) // a test may have several
	_ = os.WriteFile(of+".log", []byte(log), 0o600)
	if d.engine != nil {
		_ = os.WriteFile(of+"-engine.log", []byte(d.engine.Log()), 0o600)
	}
}

// Start starts it. At the end of the test it is stopped, and must end well.
func (d *Daemon) Start() {
	d.T.Helper()
	argv := slices.Concat(d.Under, []string{d.Path, "run"}, d.ConfigFlags())
	d.Cmd = exec.Command(argv[0], argv[1:]...)
	d.Cmd.Stdout, d.Cmd.Stderr, d.Cmd.Env = d.Log, d.Log, d.Env
	if err := d.Cmd.Start(); err != nil {
		d.T.Fatal(err)
	}
	exited := make(chan struct{})
	d.exited = exited
	go func() {
		d.exitErr = d.Cmd.Wait()
		close(exited)
	}()
	d.T.Cleanup(func() {
		if err := d.Stop(); err != nil {
			d.T.Errorf("healthd did not end well: %v", err)
		}
	})
}

// path is a file of the daemon's directory.
func (d *Daemon) path(elem ...string) string {
	return filepath.Join(append([]string{filepath.Dir(d.Config)}, elem...)...)
}

// ConfigFlags name the configuration.
func (d *Daemon) ConfigFlags() []string {
	flags := []string{"--config", d.Config}
	for _, path := range d.More {
		flags = append(flags, "--config", path)
	}
	return flags
}

// Stop sends SIGTERM, waits for the end and returns the error of the process.
func (d *Daemon) Stop() error {
	_ = d.Cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-d.exited:
		return d.exitErr
	case <-time.After(patience.Limit):
		text, err := d.goroutines()
		_ = d.Cmd.Process.Kill()
		<-d.exited
		return fmt.Errorf("still running %v after SIGTERM: %s %v", patience.Limit, text, err)
	}
}

// Run runs a client command and returns what it printed and its exit code.
func (d *Daemon) Run(args ...string) (output string, code int) {
	d.T.Helper()
	ctx, cancel := context.WithTimeout(d.T.Context(), patience.Limit)
	defer cancel()
	out, err := exec.CommandContext(ctx, d.Path, append(args, d.ConfigFlags()...)...).CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		d.T.Fatalf("healthd %v: %v", args, err)
	}
	if exit != nil {
		code = exit.ExitCode()
	}
	return string(out), code
}

// Get sends a request to the read-only listener.
func (d *Daemon) Get(path string) (status int, body string, err error) {
	ctx, cancel := context.WithTimeout(d.T.Context(), patience.Limit)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, d.URL+path, nil)
	if err != nil {
		return 0, "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	b, err := io.ReadAll(response.Body)
	return response.StatusCode, string(b), err
}

// Kill ends healthd as a power cut does.
func (d *Daemon) Kill() {
	d.T.Helper()
	_ = d.Cmd.Process.Kill()
	<-d.exited
}

// Restart starts healthd again and waits for its first full sync.
func (d *Daemon) Restart() {
	d.T.Helper()
	d.Start()
	d.Eventually("be synced again", d.Synced)
}

// WaitForJournal waits until a container's newest event is in the journal, where it
// survives a kill. The journal writes a container's state before or with its events.
func (d *Daemon) WaitForJournal(name string) {
	d.T.Helper()
	all := d.Events(name)
	last := all[len(all)-1]
	d.Eventually("write its journal", func() error {
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
func (d *Daemon) journalEvents() []core.Event {
	d.T.Helper()
	dir := d.T.TempDir()
	db, err := os.ReadFile(d.path("state", "journal.db"))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "journal.db"), db, 0o600)
	}
	if err != nil {
		d.T.Fatal(err)
	}
	j, err := journal.Open(journal.Config{Dir: dir})
	if err != nil {
		d.T.Fatal(err)
	}
	defer j.Close()
	return j.Events("", time.Time{})
}

// AnswerAgents lets healthd, which does not run yet, answer agent checks.
func (d *Daemon) AnswerAgents(address string) {
	d.Rewrite(func(text string) string {
		return strings.Replace(text, `agent = ""`, fmt.Sprintf("agent = %q", address), 1)
	})
}

// AskAgent asks an agent listener, and returns its line.
func AskAgent(address, name string) (string, error) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience.Limit)); err != nil {
		return "", err
	}
	if _, err := fmt.Fprintf(conn, "%s\n", name); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(conn)
	return strings.TrimSuffix(string(answer), "\n"), err
}
