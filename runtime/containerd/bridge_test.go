package containerd_test

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"healthd/runtime"
	"healthd/runtime/containerd/containerdtest"
	"healthd/runtime/enginetest/scenarios"
)

// nerdctl gives each run of a container on its bridge another address.
func TestAddressOnABridge(t *testing.T) {
	e, private := engine(t)
	l := scenarios.Watch(t, e)
	n := l.WaitFor(t, 0, "synced start")
	id := private.Run(t, containerdtest.RunOptions{Name: "bridged", Network: containerdtest.Bridge, Labels: scenarios.Watched(t, nil)})
	sharing := private.Run(t, containerdtest.RunOptions{Name: "bridged-too", Network: "container:" + id, Cmd: deafSleep})
	n = l.WaitFor(t, n, "observed bridged running")
	before := inspect(t, e, id)
	if other := inspect(t, e, sharing); before.Network != "bridge" || other.Address != before.Address || other.NetworkOwner != id {
		t.Errorf("got %+v, and %+v, which shares its network", before, other)
	}
	waitForAnswer(t, before)
	if err := e.Stop(t.Context(), id, time.Minute); err != nil {
		t.Fatal(err)
	}
	if c := inspect(t, e, id); c.State != runtime.Exited || c.Address != "" {
		t.Errorf("got %+v", c)
	}
	if err := e.Start(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	after := inspect(t, e, id)
	if after.Run() == before.Run() || after.Address == "" || after.Address == before.Address {
		t.Errorf("got %+v, before that %+v", after, before)
	}
	waitForAnswer(t, after)
	l.WaitFor(t, n, "died bridged 0", "observed bridged running")
	if told := l.Newest(id); told == nil || told.Run() != after.Run() || told.Address != after.Address {
		t.Errorf("the watcher sent %+v, want %+v", told, after)
	}
	scenarios.ListMatches(t, e, map[string]*runtime.Container{"bridged": after})
}

// Other hosts are told where nerdctl publishes ports. A label does not say so: images have labels, too.
func TestPublishedPorts(t *testing.T) {
	const mapping = `[{"HostPort":8080,"ContainerPort":80,"Protocol":"tcp","HostIP":"0.0.0.0"},{"HostPort":53,"ContainerPort":53,"Protocol":"udp","HostIP":"0.0.0.0"}]`
	e, private := engine(t)
	run := func(o containerdtest.RunOptions) *runtime.Container {
		t.Helper()
		o.Cmd = deafSleep
		return inspect(t, e, private.Run(t, o))
	}
	id := private.Run(t, containerdtest.RunOptions{Name: "published", Network: containerdtest.Bridge, Cmd: deafSleep})
	private.PublishPorts(t, id, mapping)
	all := map[string]*runtime.Container{
		"published": inspect(t, e, id),
		"sharing":   run(containerdtest.RunOptions{Name: "sharing", Network: "container:" + id}),
		"labelled":  run(containerdtest.RunOptions{Name: "labelled", Network: containerdtest.Bridge, Labels: map[string]string{"nerdctl/ports": mapping}}),
		"on-host":   run(containerdtest.RunOptions{Name: "on-host", Network: "host"}),
	}
	want := map[string]string{"published": "[{80 0.0.0.0 8080}] false", "sharing": "[{80 0.0.0.0 8080}] false", "labelled": "[] false", "on-host": "[] true"}
	for name, c := range all {
		if got := fmt.Sprint(c.HostPorts, " ", c.HostNetwork); got != want[name] {
			t.Errorf("%s: got %s, want %s", name, got, want[name])
		}
	}
	scenarios.ListMatches(t, e, all)
	private.PublishPorts(t, id, "[]")
	list, err := e.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range list {
		if c := all[s.Name]; c != nil && s.ID == c.ID && s.Matches(c) != (len(c.HostPorts) == 0) {
			t.Errorf("%s: a list without its ports shows it as before: %v", s.Name, s.Matches(c))
		}
	}
	if err := e.Stop(t.Context(), id, 0); err != nil {
		t.Fatal(err)
	}
	private.PublishPorts(t, id, mapping)
	if c := inspect(t, e, id); len(c.HostPorts) > 0 {
		t.Errorf("while it does not run it has %v", c.HostPorts)
	}
}

// waitForAnswer asks the container's server from the host.
func waitForAnswer(t *testing.T, c *runtime.Container) {
	t.Helper()
	asking := http.Client{Timeout: time.Second} // waits: it asks again
	scenarios.Eventually(t, "its server answers at "+c.Address, func() bool {
		response, err := asking.Get("http://" + net.JoinHostPort(c.Address, "8080") + "/healthz")
		if err != nil {
			return false
		}
		_ = response.Body.Close()
		return response.StatusCode == http.StatusOK
	})
}

// A start whose network cannot be made leaves nothing that the next one stumbles over.
func TestStartWithoutAFreeAddress(t *testing.T) {
	e, private := engine(t)
	id := private.Create(t, containerdtest.RunOptions{Name: "homeless", Network: containerdtest.Bridge})
	release := private.TakeAddresses(t)
	defer release()
	if err := e.Start(t.Context(), id); err == nil || !strings.Contains(err.Error(), "no address is free") {
		t.Errorf("got %v", err)
	}
	if c := inspect(t, e, id); c.State != runtime.Created || c.Address != "" {
		t.Errorf("got %+v", c)
	}
	release()
	if err := e.Start(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	waitForAnswer(t, inspect(t, e, id))
}
