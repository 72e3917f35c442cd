package main

import (
	"bufio"
	"bytes"
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
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

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
}

// process is one that the rig started.
type process struct {
	*exec.Cmd
	ended chan error
}

func start(cmd *exec.Cmd) (*process, error) {
	// A driver that is killed takes its processes with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd, make(chan error, 1)}
	go func() { p.ended <- cmd.Wait() }()
	return p, nil
}

// end ends it, with SIGKILL when it does not end by itself.
func (p *process) end() error {
	_ = p.Process.Signal(syscall.SIGTERM)
	select {
	case err := <-p.ended:
		return err
	case <-time.After(endPatience):
		_ = p.Process.Kill()
		return errors.Join(fmt.Errorf("%s did not end within %v", p.Path, endPatience), <-p.ended)
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
	config := fmt.Sprintf("[[runtime]]\ntype = \"docker\"\nendpoint = \"unix://%s\"\n[listen]\nhttp = \"\"\nagent = %q\ncontrol = %q\n[state]\ndir = %q\n[log]\nlevel = \"warn\"\n%s",
		r.path("engine.sock"), r.agent, r.path("control.sock"), r.path("state"), specs)
	if err := os.WriteFile(r.path("healthd.toml"), []byte(config), 0o600); err != nil {
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
	case err := <-r.daemonEnded():
		return fmt.Errorf("healthd has ended: %v", err)
	case <-r.ctx.Done():
		return r.ctx.Err()
	}
}

func (r *rig) daemonEnded() chan error {
	if r.daemon == nil {
		return nil
	}
	return r.daemon.ended
}

func (r *rig) get(c *http.Client, path string, v any) error { return r.ask(c, http.MethodGet, path, v) }

func (r *rig) post(c *http.Client, path string) error { return r.ask(c, http.MethodPost, path, nil) }

func (r *rig) ask(c *http.Client, method, path string, v any) error {
	req, err := http.NewRequestWithContext(r.ctx, method, "http://localhost"+path, nil)
	if err != nil {
		return err
	}
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

// usage is what a process has used so far.
type usage struct {
	at           time.Time
	user, kernel time.Duration
}

func (u usage) total() time.Duration { return u.user + u.kernel }

func (r *rig) usage() (usage, error) { return r.daemon.usage() }

func (p *process) usage() (usage, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.Process.Pid))
	if err != nil {
		return usage{}, err
	}
	f := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	ticks := func(b []byte) time.Duration {
		n, _ := strconv.Atoi(string(b))
		return time.Duration(n) * time.Second / 100 // USER_HZ
	}
	return usage{time.Now(), ticks(f[11]), ticks(f[12])}, nil
}

// memory is what healthd holds now, and at most since resetPeak, in MB.
type memory struct{ resident, peak float64 }

func (r *rig) memory() (memory, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", r.daemon.Process.Pid))
	if err != nil {
		return memory{}, err
	}
	defer f.Close()
	var m memory
	for lines := bufio.NewScanner(f); lines.Scan(); {
		key, value, _ := strings.Cut(lines.Text(), ":")
		kb, _ := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 64)
		switch key {
		case "VmHWM":
			m.peak = kb / 1000 * 1.024
		case "VmRSS":
			m.resident = kb / 1000 * 1.024
		}
	}
	return m, nil
}

func (r *rig) resetPeak() error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", r.daemon.Process.Pid), []byte("5"), 0)
}

// inside is how many goroutines and descriptors healthd has.
func (r *rig) inside() (goroutines, descriptors int, err error) {
	var text string
	if err := r.get(r.control, "/debug/pprof/goroutine?debug=1", &text); err != nil {
		return 0, 0, err
	}
	_, _ = fmt.Sscanf(text, "goroutine profile: total %d", &goroutines)
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", r.daemon.Process.Pid))
	return goroutines, len(fds), err
}

// calls is how many requests the engine has had, by kind.
func (r *rig) calls() (map[string]int, error) {
	var byKind map[string]int
	return byKind, r.get(r.engine, "/bench/calls", &byKind)
}

// profile takes a CPU profile of so many seconds into a file.
func (r *rig) profile(dir, name string, seconds int) error {
	if dir == "" {
		return r.sleep(time.Duration(seconds) * time.Second)
	}
	for kind, path := range map[string]string{"cpu": fmt.Sprintf("/debug/pprof/profile?seconds=%d", min(seconds, 25)), "heap": "/debug/pprof/heap"} {
		var text string
		if err := r.get(r.control, path, &text); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name+"."+kind+".pprof"), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}
