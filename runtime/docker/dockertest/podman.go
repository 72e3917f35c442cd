package dockertest

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/docker/docker/api/types/container"
	"golang.org/x/sys/unix"

	"healthd/runtime/enginetest"
)

// usePodman says that the engines are Podman's services with its Docker-compatible API, which
// manage their containers without a containerd.
var usePodman bool

func init() {
	if testing.Testing() { // the demo is no test, and has flags of its own
		flag.BoolVar(&usePodman, "podman", false, "test Podman's Docker-compatible API; needs a network namespace of its own, for Podman's bridge has a fixed name")
	}
}

// Podman says that the engines are Podman's.
func Podman() bool { return usePodman }

// PodmanCannot skips what Podman has not, or does otherwise, and says why.
func PodmanCannot(tb testing.TB, why string) {
	tb.Helper()
	if usePodman {
		tb.Skip("not with Podman: " + why)
	}
}

func (e *Engine) podman() (*enginetest.Process, error) {
	// What has no flag. The default log of events is the journal, which is the host's; the default
	// runtime, crun, cannot run where the host has both versions of cgroups.
	conf := fmt.Sprintf(`[engine]
runtime = "runc"
events_logger = "file"
events_logfile_path = %q
tmp_dir = %q
[network]
network_config_dir = %q
`, e.path("events.log"), e.path("tmp"), e.path("networks"))
	file := e.path("containers.conf")
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		return nil, err
	}
	_ = os.Remove(e.path("d.sock")) // of a service that was killed
	p := enginetest.NewProcess("podman", e.path("podman.log"), e.root.Command("podman",
		"--root", e.path("root"), "--runroot", e.path("run"), "--storage-driver", "overlay", "--cgroup-manager", "cgroupfs",
		"system", "service", "--time", "0", e.Endpoint)...)
	p.Env = []string{"CONTAINERS_CONF=" + file, "PODMAN_IGNORE_CGROUPSV1_WARNING=1"}
	return p, nil
}

// ulimits are at most those of the host. Podman 4.3 would set higher ones, which root may not everywhere.
func ulimits() ([]*container.Ulimit, error) {
	var set []*container.Ulimit
	for name, resource := range map[string]int{"nofile": unix.RLIMIT_NOFILE, "nproc": unix.RLIMIT_NPROC} {
		var l unix.Rlimit
		if err := unix.Getrlimit(resource, &l); err != nil {
			return nil, err
		}
		most := int64(min(l.Max, 1<<15)) // more processes Podman's service may not have itself
		set = append(set, &container.Ulimit{Name: name, Hard: most, Soft: most})
	}
	return set, nil
}
