package e2e

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

	"healthd/runtime/docker/dockertest"
)

// setBootID makes healthd use that ID for the host's present boot, from its next start on.
func (d *daemon) setBootID(id string) {
	d.t.Helper()
	file := filepath.Join(filepath.Dir(d.config), "boot_id")
	if err := os.WriteFile(file, []byte(id+"\n"), 0o600); err != nil {
		d.t.Fatal(err)
	}
	d.under = []string{"unshare", "--mount", "--propagation", "private",
		"sh", "-c", `mount --bind "$0" /proc/sys/kernel/random/boot_id && exec "$@"`, file}
}

// powerCut kills healthd, the engine and all containers at once.
func powerCut(d *daemon, e *dockertest.Engine) {
	d.t.Helper()
	list, err := e.Client().ContainerList(d.t.Context(), container.ListOptions{})
	if err != nil {
		d.t.Fatal(err)
	}
	var pids []int
	for _, c := range list {
		i, err := e.Client().ContainerInspect(d.t.Context(), c.ID)
		if err != nil {
			d.t.Fatal(err)
		}
		pids = append(pids, i.State.Pid)
	}
	d.kill()
	e.Kill(d.t)
	for _, pid := range pids {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			d.t.Fatal(err)
		}
	}
}

// powerOff shuts down in order: healthd first, then the engine, which stops its containers.
func powerOff(d *daemon, e *dockertest.Engine) {
	d.t.Helper()
	if err := d.stop(30 * time.Second); err != nil {
		d.t.Fatal(err)
	}
	e.Stop(d.t)
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
	t.Parallel()
	for _, tt := range []struct {
		name string
		end  func(*daemon, *dockertest.Engine)
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
			d := newDaemon(t, e.Endpoint, fmt.Sprintf(restartSpec, "boot", "Always")+
				fmt.Sprintf(restartSpec, "once", "Never")+fmt.Sprintf(restartSpec, "job", "OnFailure"))
			d.setBootID(oneBoot)
			d.start()
			d.eventually(30*time.Second, "be synced", d.synced)
			d.createContainers(e)
			tt.end(d, e)
			e.Up(t)
			if tt.stop {
				d.stopOnceRunning(e, "owned")
			}
			fillEventHistory(t, e)
			d.setBootID(tt.next)
			d.restart()
			d.until(20*time.Second, "runs", "started again", func(s status) bool { return s.Ready && s.RestartCount == 1 })
			if tt.stop {
				d.stays(2*time.Second, "owned", "left alone", func(s status) bool { return s.State.Terminated != nil })
				d.checkFoundStopped("owned")
			} else {
				d.until(20*time.Second, "owned", "running by the engine's hand", ready)
			}
			d.stays(2*time.Second, "stopped", "stopped", byOperator)
			for _, name := range []string{"once", "job"} {
				d.stays(time.Second, name, "ended by its policy", func(s status) bool { return s.State.Terminated != nil && s.RestartCount == 0 })
			}
		})
	}
}

// createContainers makes containers of all kinds: running, stopped by an operator, finished,
// not to be started by healthd, and to be started by the engine.
func (d *daemon) createContainers(e *dockertest.Engine) {
	d.t.Helper()
	ids := map[string]string{}
	for _, o := range []dockertest.RunOptions{
		{Name: "runs", Labels: map[string]string{"e2e": "boot"}},
		{Name: "stopped", Labels: map[string]string{"e2e": "boot"}},
		{Name: "owned", Labels: map[string]string{"e2e": "boot"}, RestartPolicy: "always"},
		{Name: "once", Labels: map[string]string{"e2e": "once"}},
	} {
		ids[o.Name] = e.Run(d.t, o)
		d.until(20*time.Second, o.Name, "ready", ready)
	}
	e.Run(d.t, dockertest.RunOptions{Name: "job", Labels: map[string]string{"e2e": "job"}, Cmd: []string{"true"}})
	d.until(20*time.Second, "job", "done", func(s status) bool { return s.Phase == "Succeeded" })
	if err := e.Client().ContainerStop(d.t.Context(), ids["stopped"], container.StopOptions{}); err != nil {
		d.t.Fatal(err)
	}
	d.until(20*time.Second, "stopped", "stopped by the operator", byOperator)
	d.waitForJournal("stopped")
}

// stopOnceRunning is docker stop, as soon as the engine has started a container.
func (d *daemon) stopOnceRunning(e *dockertest.Engine, name string) {
	d.t.Helper()
	d.eventually(20*time.Second, "see the engine start "+name, func() error {
		c, err := e.Client().ContainerInspect(d.t.Context(), name)
		if err == nil && !c.State.Running {
			err = fmt.Errorf("%s is %s", name, c.State.Status)
		}
		return err
	})
	if err := e.Client().ContainerStop(d.t.Context(), name, container.StopOptions{}); err != nil {
		d.t.Fatal(err)
	}
}

// fillEventHistory makes the engine drop its older events.
func fillEventHistory(t *testing.T, e *dockertest.Engine) {
	t.Helper()
	const remembers = 256
	id := e.Create(t, dockertest.RunOptions{Name: "chatter"})
	for i := range remembers {
		if err := e.Client().ContainerRename(t.Context(), id, fmt.Sprintf("chatter-%d", i)); err != nil {
			t.Fatal(err)
		}
	}
}

// checkFoundStopped checks that an event says that it is not known how a container ended.
func (d *daemon) checkFoundStopped(name string) {
	d.t.Helper()
	all := d.events(name)
	if !slices.ContainsFunc(all, func(ev event) bool {
		return ev.Reason == "Exited" && strings.Contains(ev.Message, " was found stopped (exit code ") && strings.HasSuffix(ev.Message, ". healthd leaves it alone")
	}) {
		d.t.Errorf("no event says that %s was found stopped: %+v", name, all)
	}
}
