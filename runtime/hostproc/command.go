package hostproc

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// BareEnvironment keeps what healthd itself was given, such as credentials, from commands.
func BareEnvironment() []string {
	return []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8"}
}

// RunCommand runs a command of the host's and returns the begin of its output as it is. When ctx ends, it kills the command.
// Whatever is then left of its process group dies with it. For what has left the group and holds the output, it waits
// at most for a second.
func RunCommand(ctx context.Context, command, environment []string, input []byte) (said string, err error) {
	const leftTime = time.Second
	c := exec.CommandContext(ctx, command[0], command[1:]...)
	c.Env, c.Dir = environment, "/"
	c.Stdin = bytes.NewReader(input)
	output := &headWriter{}
	c.Stdout, c.Stderr = output, output
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	c.WaitDelay = leftTime
	if err := c.Start(); err != nil {
		return "", err
	}
	awaitEnd(c.Process.Pid)
	_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL)
	err = c.Wait()
	if errors.Is(err, exec.ErrWaitDelay) || errors.Is(err, syscall.EPIPE) { // it need not read what it is told
		err = nil
	}
	return output.head.String(), err
}

// awaitEnd waits until a child has ended, and leaves it a zombie: nobody else can get the number of its process
// group, which is then killed.
func awaitEnd(pid int) {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// maxOutput bounds what is kept of a command's output, in bytes.
const maxOutput = 4 << 10

// headWriter keeps the begin of what is written to it, and takes the rest without a trace. It does not embed its buffer,
// whose ReadFrom would take everything.
type headWriter struct{ head bytes.Buffer }

// Write implements io.Writer.
func (w *headWriter) Write(p []byte) (int, error) {
	w.head.Write(p[:min(len(p), max(0, maxOutput-w.head.Len()))])
	return len(p), nil
}
