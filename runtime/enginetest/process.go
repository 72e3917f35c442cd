// Package enginetest is what private container engines for tests have in common: their daemons,
// and what cleans up after them. dockertest and containerdtest start such engines.
package enginetest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// Process is a daemon that is killed when the test binary dies.
type Process struct {
	Env []string // besides what every daemon gets

	name, log string
	cmd       *exec.Cmd
	started   chan error
	done      chan struct{}
}

// NewProcess returns a daemon that is not started yet. Its output goes to the file log.
func NewProcess(name, log string, argv ...string) *Process {
	return &Process{
		name: name, log: log, cmd: exec.Command(argv[0], argv[1:]...),
		started: make(chan error, 1), done: make(chan struct{}),
	}
}

// Start starts it.
func (p *Process) Start() error {
	out, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer out.Close()
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	// A private engine must not get the caller's proxies and DOCKER_* variables.
	p.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=/root", "TMPDIR=" + os.TempDir()}, p.Env...)
	go func() {
		defer close(p.done)
		// Pdeathsig is sent when the thread that started the process ends, so the thread
		// is kept until the process has ended.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		p.started <- err
		if err == nil {
			_ = p.cmd.Wait()
		}
	}()
	if err := <-p.started; err != nil {
		return fmt.Errorf("cannot start %s: %w", p.name, err)
	}
	return nil
}

// Running says that it has not ended. It must have been started.
func (p *Process) Running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// WaitReady returns when ready returns nil, and an error with the end of its log when it ends, or is
// not ready within timeout.
func (p *Process) WaitReady(timeout time.Duration, ready func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-p.done:
			return fmt.Errorf("%s ended with %v; its log:\n%s", p.name, p.cmd.ProcessState, p.LogTail())
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready after %v: %w; its log:\n%s", p.name, timeout, err, p.LogTail())
		}
	}
}

// Stop sends sig and waits for the end of the process. After timeout it sends SIGKILL and
// returns an error.
func (p *Process) Stop(sig syscall.Signal, timeout time.Duration) error {
	if err := p.Signal(sig); err != nil && p.Running() {
		return err
	}
	select {
	case <-p.done:
		return nil
	case <-time.After(timeout):
	}
	_ = p.cmd.Process.Kill()
	<-p.done
	return fmt.Errorf("%s did not end within %v of %v; its log:\n%s", p.name, timeout, sig, p.LogTail())
}

// Signal sends a signal.
func (p *Process) Signal(sig syscall.Signal) error {
	if err := p.cmd.Process.Signal(sig); err != nil {
		return fmt.Errorf("cannot signal %s: %w", p.name, err)
	}
	return nil
}

// Freeze stops it with SIGSTOP until SIGCONT.
func (p *Process) Freeze() error { return Freeze(p.cmd.Process.Pid) }

// LogTail returns the end of what it has logged.
func (p *Process) LogTail() string {
	const most = 8 << 10
	b, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-most):])
}
