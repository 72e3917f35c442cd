package fleet

import (
	"os"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"healthd/e2e/patience"
)

// What a host has published under another name ends with the lease of that time: nobody would take it away else.
func TestRenamedHost(t *testing.T) {
	t.Parallel()
	c := sharedCluster(t)
	h2 := newDaemon(t, "h2", c.Endpoints, nil).start()
	h1 := newDaemon(t, "h1", c.Endpoints, short)
	h1.has("a", stateReady)
	h1.start()
	h2.await("h1:a ready")
	h1.end()
	h1.config.Host = "h3"
	h1.restart()
	h2.await("h3:a ready")
	h2.awaitHost("h1", HostLost)
}

func TestSwappedNames(t *testing.T) {
	t.Parallel()
	c := sharedCluster(t)
	h3 := newDaemon(t, "h3", c.Endpoints, nil).start()
	h1, h2 := newDaemon(t, "h1", c.Endpoints, short), newDaemon(t, "h2", c.Endpoints, short)
	h1.has("a", stateReady)
	h2.has("b", stateReady)
	h1.start()
	h2.start()
	h3.await("h1:a ready, h2:b ready")
	h1.end()
	h2.end()
	h1.config.Host, h2.config.Host = "h2", "h1"
	h1.restart()
	h2.restart()
	h3.await("h1:b ready, h2:a ready")
}

// What a host has published below another prefix ends, too, and what it knew of that fleet is not served in this one.
func TestChangedPrefix(t *testing.T) {
	t.Parallel()
	c := sharedCluster(t)
	h2 := newDaemon(t, "h2", c.Endpoints, nil).start()
	h1 := newDaemon(t, "h1", c.Endpoints, short)
	h1.has("a", stateReady)
	h1.start()
	h2.has("b", stateReady)
	h2.await("h1:a ready")
	h1.await("h2:b ready")
	h1.until(func() bool {
		k, err := loadView(h1.fleet.viewFile, h1.config.Prefix)
		return err == nil && k != nil && len(k.Keys) == 2
	}, "h1 to keep what it knows")
	h1.end()
	h1.config.Prefix += "other/"
	h1.restart()
	h1.leaseID()
	if got := h1.shows(); got != "" {
		t.Errorf("in the other fleet h1 shows %q", got)
	}
	h2.await("")
	h2.awaitHost("h1", HostLost)
}

// Somebody has overwritten the host's key. Its members stay under its lease, and what is down is not served as ready.
func TestOverwrittenName(t *testing.T) {
	t.Parallel()
	c := sharedCluster(t)
	h1, h2 := newDaemon(t, "h1", c.Endpoints, nil), newDaemon(t, "h2", c.Endpoints, nil)
	h1.has("a", stateReady)
	id := h1.has("b", stateReady)
	h1.start()
	h2.start()
	h2.await("h1:a ready, h1:b ready")
	client := c.Client(t)
	if _, err := client.Put(t.Context(), h1.fleet.named(), `{"instance":"00112233445566778899aabbccddeeff"}`); err != nil {
		t.Fatal(err)
	}
	h1.awaitEvent(eventError, "another daemon has the host name h1")
	h1.has("a", stateDown)
	h1.board.Remove(id)
	h1.has("c", stateReady)
	h2.await("h1:a down")
	if _, err := client.Delete(t.Context(), h1.fleet.named()); err != nil {
		t.Fatal(err)
	}
	h2.await("h1:a down, h1:c ready")
}

// A host that has lost what it keeps is a new one, and has its name as soon as its old lease has ended.
func TestLostState(t *testing.T) {
	t.Parallel()
	c := sharedCluster(t)
	h1 := newDaemon(t, "h1", c.Endpoints, ttl(4*patience.Limit)) // it does not look again for longer than the test waits
	h2 := newDaemon(t, "h2", c.Endpoints, nil)
	h1.has("a", stateReady)
	h1.start()
	h2.start()
	h2.await("h1:a ready")
	lease := h1.leaseID()
	h1.end()
	h1.config.StateDir = t.TempDir()
	h1.restart()
	h1.awaitEvent(eventError, "another daemon has the host name h1")
	h1.has("b", stateReady)
	if got := h2.shows(); got != "h1:a ready" {
		t.Errorf("while another has the name h2 shows %q", got)
	}
	expire(t, c, lease)
	h2.await("h1:a ready, h1:b ready")
}

