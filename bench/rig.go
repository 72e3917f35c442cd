package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"healthd/bench/engine"
	"healthd/bench/targets"
)

const (
	startPatience = time.Minute // for healthd to know all containers
	endPatience   = 40 * time.Second
)

// rig is healthd, with an engine and targets of its own.
type rig struct {
	dir     string
	ctx     context.Context
	engine  *http.Client
	targets *http.Client
	control *http.Client
	daemon  *process
	others  []*process
	started time.Time // of healthd
	agent   string    // where healthd answers agent checks; empty: nowhere

	runtimes string // the configuration's, in place of the engine
}

// process is one that the rig started.
type process struct {
	*exec.Cmd
	ended chan struct{} // closed when it has ended
	err   error         // why, once it has
}

func start(cmd *exec.Cmd) (*process, error) {
	// A driver that is killed takes its processes with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{Cmd: cmd, ended: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		close(p.ended)
	}()
	return p, nil
}

// end ends it, with SIGKILL when it does not end by itself.
func (p *process) end() error {
	_ = p.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.ended:
		return p.err
	case <-time.After(endPatience):
		_ = p.Process.Kill()
		<-p.ended
		return errors.Join(fmt.Errorf("%s did not end within %v", p.Path, endPatience), p.err)
	}
}

// newRig starts engine and targets, on one core where there are several.
func newRig(ctx context.Context, own int, engineArgs ...string) (*rig, error) {
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return nil, err
	}
	r := &rig{dir: dir, ctx: ctx}
	r.engine, r.targets, r.control = onSocket(r.path("engine.sock")), onSocket(r.path("targets.sock")), onSocket(r.path("control.sock"))
	self, err := os.Executable()
	if err != nil {
		return r, err
	}
	engineArgs = append([]string{"-own", strconv.Itoa(own)}, engineArgs...)
	for role, args := range map[string][]string{"engine": engineArgs, "targets": {"-own", strconv.Itoa(own)}} {
		argv := append([]string{self, role, "-socket", r.path(role + ".sock")}, args...)
		if runtime.NumCPU() > 1 {
			argv = append([]string{"taskset", "-c", "0"}, argv...)
		}
		cmd := exec.Command(argv[0], argv[1:]...)
		cmd.Stderr = os.Stderr
		p, err := start(cmd)
		if err != nil {
			return r, errors.Join(err, r.close())
		}
		r.others = append(r.others, p)
	}
	if err := r.eventually(startPatience, "the engine and the targets answer", func() error {
		return errors.Join(r.get(r.engine, "/_ping", nil), r.get(r.targets, "/begun", nil))
	}); err != nil {
		return r, errors.Join(err, r.close())
	}
	return r, nil
}

func (r *rig) path(name string) string { return filepath.Join(r.dir, name) }

func onSocket(path string) *http.Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}
	return &http.Client{Transport: &http.Transport{DialContext: dial, MaxIdleConnsPerHost: 64}, Timeout: time.Minute}
}

// runDaemon starts healthd with these specs, without waiting for it.
func (r *rig) runDaemon(binary, specs string) error {
	if err := r.writeConfig(specs); err != nil {
		return err
	}
	log, err := os.Create(r.path("healthd.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(binary, "run", "--config", r.path("healthd.toml"))
	cmd.Stdout, cmd.Stderr = log, log
	r.started = time.Now()
	r.daemon, err = startWithSlack(cmd)
	return err
}

// timerSlack is that of healthd's unit, TimerSlackNSec.
const timerSlack = 2 * time.Millisecond

// startWithSlack starts healthd as its unit does. A process inherits the slack of the thread that starts it.
func startWithSlack(cmd *exec.Cmd) (*process, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(timerSlack), 0, 0, 0); err != nil {
		return nil, err
	}
	defer unix.Prctl(unix.PR_SET_TIMERSLACK, 0, 0, 0, 0) // the thread's own again
	return start(cmd)
}

// writeConfig writes the configuration of healthd with these specs.
func (r *rig) writeConfig(specs string) error {
	runtimes := cmp.Or(r.runtimes, fmt.Sprintf("[[runtime]]\ntype = \"docker\"\nendpoint = \"unix://%s\"\n", r.path("engine.sock")))
	config := fmt.Sprintf("%s[listen]\nhttp = \"\"\nagent = %q\ncontrol = %q\n[state]\ndir = %q\n[log]\nlevel = \"warn\"\n%s",
		runtimes, r.agent, r.path("control.sock"), r.path("state"), specs)
	return os.WriteFile(r.path("healthd.toml"), []byte(config), 0o600)
}

// awaitSync waits until healthd knows all containers.
func (r *rig) awaitSync() error {
	return r.eventually(startPatience, "healthd knows all containers", func() error { return r.get(r.control, "/readyz", nil) })
}

// close ends everything and removes what is left.
func (r *rig) close() error {
	var errs []error
	if r.daemon != nil {
		if err := r.daemon.end(); err != nil {
			tail, _ := os.ReadFile(r.path("healthd.log"))
			errs = append(errs, fmt.Errorf("healthd: %w: %s", err, tail[max(0, len(tail)-2000):]))
		}
	}
	for _, p := range r.others {
		_ = p.end()
	}
	return errors.Join(append(errs, os.RemoveAll(r.dir))...)
}

func (r *rig) eventually(patience time.Duration, what string, ok func() error) error {
	deadline := time.Now().Add(patience)
	for {
		err := ok()
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("waited %v: %s: %w", patience, what, err)
		}
		if err := r.sleep(5 * time.Millisecond); err != nil {
			return err
		}
	}
}

func (r *rig) sleep(d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-r.daemonEnded():
		return fmt.Errorf("healthd has ended: %v", r.daemon.err)
	case <-r.ctx.Done():
		return r.ctx.Err()
	}
}

func (r *rig) daemonEnded() chan struct{} {
	if r.daemon == nil {
		return nil
	}
	return r.daemon.ended
}

func (r *rig) get(c *http.Client, path string, v any) error {
	return r.ask(c, http.MethodGet, path, nil, v)
}

func (r *rig) post(c *http.Client, path string) error {
	return r.ask(c, http.MethodPost, path, nil, nil)
}

// ask sends in as JSON, and reads the answer into v: as it is into a text, else as JSON. Both may be nil.
func (r *rig) ask(c *http.Client, method, path string, in, v any) error {
	var sent io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return err
		}
		sent = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(r.ctx, method, "http://localhost"+path, sent)
	if err != nil {
		return err
	}
	req.Header.Set(engine.ByMeasurement, "yes")
	resp, err := c.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return err
	case resp.StatusCode >= 400:
		return fmt.Errorf("%s %s: %d %.200s", method, path, resp.StatusCode, body)
	case v == nil:
		return nil
	}
	if text, ok := v.(*string); ok {
		*text = string(body)
		return nil
	}
	return json.Unmarshal(body, v)
}

// report is what the targets have seen since forget.
func (r *rig) report(period time.Duration, to int) (targets.Report, error) {
	var rep targets.Report
	return rep, r.get(r.targets, "/report?"+url.Values{"period": {period.String()}, "to": {strconv.Itoa(to)}}.Encode(), &rep)
}

func (r *rig) forget() error { return r.post(r.targets, "/forget") }

func (r *rig) fail(from, to int) error {
	return r.post(r.targets, fmt.Sprintf("/fail?from=%d&to=%d", from, to))
}

// calls is how many requests the engine has had, by kind.
func (r *rig) calls() (map[string]int, error) {
	var byKind map[string]int
	return byKind, r.get(r.engine, "/bench/calls", &byKind)
}
