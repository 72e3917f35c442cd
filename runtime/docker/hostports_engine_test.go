package docker_test

import (
	"healthd/e2e/ports"

	"fmt"
	"slices"
	"testing"

	"healthd/runtime"
	"healthd/runtime/docker"
	"healthd/runtime/docker/dockertest"
	"healthd/runtime/enginetest/scenarios"
)

var sleeping = []string{"sleep", "1h"}

// What other hosts are told of a container is where the engine publishes its ports, as an inspection and a list show it.
func TestPublishedPorts(t *testing.T) {
	e, private := engine(t)
	fixed := ports.Free(t)
	options := map[string]dockertest.RunOptions{
		"published":           {Publish: fmt.Sprintf("%d:80 %[1]d:53/udp", fixed)},
		"published-loopback":  {Publish: "127.0.0.1::80 127.0.0.1::81"},
		"published-not":       {},
		"published-host":      {Network: "host"},
		"published-nowhere":   {Network: "none", Publish: "80"},
		"published-by-nobody": {Publish: "53/udp"},
	}
	got := map[string]*runtime.Container{}
	for name, o := range options {
		o.Name, o.Cmd = name, sleeping
		got[name] = inspectPorts(t, e, private.Run(t, o))
	}
	sharing := private.Run(t, dockertest.RunOptions{Name: "published-sharing", Network: "container:" + got["published"].ID, Cmd: sleeping})
	got["published-sharing"] = inspectPorts(t, e, sharing)
	hostSharing := private.Run(t, dockertest.RunOptions{Name: "published-host-sharing", Network: "container:" + got["published-host"].ID, Cmd: sleeping})
	got["published-host-sharing"] = inspectPorts(t, e, hostSharing)
	scenarios.ListMatches(t, e, got)

	everywhere := func(c *runtime.Container) bool {
		v4 := slices.Contains(c.HostPorts, runtime.HostPortsOf(80, "0.0.0.0", fixed)[0])
		return v4 && !slices.ContainsFunc(c.HostPorts, func(p runtime.HostPort) bool {
			return p.Port != 80 || p.HostPort != fixed || !p.IP.IsUnspecified()
		})
	}
	if !everywhere(got["published"]) || !slices.Equal(got["published"].HostPorts, got["published-sharing"].HostPorts) {
		t.Errorf("got %v, and %v of one in its network", got["published"].HostPorts, got["published-sharing"].HostPorts)
	}
	random := got["published-loopback"].HostPorts
	if len(random) != 2 || random[0].Port != 80 || random[1].Port != 81 || random[0].HostPort == random[1].HostPort || !random[0].IP.IsLoopback() || !random[1].IP.IsLoopback() {
		t.Errorf("got %v at 127.0.0.1", random)
	}
	for _, name := range []string{"published-not", "published-host", "published-host-sharing", "published-nowhere", "published-by-nobody"} {
		if c := got[name]; len(c.HostPorts) > 0 {
			t.Errorf("%s has %v", name, c.HostPorts)
		}
	}
	for name, c := range got {
		if want := name == "published-host" || name == "published-host-sharing"; c.HostNetwork != want {
			t.Errorf("%s has the host's network: %v", name, c.HostNetwork)
		}
	}
}

// Docker chooses ports afresh for each run: the next one is known with the run, and none while the container does not run.
func TestPublishedPortsChange(t *testing.T) {
	dockertest.PodmanCannot(t, "it chooses ports when it makes a container, and cannot start one whose port is taken")
	e, private := engine(t)
	l := scenarios.Watch(t, e)
	l.WaitFor(t, 0, "synced start")
	id := private.Run(t, dockertest.RunOptions{
		Name: "republished", Labels: scenarios.Watched(t, nil), Cmd: sleeping, Publish: "127.0.0.1::80",
	})
	l.WaitFor(t, 0, "observed republished running")
	before := l.Newest(id)
	must(t, e.Stop(t.Context(), id, 0))
	l.WaitFor(t, 0, "observed republished exited 137")
	if c := l.Newest(id); len(c.HostPorts) > 0 {
		t.Errorf("while it is %s it has %v", c.State, c.HostPorts)
	}
	// Docker would take the same port again; another container has it now.
	if len(before.HostPorts) != 1 {
		t.Fatalf("got %v", before.HostPorts)
	}
	taken := before.HostPorts[0].HostPort
	private.Run(t, dockertest.RunOptions{Name: "republished-thief", Cmd: sleeping, Publish: fmt.Sprintf("127.0.0.1:%d:80", taken)})
	must(t, e.Start(t.Context(), id))
	scenarios.Eventually(t, "the new port is observed", func() bool {
		c := l.Newest(id)
		return c.Run() != before.Run() && len(c.HostPorts) == 1
	})
	after := l.Newest(id)
	if p := after.HostPorts[0]; p.Port != 80 || p.HostPort == taken || p.HostPort == 0 {
		t.Errorf("got %v, before that %v", after.HostPorts, before.HostPorts)
	}
	scenarios.ListMatches(t, e, map[string]*runtime.Container{"republished": after})
}

func inspectPorts(t *testing.T, e *docker.Engine, id string) *runtime.Container {
	t.Helper()
	c, err := e.Inspect(t.Context(), id)
	must(t, err)
	return c
}
