// Package e2e drives the built healthd as its users do, against a private real
// engine: configuration files, container labels, the command line, HTTP.
package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"healthd/runtime/containerd/containerdtest"
	"healthd/runtime/docker/dockertest"
	"healthd/supervisor/api/page/chromiumtest"
)

var (
	engines     dockertest.Shared
	containerds containerdtest.Shared
	program     = sync.OnceValues(func() (string, error) { return build("healthd", "-race") })
	// plainProgram is what users run: the race detector takes several times the memory.
	plainProgram = sync.OnceValues(func() (string, error) { return build("healthd-plain") })
	// built is the directory of both.
	built = sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "healthd-e2e") })
)

func TestMain(m *testing.M) {
	flag.Parse()
	if err := doubleParallel(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	code := max(engines.Main(m), containerds.Close())
	chromiumtest.Close()
	if dir, err := built(); err == nil {
		_ = os.RemoveAll(dir)
	}
	os.Exit(code)
}

// doubleParallel runs twice as many tests at once as go test would, unless -parallel is
// set: a test needs a quarter of a core, and waits for the rest of its time.
func doubleParallel() error {
	told := false
	flag.Visit(func(f *flag.Flag) { told = told || f.Name == "test.parallel" })
	if told {
		return nil
	}
	return flag.Set("test.parallel", strconv.Itoa(2*runtime.GOMAXPROCS(0)))
}

// build builds healthd with these flags.
func build(name string, flags ...string) (string, error) {
	dir, err := built()
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, name)
	args := slices.Concat([]string{"build", "-buildvcs=false"}, flags, []string{"-o", path, "healthd/cmd/healthd"})
	out, err := exec.Command("go", args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("cannot build healthd: %w: %s", err, out)
	}
	return path, nil
}

// daemon is one running healthd.
type daemon struct {
	t       *testing.T
	path    string
	config  string
	more    []string // further configurations
	under   []string // what runs it, if it is not run alone
	runtime string   // the name of its runtime
	url     string
	cmd     *exec.Cmd
	log     *lockedBuffer
	exited  chan struct{}
	exitErr error
}

// startDaemon starts healthd on an engine with the given specs and waits for its
// first full sync. At the end of the test it is stopped, and must exit with 0.
func startDaemon(t *testing.T, endpoint, specs string) *daemon {
	t.Helper()
	return startedDaemon(newDaemon(t, endpoint, specs))
}

// startDaemonOn is startDaemon for any engine.
func startDaemonOn(t *testing.T, e engine, specs string) *daemon {
	t.Helper()
	return startedDaemon(newDaemonOn(t, e, specs))
}

func startedDaemon(d *daemon) *daemon {
	d.t.Helper()
	d.start()
	d.eventually(30*time.Second, "be synced", d.synced)
	return d
}

// in is the daemon for a subtest, which fails for it.
func (d *daemon) in(t *testing.T) *daemon {
	sub := *d
	sub.t = t
	return &sub
}

func (d *daemon) synced() error {
	status, body, err := d.get("/readyz")
	if err == nil && status != http.StatusOK {
		err = errors.New(body)
	}
	return err
}

// rewrite changes the configuration file.
func (d *daemon) rewrite(change func(string) string) {
	d.t.Helper()
	text, err := os.ReadFile(d.config)
	if err == nil {
		err = os.WriteFile(d.config, []byte(change(string(text))), 0o600)
	}
	if err != nil {
		d.t.Fatal(err)
	}
}

func newDaemon(t *testing.T, endpoint, specs string) *daemon {
	t.Helper()
	d := newDaemonWith(t, fmt.Sprintf("[[runtime]]\ntype = \"docker\"\nendpoint = %q\n", endpoint), specs)
	d.runtime = "docker"
	return d
}

func newDaemonOn(t *testing.T, e engine, specs string) *daemon {
	t.Helper()
	d := newDaemonWith(t, e.Runtime(), specs)
	d.runtime = e.Name()
	return d
}

// newDaemonWith takes the [[runtime]]s of the configuration.
func newDaemonWith(t *testing.T, runtimes, specs string) *daemon {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "hd-e2e") // a socket's path has 107 bytes at most
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	address := freeAddress(t)
	text := fmt.Sprintf("%s[listen]\nhttp = %q\nagent = \"\"\ncontrol = %q\n[state]\ndir = %q\n[log]\nformat = \"console\"\nlevel = \"debug\"\n%s",
		runtimes, address, filepath.Join(dir, "control.sock"), filepath.Join(dir, "state"), specs)
	config := filepath.Join(dir, "healthd.toml")
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return &daemon{t: t, path: path, config: config, url: "http://" + address, log: &lockedBuffer{}}
}

// givenAddresses are those that freeAddress has returned.
var givenAddresses sync.Map

// freeAddress returns an address that nobody listens at, never the same one again: a
// test may ask for its next one before it uses the first.
func freeAddress(t *testing.T) string {
	t.Helper()
	for range 100 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		address := l.Addr().String()
		l.Close()
		if _, given := givenAddresses.LoadOrStore(address, true); !given {
			return address
		}
	}
	t.Fatal("found no free address")
	return ""
}

func (d *daemon) start() {
	d.t.Helper()
	argv := slices.Concat(d.under, []string{d.path, "run"}, d.configFlags())
	d.cmd = exec.Command(argv[0], argv[1:]...)
	d.cmd.Stdout, d.cmd.Stderr = d.log, d.log
	if err := d.cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
	exited := make(chan struct{})
	d.exited = exited
	go func() {
		d.exitErr = d.cmd.Wait()
		close(exited)
	}()
	d.t.Cleanup(func() {
		if err := d.stop(60 * time.Second); err != nil {
			d.t.Errorf("healthd did not end well: %v", err)
		}
		if log := d.log.String(); d.t.Failed() || strings.Contains(log, "DATA RACE") {
			d.t.Errorf("log of healthd:\n%s", log)
		}
	})
}

