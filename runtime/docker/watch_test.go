package docker_test

import (
	"syscall"
	"testing"

	"healthd/runtime"
	"healthd/runtime/docker/dockertest"
	"healthd/runtime/enginetest/scenarios"
)

// watch records what a Watcher sends of all containers.
func watch(t *testing.T, private *dockertest.Engine) *scenarios.Log {
	t.Helper()
	return scenarios.Record(t, &runtime.Watcher{Name: engineName(), Source: connect(t, private)})
}

// A label cannot hide an operator's stop: Docker writes labels over the attributes of its events.
func TestLabelsThatForgeSignals(t *testing.T) {
	dockertest.PodmanCannot(t, "its events tell no signals")
	_, private := engine(t)
	labels := scenarios.Watched(t, map[string]string{"signal": "28", "exitCode": "0", "name": "other", "image": "other"})
	before := private.Run(t, dockertest.RunOptions{Name: "forged-before", Labels: labels})
	l := watch(t, private)
	n := l.WaitFor(t, 0, "observed forged-before running")
	after := private.Run(t, dockertest.RunOptions{Name: "forged-after", Labels: labels})
	n = l.WaitFor(t, n, "observed forged-after running")
	for name, id := range map[string]string{"forged-before": before, "forged-after": after} {
		private.KillByOperator(t, id, syscall.SIGKILL)
		l.WaitFor(t, l.WaitFor(t, n, "killed "+name+" -1"), "observed "+name+" exited 137")
	}
}

// docker network connect: neither containerd nor nerdctl gives a container that runs another
// network.
func TestWatchAddressChanges(t *testing.T) {
	dockertest.PodmanCannot(t, "it connects no container that was made without a network")
	e, private := engine(t)
	private.Network(t, "watched-net")
	private.Network(t, "a-first-net")
	l := scenarios.Watch(t, e)
	l.WaitFor(t, 0, "synced start")
	id := private.Run(t, dockertest.RunOptions{Name: "connected", Network: "none", Labels: scenarios.Watched(t, nil)})
	n := l.WaitFor(t, 0, "observed connected running")
	must(t, private.Client().NetworkDisconnect(t.Context(), "none", id, true))
	must(t, private.Client().NetworkConnect(t.Context(), "watched-net", id, nil))
	l.WaitFor(t, n, "observed connected running")
	scenarios.Eventually(t, "the new address is observed", func() bool {
		c := l.Newest(id)
		return c.Network == "watched-net" && c.Address != ""
	})
	was := l.Newest(id).Address
	must(t, private.Client().NetworkConnect(t.Context(), "a-first-net", id, nil))
	scenarios.Eventually(t, "it keeps its address in another network that sorts first", func() bool {
		c := l.Newest(id)
		return len(c.Networks) == 2 && c.Network == "watched-net" && c.Address == was
	})
	must(t, private.Client().NetworkDisconnect(t.Context(), "watched-net", id, true))
	scenarios.Eventually(t, "it has another address when it has lost that", func() bool {
		c := l.Newest(id)
		return c.Network == "a-first-net" && c.Address != "" && c.Address != was
	})
}
