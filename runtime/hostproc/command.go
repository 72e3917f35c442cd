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

// RunCommand runs a command of the host's and returns its output as it is, of a long one the begin and the end. When ctx ends, it kills the command.
// Whatever is then left of its process group dies with it. For what has left the group and holds the output, it waits
// at most for a second.
func RunCommand(ctx context.Context, command, environment []string, input []byte) (said string, err error) {
	const leftTime = time.Second
	c := exec.CommandContext(ctx, command[0], command[1:]...)
	c.Env, c.Dir = environment, "/"
	c.Stdin = bytes.NewReader(input)
	output := &clippedWriter{}
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
	return output.String(), err
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

// maxOutput bounds what is kept of the begin of a command's output, and of its end, in bytes.
const maxOutput = 4 << 10

// clippedWriter keeps the begin and the end of what is written to it. It does not embed a buffer, whose ReadFrom would take
// everything.
type clippedWriter struct {
	head bytes.Buffer
	tail []byte // at most twice maxOutput
	cut  bool   // something is missing between them
}

// Write implements io.Writer.
func (w *clippedWriter) Write(p []byte) (int, error) {
	n := min(len(p), maxOutput-w.head.Len())
	w.head.Write(p[:n])
	rest := p[n:]
	if keep := rest[max(0, len(rest)-maxOutput):]; len(keep) > 0 {
		w.cut = w.cut || len(keep) < len(rest)
		w.tail = append(w.tail, keep...)
	}
	if extra := len(w.tail) - maxOutput; extra > 0 {
		w.tail, w.cut = append(w.tail[:0], w.tail[extra:]...), true
	}
	return len(p), nil
}

// String returns what is kept.
func (w *clippedWriter) String() string {
	if w.cut {
		return w.head.String() + "\n…\n" + string(w.tail)
	}
	return w.head.String() + string(w.tail)
}
