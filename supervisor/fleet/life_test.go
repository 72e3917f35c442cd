package fleet

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"healthd/e2e/patience"
	"healthd/runtime"
	"healthd/supervisor"
	"healthd/supervisor/fleet/etcdtest"
)

func TestMembersOfAnotherHost(t *testing.T) {
	t.Parallel()
	c := spineCluster(t)
	h1 := newDaemon(t, "h1", c.Endpoints, func(c *Config) { c.Leave = true })
	h1.has("a", stateReady)
	h1.has("b", stateDown)
	h1.start()
	h2 := newDaemon(t, "h2", c.Endpoints, short).start()
	h2.await("h1:a ready, h1:b down")
	if !h2.board.Complete() {
		t.Error("the board is not complete")
	}
	m, err := h2.board.FindMember("web/h1:a")
	if err != nil || m.Address != "10.0.0.1" || m.Port != 80 || m.ID != "h1/"+fmt.Sprintf("%064x", "a") || m.Run.Started != 1 || m.Group != "web" {
		t.Errorf("h1:a is %+v, %v", m, err)
	}
	id := h1.has("b", stateReady)
	h2.await("h1:a ready, h1:b ready")
	h1.has("a", stateDraining)
	h2.await("h1:a draining, h1:b ready")
	h1.board.Remove(id)
	h2.await("h1:a draining")
	if s := h2.fleet.Status(); !s.Connected || s.Error != "" || len(s.Hosts) != 1 || s.Hosts[0].Address != "10.0.0.9" || s.Hosts[0].Version != "1.2.3" || !s.Hosts[0].RuntimesUp {
		t.Errorf("the status is %+v", s)
	}
	h1.end() // it leaves
	h2.await("")
	h2.awaitHost("h1", HostLeft)
	if h2.happened(eventHostLost, "") {
		t.Error("it is told as lost")
	}
}

// A daemon that is back within the TTL leaves no gap, and cleans up what it does not have any more.
func TestKilledDaemon(t *testing.T) {
	t.Parallel()
	c := sharedCluster(t)
	h1 := newDaemon(t, "h1", c.Endpoints, ttl(15*time.Second))
	h1.has("a", stateReady)
	id := h1.has("b", stateReady)
	h1.start()
	h2 := newDaemon(t, "h2", c.Endpoints, short).start()
	h2.await("h1:a ready, h1:b ready")
	lease := h1.leaseID()
	h1.end()
	h1.board.Remove(id)
	h1.restart()
	h2.await("h1:a ready")
	h1.awaitRenewals(3) // its lease would have ended
	if got := h2.lost(); !slices.Equal(got, []string{"h1:b"}) || h1.leaseID() != lease {
		t.Errorf("gone are %v, the lease is %x, want b alone, and %x", got, h1.leaseID(), lease)
	}
	h1.end()
	h2.awaitEvent(eventHostLost, "h1")
	h2.await("")
	h1.restart()
	h2.await("h1:a ready")
	h2.awaitEvent(eventHostBack, "h1")
}

func (d *daemon) leaseID() clientv3.LeaseID {
	var id clientv3.LeaseID
	d.until(func() bool {
		h, _ := d.fleet.lease.now()
		id = h.id
		return h.claimed
	}, "a lease")
	return id
}

// A host that is back within the TTL after a reboot has none of its containers, whatever its engine does: they go when its daemon is
// there, and not when their lease ends.
func TestRebootedHost(t *testing.T) {
	t.Parallel()
	c := sharedCluster(t)
	h1 := newDaemon(t, "h1", c.Endpoints, func(c *Config) { c.Boot, c.TTL = "one", time.Minute })
	h1.has("a", stateReady)
	h1.start()
	h2 := newDaemon(t, "h2", c.Endpoints, short).start()
	h2.await("h1:a ready")
	away := func() *supervisor.Board {
		return supervisor.NewBoard([]supervisor.RuntimeView{{Name: "docker"}})
	}
	lease := h1.leaseID()
	h1.end()
	h1.board = away()
	h1.start()
	if got := h1.leaseID(); got != lease {
		t.Errorf("in the same boot the lease is %x, want %x", got, lease)
	}
	if got := h2.shows(); got != "h1:a ready" {
		t.Errorf("h2 shows %q: healthd was restarted only", got)
	}
	h1.end()
	h1.config.Boot, h1.board = "two", away()
	h1.start()
	h2.await("")
	h1.has("a", stateReady)
	h2.await("h1:a ready")
}

