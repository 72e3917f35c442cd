package docker_test

import (
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

// docker network connect: neither containerd nor nerdctl gives a container that runs another
// network.
func TestWatchAddressChanges(t *testing.T) {
	dockertest.PodmanCannot(t, "it connects no container that was made without a network")
	e, private := engine(t)
	private.Network(t, "watched-net")
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
}
