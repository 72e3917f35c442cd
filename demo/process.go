package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// process is a child process. The terminal's Ctrl-C does not reach it, because the demo
// handles that, and it is killed when the demo ends for whatever reason.
type process struct {
	name, log string
	cmd       *exec.Cmd
	done      chan struct{}
}

func startProcess(name, log, program string, args ...string) (*process, error) {
	out, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	p := &process{name: name, log: log, cmd: exec.Command(program, args...), done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go func() {
		defer close(p.done)
		// Pdeathsig is sent when the thread that started the process ends.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			_ = p.cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("cannot start %s: %w", name, err)
	}
	return p, nil
}

// waitReady returns when what returns nil, and fails when the process ends before that.
func (p *process) waitReady(ctx context.Context, what func(context.Context) error) error {
	const patience = 30 * time.Second
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := what(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-p.done:
			return fmt.Errorf("%s has ended; its log:\n%s", p.name, p.output())
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready yet: %w; its log:\n%s", p.name, err, p.output())
		}
	}
}

func (p *process) output() []byte {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return []byte(err.Error())
	}
	return text
}

// kill kills the process and waits for its end.
func (p *process) kill() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(10 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}