func TestTwoDaemonsOfOneName(t *testing.T) {
	t.Parallel()
	c := sharedCluster(t)
	h1 := newDaemon(t, "h1", c.Endpoints, nil)
	h1.has("a", stateReady)
	h1.start()
	h2 := newDaemon(t, "h2", c.Endpoints, short).start()
	h2.await("h1:a ready")
	lease := h1.leaseID()
	twin := newDaemon(t, "h1", c.Endpoints, ttl(4*patience.Limit)) // it does not look again for longer than the test waits
	twin.has("b", stateReady)
	twin.start()
	twin.awaitEvent(eventError, "another daemon has the host name h1")
	if s := twin.fleet.Status(); !strings.Contains(s.Error, "another daemon") || s.Published != 1 {
		t.Errorf("the status is %+v", s)
	}
	if got := h2.shows(); got != "h1:a ready" {
		t.Errorf("h2 shows %q", got)
	}
	h1.end()
	expire(t, c, lease)
	h2.await("h1:b ready")
	twin.awaitEvent(eventBack, "name")
}

func TestForeignKeysInTheStore(t *testing.T) {
	t.Parallel()
	c := sharedCluster(t)
	client := c.Client(t)
	h2 := newDaemon(t, "h2", c.Endpoints, nil)
	base := h2.config.Prefix + layout
	foreign := map[string]string{
		"x": "y", "hosts/h 9": "{}", "hosts/h8": "{}", "members/web/h1/\n": "{}", "members/web/h1/b": "null",
		"members/web/h1/c": strings.Repeat("x", 1<<20), "members/web/h1/d": strings.Repeat("{", 1<<20), "members/web/h2/e": strings.Repeat("[", 1<<20),
	}
	for name, value := range foreign {
		if _, err := client.Put(t.Context(), base+name, value); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := client.Put(t.Context(), h2.config.Prefix+"v10", "not below"); err != nil {
		t.Fatal(err)
	}
	h1 := newDaemon(t, "h1", c.Endpoints, nil)
	h1.has("a", stateReady)
	h1.start()
	h2.start()
	h2.await("h1:a ready")
	h2.awaitEvent(eventError, "left alone")
	// Those that look like its host's own are left alone, too.
	h2.until(func() bool { return len(h2.fleet.Status().WrongKeys) == len(foreign) && h2.fleet.Status().Connected }, "the wrong keys, not %q; own are %v", func() string { return fmt.Sprintf("%q", h2.fleet.Status().WrongKeys) }, func() string { return fmt.Sprint(h2.fleet.own.keys) })
	if got := keys(t, client, base); len(got) != len(foreign)+3 {
		t.Errorf("the store has %q", got)
	}
	for i := range 3 { // more than a watch's answer should have
		if _, err := client.Put(t.Context(), base+fmt.Sprintf("big%d", i), strings.Repeat("x", 1<<20)); err != nil {
			t.Fatal(err)
		}
	}
	h1.has("a", stateDraining)
	h2.await("h1:a draining")
	if got := keys(t, client, base); len(got) != len(foreign)+3+3 {
		t.Errorf("the store has %q", got)
	}
	if h2.happened(eventLost, "") {
		t.Error("the watch was lost")
	}
}

// Others in this package hear of all keys, first of those that are there.
func TestSubscribers(t *testing.T) {
	t.Parallel()
	c := sharedCluster(t)
	client := c.Client(t)
	h1 := newDaemon(t, "h1", c.Endpoints, nil)
	var heard []string
	h1.begin = func(f *Fleet) {
		f.subscribe(func(records []record, list bool) {
			h1.mu.Lock()
			defer h1.mu.Unlock()
			for _, r := range records {
				if k, err := parseKey(r.name); err == nil && (k.kind == placeKey || k.kind == holdKey) {
					heard = append(heard, fmt.Sprintf("%s %q list:%t deleted:%t", r.name, r.value, list, r.deleted))
				}
			}
		})
	}
	hears := func(want string) {
		t.Helper()
		h1.until(func() bool {
			h1.mu.Lock()
			defer h1.mu.Unlock()
			return len(heard) > 0 && heard[len(heard)-1] == want
		}, want)
	}
	base := h1.config.Prefix + layout
	if _, err := client.Put(t.Context(), base+"places/web/0", "x"); err != nil {
		t.Fatal(err)
	}
	h1.start()
	hears(`places/web/0 "x" list:true deleted:false`)
	if _, err := client.Put(t.Context(), base+"holds/web", "y"); err != nil {
		t.Fatal(err)
	}
	hears(`holds/web "y" list:false deleted:false`)
	if _, err := client.Delete(t.Context(), base+"places/web/0"); err != nil {
		t.Fatal(err)
	}
	hears(`places/web/0 "" list:false deleted:true`)
}

// A host whose lease has ended while it could not be reached comes back by itself.
func TestLostLease(t *testing.T) {
	t.Parallel()
	c := sharedCluster(t)
	way := etcdtest.NewProxy(t, c.Endpoints[0])
	h1 := newDaemon(t, "h1", []string{way.Endpoint}, short)
	h1.has("a", stateReady)
	h1.start()
	h2 := newDaemon(t, "h2", c.Endpoints, ttl(15*time.Second))
	h2.has("z", stateReady)
	h2.start()
	h2.await("h1:a ready")
	h1.await("h2:z ready")
	lease := h1.leaseID()
	way.Cut()
	h2.await("")
	h1.awaitEvent(eventLost, "cannot reach etcd")
	h1.has("a", stateDraining)
	way.Mend()
	h2.await("h1:a draining")
	h1.awaitEvent(eventBack, "")
	if h1.leaseID() == lease {
		t.Error("it has the old lease")
	}
	if got := h1.lost(); len(got) != 0 {
		t.Errorf("h1 has lost %v while it could not reach anybody", got)
	}
}

// What was compacted during a break is listed.
func TestCompaction(t *testing.T) {
	t.Parallel()
	c := sharedCluster(t)
	client := c.Client(t)
	way := etcdtest.NewProxy(t, c.Endpoints[1])
	h1 := newDaemon(t, "h1", c.Endpoints, nil)
	h1.has("a", stateReady)
	h1.start()
	h2 := newDaemon(t, "h2", []string{way.Endpoint}, nil).start()
	h2.await("h1:a ready")
	way.Cut()
	for range 3 {
		if _, err := client.Put(t.Context(), h1.config.Prefix+"x", ""); err != nil {
			t.Fatal(err)
		}
	}
	h1.has("a", stateDraining)
	h1.has("b", stateReady)
	h1.until(func() bool { return h1.fleet.Status().Published == 2 }, "two members")
	answer, err := client.Get(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Compact(t.Context(), answer.Header.Revision); err != nil {
		t.Fatal(err)
	}
	way.Mend()
	h2.await("h1:a draining, h1:b ready")
	if got := h2.lost(); len(got) != 0 {
		t.Errorf("gone are %v", got)
	}
}

// A host that joins a fleet while etcd is away waits for nobody to serve its own containers. Nor does its next daemon.
// One that may have served others' and has lost its state waits.
func TestFirstStartWithoutStore(t *testing.T) {
	t.Parallel()
	c := sharedCluster(t)
	way := etcdtest.NewProxy(t, c.Endpoints[2])
	way.Cut()
	h1 := newDaemon(t, "h1", c.Endpoints, nil)
	h1.has("a", stateReady)
	h1.start()
	h2 := newDaemon(t, "h2", []string{way.Endpoint}, func(c *Config) { c.Earlier = true }).start()
	for range 2 {
		h2.until(h2.board.Complete, "the board to be complete")
		h2.restart()
	}
	lost := newDaemon(t, "h3", []string{way.Endpoint}, nil).start()
	lost.awaitEvent(eventLost, "etcd")
	if lost.board.Complete() {
		t.Error("it does not wait for what it may have served")
	}
	way.Mend()
	lost.await("h1:a ready")
	h2.await("h1:a ready")
	h2.end()
	if err := os.Remove(h2.fleet.viewFile.Path); err != nil {
		t.Fatal(err)
	}
	way.Cut()
	h2.restart()
	h2.until(func() bool { return h2.fleet.Status().Error != "" }, "the loss of etcd")
	if h2.board.Complete() {
		t.Error("it does not wait for what it has served")
	}
}

// The stop of a container waits for the load balancers of all hosts.
func TestDrainOverHosts(t *testing.T) {
	t.Parallel()
	c := spineCluster(t)
	client := c.Client(t)
	h1 := newDaemon(t, "h1", c.Endpoints, func(c *Config) { c.Balancer = true }).start()
	h2 := newDaemon(t, "h2", c.Endpoints, func(c *Config) { c.Balancer = true }).start()
	for _, d := range []*daemon{h1, h2} {
		d.fleet.SetFiles(true)
	}
	h1.until(func() bool {
		return slices.ContainsFunc(h1.fleet.Status().Hosts, func(h Host) bool { return h.Name == "h2" && h.Files && h.Balancer })
	}, "h1 to know what h2 does")
	id := h1.has("a", stateDraining)
	h2.await("h1:a draining")
	local, remote := runtime.Run{ID: id, Started: 1}, runtime.Run{ID: "h1/" + id, Started: 1}
	ctx := context.Background()
	_ = h1.fleet.NotServed(ctx, local)
	_ = h1.fleet.Withdrawn(ctx, local)
	_ = h2.fleet.Withdrawn(ctx, remote)
	h1.until(func() bool { return slices.Equal(h1.heard(), []string{"withdrawn " + id}) }, "the withdrawal")
	_ = h2.fleet.Drained(ctx, remote)
	h1.until(func() bool { return slices.Equal(h1.heard(), []string{"drained " + id, "withdrawn " + id}) }, "the drain")
	words := h1.config.Prefix + layout + "words/"
	if got := keys(t, client, words); !slices.Equal(got, []string{"h1/a/h2"}) {
		t.Errorf("the words are %q", got)
	}
	h1.board.Remove(id)
	h2.until(func() bool { return len(keys(t, client, words)) == 0 }, "the end of the words")
}

// A daemon that is started while etcd is away serves what was known last.
func TestStartWithoutStore(t *testing.T) {
	t.Parallel()
	c := sharedCluster(t)
	way := etcdtest.NewProxy(t, c.Endpoints[2])
	h1 := newDaemon(t, "h1", c.Endpoints, nil)
	h1.has("a", stateReady)
	h1.start()
	h2 := newDaemon(t, "h2", []string{way.Endpoint}, nil).start()
	h2.await("h1:a ready")
	h2.end()
	way.Cut()
	h2.restart()
	h2.await("h1:a ready")
	if !h2.board.Complete() || h2.fleet.Status().Connected {
		t.Errorf("complete is %t, the status %+v", h2.board.Complete(), h2.fleet.Status())
	}
	h2.awaitEvent(eventLost, "goes on being served")
	h1.end()
	h1.has("b", stateReady)
	h1.restart()
	way.Mend()
	h2.await("h1:a ready, h1:b ready")
}
