package containerdtest

import (
	"context"
	"os/exec"
	"testing"
)

// Ctr runs containerd's own client, and returns what it printed. The client of containerd 1.6
// sends text that is not UTF-8, which the one of the tests refuses to send and to read.
func (e *Engine) Ctr(tb testing.TB, args ...string) (string, error) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(tb.Context()), stopTimeout)
	defer cancel()
	argv := e.root.Command(append([]string{"ctr", "--address", e.Path("c.sock"), "--namespace", Namespace}, args...)...)
	out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput()
	return string(out), err
}
