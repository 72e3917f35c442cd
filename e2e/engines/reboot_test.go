package engines

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"

	"healthd/e2e/harness"
	"healthd/runtime/docker/dockertest"
)

// setBootID makes healthd use that ID for the host's present boot, from its next start on.
func setBootID(d *harness.Daemon, id string) {
	d.T.Helper()
	file := filepath.Join(filepath.Dir(d.Config), "boot_id")
	if err := os.WriteFile(file, []byte(id+"\n"), 0o600); err != nil {
		d.T.Fatal(err)
	}
	d.Under = []string{"unshare", "--mount", "--propagation", "private",
		"sh", "-c", `mount --bind "$0" /proc/sys/kernel/random/boot_id && exec "$@"`, file}
}

// powerCut kills healthd, the engine and all containers at once.
func powerCut(d *harness.Daemon, e *dockertest.Engine) {
	d.T.Helper()
	list, err := e.Client().ContainerList(d.T.Context(), container.ListOptions{})
	if err != nil {
		d.T.Fatal(err)
	}
	var pids []int
	for _, c := range list {
		i, err := e.Client().ContainerInspect(d.T.Context(), c.ID)
		if err != nil {
			d.T.Fatal(err)
		}
		pids = append(pids, i.State.Pid)
	}
	d.Kill()
	e.Kill(d.T)
	for _, pid := range pids {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			d.T.Fatal(err)
		}
	}
}

// powerOff shuts down in order: healthd first, then the engine, which stops its containers.
func powerOff(d *harness.Daemon, e *dockertest.Engine) {
	d.T.Helper()
	if err := d.Stop(); err != nil {
		d.T.Fatal(err)
	}
	e.Stop(d.T)
}

const (
	oneBoot     = "0a0a0a0a-1111-4111-8111-000000000001"
	anotherBoot = "0a0a0a0a-2222-4222-8222-000000000002"
)

// After a reboot of the host, the engine starts only containers with a restart policy of its
// own, and healthd starts what ran, and nothing else. With the same boot ID, the time of the
// engine's start tells the same, and a container that has ended since is left alone. The
// engine's history is full by then, so that it shows neither.
func TestHostReboot(t *testing.T) {
	harness.RingTwo(t, "make test-engines")
	t.Parallel()
	for _, tt := range []struct {
		name string
		end  func(*harness.Daemon, *dockertest.Engine)
		next string
		stop bool // an operator stops the engine's container before healthd is back
	}{
		{"power cut", powerCut, anotherBoot, false},
		{"shutdown", powerOff, anotherBoot, false},
		{"engine alone", powerCut, oneBoot, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := dockertest.Start(t, "--live-restore=false")
			d := harness.NewDaemon(t, e.Endpoint, fmt.Sprintf(restartSpec, "boot", "Always")+
				fmt.Sprintf(restartSpec, "once", "Never")+fmt.Sprintf(restartSpec, "job", "OnFailure"))
			setBootID(d, oneBoot)
			d.Start()
			d.Eventually("be synced", d.Synced)
			createContainers(d, e)
			tt.end(d, e)
			e.Up(t)
			if tt.stop {
				stopOnceRunning(d, e, "owned")
			}
			harness.FillEventHistory(t, e)
			setBootID(d, tt.next)
			d.Restart()
			d.Until("runs", "started again", func(s harness.Status) bool { return s.Ready && s.RestartCount == 1 })
			if tt.stop {
				d.Stays(2*time.Second, "owned", "left alone", func(s harness.Status) bool { return s.State.Terminated != nil })
				checkFoundStopped(d, "owned")
			} else {
				d.Until("owned", "running by the engine's hand", harness.Ready)
			}
			d.Stays(2*time.Second, "stopped", "stopped", harness.ByOperator)
			for _, name := range []string{"once", "job"} {
				d.Stays(time.Second, name, "ended by its policy", func(s harness.Status) bool { return s.State.Terminated != nil && s.RestartCount == 0 })
			}
		})
	}
}

// createContainers makes containers of all kinds: running, stopped by an operator, finished,
// not to be started by healthd, and to be started by the engine.
func createContainers(d *harness.Daemon, e *dockertest.Engine) {
	d.T.Helper()
	ids := map[string]string{}
	for _, o := range []dockertest.RunOptions{
		{Name: "runs", Labels: map[string]string{"e2e": "boot"}},
		{Name: "stopped", Labels: map[string]string{"e2e": "boot"}},
		{Name: "owned", Labels: map[string]string{"e2e": "boot"}, RestartPolicy: "always"},
		{Name: "once", Labels: map[string]string{"e2e": "once"}},
	} {
		ids[o.Name] = e.Run(d.T, o)
		d.Until(o.Name, "ready", harness.Ready)
	}
	e.Run(d.T, dockertest.RunOptions{Name: "job", Labels: map[string]string{"e2e": "job"}, Cmd: []string{"true"}})
	d.Until("job", "done", func(s harness.Status) bool { return s.Phase == "Succeeded" })
	if err := e.Client().ContainerStop(d.T.Context(), ids["stopped"], container.StopOptions{}); err != nil {
		d.T.Fatal(err)
	}
	d.Until("stopped", "stopped by the operator", harness.ByOperator)
	d.WaitForJournal("stopped")
}

// stopOnceRunning is docker stop, as soon as the engine has started a container.
func stopOnceRunning(d *harness.Daemon, e *dockertest.Engine, name string) {
	d.T.Helper()
	d.Eventually("see the engine start "+name, func() error {
		c, err := e.Client().ContainerInspect(d.T.Context(), name)
		if err == nil && !c.State.Running {
			err = fmt.Errorf("%s is %s", name, c.State.Status)
		}
		return err
	})
	if err := e.Client().ContainerStop(d.T.Context(), name, container.StopOptions{}); err != nil {
		d.T.Fatal(err)
	}
}

// checkFoundStopped checks that an event says that it is not known how a container ended.
func checkFoundStopped(d *harness.Daemon, name string) {
	d.T.Helper()
	all := d.Events(name)
	if !slices.ContainsFunc(all, func(ev harness.Event) bool {
		return ev.Reason == "Exited" && strings.Contains(ev.Message, " was found stopped (exit code ") && strings.HasSuffix(ev.Message, ". healthd leaves it alone")
	}) {
		d.T.Errorf("no event says that %s was found stopped: %+v", name, all)
	}
}
