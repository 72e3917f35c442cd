package engines

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/api/types/swarm"

	"healthd/e2e/harness"
	"healthd/e2e/ports"
	"healthd/runtime/docker/dockertest"
	"healthd/runtime/enginetest"
)

// healthd stops a task of Swarm whose liveness probe fails, and Swarm makes the next one: two run for two.
func TestSwarmTask(t *testing.T) {
	harness.RingTwo(t, "make test-engines")
	t.Parallel()
	e := dockertest.Start(t, "--live-restore=false") // Swarm cannot do with it
	client := e.Client()
	joinSwarm(t, e, ports.Address(t))
	image, err := client.ImageInspect(t.Context(), e.Image)
	if err != nil {
		t.Fatal(err)
	}
	replicas, delay := uint64(2), 100*time.Millisecond
	spec := swarm.ServiceSpec{
		Annotations: swarm.Annotations{Name: "swarmed"},
		TaskTemplate: swarm.TaskSpec{
			ContainerSpec: &swarm.ContainerSpec{Image: image.ID /* else Swarm tries to pull it */, Labels: map[string]string{"e2e": "swarmed"}},
			RestartPolicy: &swarm.RestartPolicy{Condition: swarm.RestartPolicyConditionAny, Delay: &delay},
			Networks:      []swarm.NetworkAttachmentConfig{{Target: e.Bridge}},
		},
		Mode: swarm.ServiceMode{Replicated: &swarm.ReplicatedService{Replicas: &replicas}},
	}
	p := harness.StartProxy(t, e)
	d := harness.StartBehindProxy(t, p, fmt.Sprintf(harness.HangsSpec, "swarmed"))
	if _, err := client.ServiceCreate(t.Context(), spec, swarm.ServiceCreateOptions{}); err != nil {
		t.Fatal(err)
	}
	running := func() (names []string) {
		t.Helper()
		all, err := client.ContainerList(t.Context(), container.ListOptions{Filters: filters.NewArgs(filters.Arg("label", "e2e=swarmed"))})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range all {
			names = append(names, strings.TrimPrefix(c.Names[0], "/"))
		}
		return names
	}
	// settled waits until healthd has two tasks ready, none of which is gone, and returns them.
	settled := func(gone string) (names []string) {
		t.Helper()
		d.Eventually("see two tasks ready", func() error {
			names = running()
			if len(names) != 2 || slices.Contains(names, gone) {
				return fmt.Errorf("these run: %v", names)
			}
			for _, name := range names {
				if s, err := d.Status(name); err != nil || !s.Ready {
					return fmt.Errorf("%s: %+v, %w", name, s, err)
				}
			}
			return nil
		})
		return names
	}
	sick := settled("")[0]
	harness.Set(t, e, sick, "status=500")
	left := func(s harness.Status) bool {
		return s.State.Terminated != nil && s.State.Terminated.Reason == "ManagedElsewhere"
	}
	d.Until(sick, "left to Swarm", left)
	settled(sick)
	d.Stays(2*time.Second, sick, "left to Swarm", left)
	if names := running(); len(names) != 2 || slices.Contains(names, sick) {
		t.Errorf("%v run for two tasks, and %s was stopped", names, sick)
	}
	if stops, starts := p.Count("/stop$"), p.Count("/start$"); stops != 1 || starts != 0 {
		t.Errorf("healthd stopped %d times and started %d times, want one stop", stops, starts)
	}
	if out, code := d.Run("restart", sick); code != 1 || !strings.Contains(out, "ask Docker Swarm to replace it") {
		t.Errorf("restart: exit code %d: %s", code, out)
	}
	if out, code := d.Run("explain", sick); code != 0 || !strings.Contains(out, "managed by Docker Swarm: healthd stops it when its probe fails") {
		t.Errorf("explain: exit code %d\n%s", code, out)
	}
}

// joinSwarm makes an engine a node of its own swarm, with names and addresses that no other one has.
func joinSwarm(t *testing.T, e *dockertest.Engine, address string) {
	t.Helper()
	const gateway = "docker_gwbridge" // which Swarm makes on the host otherwise
	_, port, _ := net.SplitHostPort(address)
	bridge := "hdts" + port
	if _, err := e.Client().NetworkCreate(t.Context(), gateway, network.CreateOptions{
		Driver: "bridge", Options: map[string]string{"com.docker.network.bridge.name": bridge},
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = e.Client().SwarmLeave(context.Background(), true)
		if err := enginetest.RemoveBridge(bridge); err != nil {
			t.Error(err)
		}
	})
	if _, err := e.Client().SwarmInit(t.Context(), swarm.InitRequest{ListenAddr: address, AdvertiseAddr: "127.0.0.1"}); err != nil {
		t.Fatal(err)
	}
}
