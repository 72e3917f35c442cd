package enginetest

import (
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// engineRoot is empty for the engines that are installed on the host.
var engineRoot string

func init() {
	if testing.Testing() { // the demo is no test, and has flags of its own
		flag.StringVar(&engineRoot, "engine-root", "", "the `directory` that scripts/compat-root has made, whose engines are tested; empty: those of the host")
	}
}

// Root is where the daemons of one engine find their programs: the host, or a root of another
// distribution in a mount namespace that they share, as they would share the host's.
type Root struct {
	holder *Process // keeps the namespace while no daemon runs; nil on the host
}

// OpenRoot returns the root for the engine whose directory is dir. Claim must have been called.
func OpenRoot(dir string) (*Root, error) {
	if engineRoot == "" {
		return &Root{}, nil
	}
	// Anything that lives and names the directory, for CleanUp to find.
	const program = "tail"
	r := &Root{holder: NewProcess("the root's namespace", filepath.Join(dir, "root.log"),
		filepath.Join(engineRoot, "enter"), program, "-f", ownerOf(dir))}
	if err := r.holder.Start(); err != nil {
		return nil, err
	}
	return r, r.holder.WaitReady(stopTimeout, func(context.Context) error {
		name, err := os.ReadFile(r.file("comm"))
		if err == nil && strings.TrimSpace(string(name)) != program {
			err = errors.New("its mounts are not made yet")
		}
		return err
	})
}

// Command returns the arguments that run a program in the root. The process is the program's own.
func (r *Root) Command(argv ...string) []string {
	if r.holder == nil {
		return argv
	}
	return append([]string{"nsenter", "--mount=" + r.file("ns/mnt"), "--"}, argv...)
}

func (r *Root) file(name string) string {
	return filepath.Join("/proc", strconv.Itoa(r.holder.cmd.Process.Pid), name)
}

// Close gives the namespace up. Its mounts go when its last process ends.
func (r *Root) Close() {
	if r != nil && r.holder != nil && r.holder.Running() {
		_ = r.holder.Stop(syscall.SIGKILL, stopTimeout)
	}
}