// Two daemons of one name that have one state, as of a copied virtual machine: one of them publishes.
func TestCopiedState(t *testing.T) {
	t.Parallel()
	c := sharedCluster(t)
	h1, h2 := newDaemon(t, "h1", c.Endpoints, ttl(20*time.Second)), newDaemon(t, "h2", c.Endpoints, nil)
	h1.has("a", stateReady)
	h1.start()
	h2.start()
	h2.await("h1:a ready")
	lease := h1.leaseID()
	h1.until(func() bool {
		k := &kept{}
		ok, err := h1.fleet.self.file.Read(k)
		return ok && err == nil && k.Lease == int64(lease)
	}, "h1 to keep its lease")
	twin := newDaemon(t, "h1", c.Endpoints, ttl(20*time.Second))
	if err := os.CopyFS(twin.config.StateDir, os.DirFS(h1.config.StateDir)); err != nil {
		t.Fatal(err)
	}
	twin.has("a", stateDown)
	twin.has("b", stateReady)
	twin.start()
	h1.awaitEvent(eventError, "a copy of this host's state")
	h1.awaitEvent(eventError, "another daemon has the host name h1")
	h2.await("h1:a down, h1:b ready")
	writes := func() int64 {
		answer, err := c.Client(t).Get(t.Context(), h1.fleet.base, clientv3.WithPrefix(), clientv3.WithSort(clientv3.SortByModRevision, clientv3.SortDescend), clientv3.WithLimit(1))
		if err != nil {
			t.Fatal(err)
		}
		return answer.Kvs[0].ModRevision
	}
	before := writes()
	for _, d := range []*daemon{h1, twin} {
		d.awaitRenewals(2)
	}
	if got := writes(); got != before || h2.shows() != "h1:a down, h1:b ready" {
		t.Errorf("they have written up to revision %d since %d; h2 shows %q", got, before, h2.shows())
	}
	twin.end()
	expire(t, c, twin.leaseID())
	h2.await("h1:a ready")
	h1.restart() // it keeps who it is
	h1.awaitRenewals(3)
	if got := h2.shows(); got != "h1:a ready" {
		t.Errorf("h2 shows %q", got)
	}
}

// A copied virtual machine that gets a name of its own takes nothing from the one that it is a copy of.
func TestCopyWithAnotherName(t *testing.T) {
	t.Parallel()
	c := sharedCluster(t)
	boot := func(boot string) func(*Config) { return func(c *Config) { c.Boot, c.TTL = boot, 20*time.Second } }
	h1, h2 := newDaemon(t, "h1", c.Endpoints, boot("one")), newDaemon(t, "h2", c.Endpoints, nil)
	h1.has("a", stateReady)
	h1.start()
	h2.start()
	h2.await("h1:a ready")
	lease := h1.leaseID()
	h1.until(func() bool {
		k := &kept{}
		ok, err := h1.fleet.self.file.Read(k)
		return ok && err == nil && k.Lease == int64(lease)
	}, "h1 to keep its lease")
	h3 := newDaemon(t, "h3", c.Endpoints, boot("two"))
	if err := os.CopyFS(h3.config.StateDir, os.DirFS(h1.config.StateDir)); err != nil {
		t.Fatal(err)
	}
	h3.has("b", stateReady)
	h3.start()
	h2.await("h1:a ready, h3:b ready")
	h1.awaitRenewals(3)
	if got := h2.lost(); len(got) > 0 || h1.leaseID() != lease {
		t.Errorf("h2 has lost %v; the lease is %x, not %x", got, h1.leaseID(), lease)
	}
}
