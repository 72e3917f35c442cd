package scenarios

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"healthd/e2e/patience"
	"healthd/runtime"
)

// deaf is a command that only SIGKILL ends: the kernel drops other signals to a process 1
// without a handler.
var deaf = []string{"sleep", "1000"}

// idle is deaf, and leaves all sleeps in its container to the test.
var idle = []string{"tail", "-f", "/dev/null"}

// endsOn is a command that ends with the code when it gets the signal.
func endsOn(signal string, code int) []string {
	return handles(fmt.Sprintf("trap 'exit %d' %s", code, signal))
}

// handles is a command that does what the traps say, once waitForHandlers has returned.
func handles(traps string) []string {
	return []string{"sh", "-c", traps + "; while :; do sleep 0.1; done"}
}

// waitForHandlers returns when a command made by endsOn or handles has set its traps.
func waitForHandlers(t *testing.T, id string) {
	t.Helper()
	Eventually(t, "the command has set its traps", func() bool { return ProcessesRunning(id, "sleep") > 0 })
}

// ProcessesRunning returns how many processes of the container run the program.
func ProcessesRunning(id, program string) int {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	n := 0
	for _, dir := range dirs {
		args, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		name, _, _ := strings.Cut(string(args), "\x00")
		if filepath.Base(name) != program {
			continue
		}
		if group, _ := os.ReadFile(filepath.Join(dir, "cgroup")); strings.Contains(string(group), id) {
			n++
		}
	}
	return n
}

// Eventually waits until ok returns true.
func Eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	patience.Until(t, what, func() error {
		if !ok() {
			return errors.New("it is not so yet")
		}
		return nil
	})
}

// briefly calls try with a short time, and with longer ones while it fails: a busy machine may not get as far within a
// short one as try wants to see.
func briefly(t *testing.T, try func(d time.Duration) error) {
	t.Helper()
	var err error
	for d := 300 * time.Millisecond; d < patience.Limit; d *= 4 {
		if err = try(d); err == nil {
			return
		}
	}
	t.Error(err)
}

// connect returns a client of a healthd of its own.
func connect(t *testing.T, p Private) Engine {
	t.Helper()
	return p.Connect(t, t.TempDir())
}

func inspect(t *testing.T, e Engine, id string) *runtime.Container {
	t.Helper()
	c, err := e.Inspect(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func waitForEnd(t *testing.T, e Engine, id string) *runtime.Container {
	t.Helper()
	var c *runtime.Container
	Eventually(t, "container "+id+" has ended", func() bool { c = inspect(t, e, id); return c.State == runtime.Exited })
	return c
}

func stop(t *testing.T, e Engine, id string, grace time.Duration) {
	t.Helper()
	if err := e.Stop(t.Context(), id, grace); err != nil {
		t.Fatal(err)
	}
}

func start(t *testing.T, e Engine, id string) {
	t.Helper()
	if err := e.Start(t.Context(), id); err != nil {
		t.Fatal(err)
	}
}

// signalFromHost signals a main process behind the engine's back, as a crash or a host's kill.
func signalFromHost(t *testing.T, c *runtime.Container, signal syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(c.Pid, signal); err != nil {
		t.Fatal(err)
	}
}