// configFlags name the configuration.
func (d *daemon) configFlags() []string {
	flags := []string{"--config", d.config}
	for _, path := range d.more {
		flags = append(flags, "--config", path)
	}
	return flags
}

// stop sends SIGTERM, waits for the end and returns the error of the process.
func (d *daemon) stop(within time.Duration) error {
	_ = d.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-d.exited:
		return d.exitErr
	case <-time.After(within):
		_ = d.cmd.Process.Kill()
		<-d.exited
		return fmt.Errorf("still running %v after SIGTERM", within)
	}
}

// get sends a request to the read-only listener.
func (d *daemon) get(path string) (status int, body string, err error) {
	ctx, cancel := context.WithTimeout(d.t.Context(), 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, d.url+path, nil)
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

// status is the part of a status object that these tests use.
type status struct {
	Name         string `json:"name"`
	Spec         string `json:"spec"`
	Service      string `json:"service"`
	Address      string `json:"address"`
	Phase        string `json:"phase"`
	Started      bool   `json:"started"`
	Ready        bool   `json:"ready"`
	Draining     bool   `json:"draining"`
	RestartCount int    `json:"restartCount"`
	Held         bool   `json:"held"`
	Invalid      string `json:"invalid"`
	Unsupervised string `json:"unsupervised"`
	State        struct {
		Running    *struct{ StartedAt time.Time }    `json:"running"`
		Waiting    *struct{ Reason, Message string } `json:"waiting"`
		Terminated *struct {
			ExitCode int    `json:"exitCode"`
			Reason   string `json:"reason"`
		} `json:"terminated"`
	} `json:"state"`
	LastState struct {
		Terminated *struct {
			ExitCode   int       `json:"exitCode"`
			Reason     string    `json:"reason"`
			FinishedAt time.Time `json:"finishedAt"`
		} `json:"terminated"`
	} `json:"lastState"`
	Probes map[string]struct {
		Result        string    `json:"result"`
		Outcome       string    `json:"outcome"`
		Run           int       `json:"run"`
		Output        string    `json:"output"`
		LastProbeTime time.Time `json:"lastProbeTime"`
	} `json:"probes"`
	Conditions []condition `json:"conditions"`
}

type condition struct{ Type, Status, Reason string }

// condition returns the condition of that type, and an empty one where there is none.
func (s status) condition(name string) condition {
	for _, c := range s.Conditions {
		if c.Type == name {
			return c
		}
	}
	return condition{}
}

// status returns the status of one container.
func (d *daemon) status(name string) (status, error) {
	var s status
	code, body, err := d.get("/v1/containers/" + name)
	if err != nil {
		return s, err
	}
	if code != http.StatusOK {
		return s, fmt.Errorf("%d: %s", code, body)
	}
	return s, json.Unmarshal([]byte(body), &s)
}

// event is one entry of the history.
type event struct {
	Time                       time.Time
	Container, Reason, Message string
	Count                      int
	First                      time.Time
}

// events returns a container's events, or those of all for an empty name, oldest
// first.
func (d *daemon) events(name string) []event {
	d.t.Helper()
	var all []event
	_, body, err := d.get("/v1/events?container=" + name)
	if err == nil {
		err = json.Unmarshal([]byte(body), &all)
	}
	if err != nil {
		d.t.Fatalf("cannot read events: %v", err)
	}
	return all
}

// reasons returns the reasons of a container's events, oldest first.
func (d *daemon) reasons(name string) []string {
	d.t.Helper()
	var all []string
	for _, e := range d.events(name) {
		all = append(all, e.Reason)
	}
	return all
}

// run runs a client command and returns what it printed and its exit code.
func (d *daemon) run(args ...string) (output string, code int) {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), 2*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, d.path, append(args, d.configFlags()...)...).CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		d.t.Fatalf("healthd %v: %v", args, err)
	}
	if exit != nil {
		code = exit.ExitCode()
	}
	return string(out), code
}

// eventually calls try until it returns nil, and fails the test when that takes longer than
// within. It returns how long it took.
func (d *daemon) eventually(within time.Duration, what string, try func() error) time.Duration {
	d.t.Helper()
	begun := time.Now()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := try()
		if err == nil {
			return time.Since(begun)
		}
		if time.Since(begun) > within {
			d.t.Fatalf("healthd did not %s within %v: %v", what, within, err)
		}
		<-tick.C
	}
}

// until waits until wanted returns true for a container's status.
func (d *daemon) until(within time.Duration, name, what string, wanted func(status) bool) status {
	d.t.Helper()
	var s status
	d.eventually(within, "see "+name+" "+what, func() (err error) {
		if s, err = d.status(name); err != nil {
			return err
		}
		if !wanted(s) {
			return fmt.Errorf("its status is %+v", s)
		}
		return nil
	})
	return s
}

// stays checks that wanted returns true for a container's status all the time.
func (d *daemon) stays(during time.Duration, name, what string, wanted func(status) bool) {
	d.t.Helper()
	end := time.After(during)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		s, err := d.status(name)
		if err != nil || !wanted(s) {
			d.t.Fatalf("%s is not always %s: %+v, %v", name, what, s, err)
		}
		select {
		case <-end:
			return
		case <-tick.C:
		}
	}
}

func ready(s status) bool { return s.Ready }

// lockedBuffer collects what a process prints while it is being read.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
