package fleet

import (
	"context"
	"crypto/x509"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	clientv3 "go.etcd.io/etcd/client/v3"

	"healthd/e2e/patience"
	"healthd/supervisor/fleet/etcdtest"
)

// Members of etcd hang, die and come back. No lease ends, and nobody is taken away.
func TestMembersOfEtcdFail(t *testing.T) {
	t.Parallel()
	c := newCluster(t, etcdtest.Options{})
	h1 := newDaemon(t, "h1", c.Endpoints, ttl(15*time.Second))
	h1.has("a", stateReady)
	h1.start()
	h2 := newDaemon(t, "h2", c.Endpoints, ttl(15*time.Second))
	h2.has("z", stateReady)
	h2.start()
	h2.await("h1:a ready")
	h1.await("h2:z ready")
	lease := h1.leaseID()

	leader := c.Leader(t)
	hung := (leader + 1) % 3
	c.Stop(t, hung)
	h1.awaitRenewals(3)
	h1.has("a", stateDraining)
	h2.await("h1:a draining")
	c.Cont(t, hung)

	c.Kill(t, leader)
	h1.has("a", stateReady)
	h2.await("h1:a ready")
	h1.awaitRenewals(3)
	if h1.leaseID() != lease || len(h1.lost())+len(h2.lost()) > 0 {
		t.Errorf("after a hung member and a dead leader the lease is %x, not %x; gone are %v and %v", h1.leaseID(), lease, h1.lost(), h2.lost())
	}

	c.Kill(t, hung) // no majority is left
	h2.awaitEvent(eventLost, "")
	h1.has("a", stateDraining)
	time.Sleep(h1.config.TTL + 2*time.Second) // they would go
	if got := h2.shows(); got != "h1:a ready" {
		t.Errorf("without a majority h2 shows %q", got)
	}
	c.Start(t, hung)
	h2.await("h1:a draining")
	h2.awaitEvent(eventBack, "")
	if len(h1.lost())+len(h2.lost()) > 0 {
		t.Errorf("gone are %v and %v", h1.lost(), h2.lost())
	}
}

// A store of one member stands still for about as long as the TTL, or for longer, as a virtual machine does of which somebody takes a
// snapshot. When it goes on it ends all leases, and nobody has renewed one: no host is gone for that.
func TestStoreStandsStill(t *testing.T) {
	t.Parallel()
	c := newCluster(t, etcdtest.Options{Members: 1})
	h1, h2 := newDaemon(t, "h1", c.Endpoints, ttl(5*time.Second)), newDaemon(t, "h2", c.Endpoints, ttl(5*time.Second))
	h1.has("a", stateReady)
	h1.start()
	h2.start()
	h2.await("h1:a ready")
	for _, still := range []time.Duration{3700 * time.Millisecond, 4 * time.Second, 4200 * time.Millisecond, 6 * time.Second, 8 * time.Second} {
		lease := h1.leaseID()
		c.Stop(t, 0)
		time.Sleep(still)
		c.Cont(t, 0)
		time.Sleep(6 * time.Second)
		if got := h2.lost(); len(got) > 0 || h2.shows() != "h1:a ready" {
			t.Fatalf("after %v h2 shows %q, and had lost %v; the lease is another one: %t", still, h2.shows(), got, h1.leaseID() != lease)
		}
	}
	h1.end()
	h2.await("")
}

// A store that was restored from an older snapshot gets all again, and nobody is taken away.
func TestRestoredStore(t *testing.T) {
	t.Parallel()
	c := newCluster(t, etcdtest.Options{Members: 1})
	client := c.Client(t)
	h1 := newDaemon(t, "h1", c.Endpoints, ttl(15*time.Second))
	h1.has("a", stateDown)
	h1.start()
	h2 := newDaemon(t, "h2", c.Endpoints, ttl(15*time.Second)).start()
	h2.await("h1:a down")
	snapshot := c.Snapshot(t)
	for range 200 {
		if _, err := client.Put(t.Context(), "other", ""); err != nil {
			t.Fatal(err)
		}
	}
	h1.has("a", stateReady)
	h1.has("b", stateReady)
	h2.await("h1:a ready, h1:b ready")
	c.Restore(t, snapshot)
	h2.awaitEvent(eventError, "older state")
	h1.has("c", stateReady)
	h2.await("h1:a ready, h1:b ready, h1:c ready")
	time.Sleep(2*h1.config.TTL + time.Second) // what is absent would go
	if got := h2.shows(); got != "h1:a ready, h1:b ready, h1:c ready" || len(h2.lost()) > 0 {
		t.Errorf("h2 shows %q, gone are %v", got, h2.lost())
	}
	if got := keys(t, client, h1.config.Prefix+layout); !slices.Equal(got, []string{"hosts/h1", "hosts/h2", "members/web/h1/a", "members/web/h1/b", "members/web/h1/c"}) {
		t.Errorf("the store has %q", got)
	}
}

// etcd names whoever may not do something. Rights that are given later are enough. Tokens end soon here.
func TestRights(t *testing.T) {
	t.Parallel()
	c := newCluster(t, etcdtest.Options{Members: 1, Flags: []string{"--auth-token-ttl", "3"}})
	root := c.Client(t)
	password := t.TempDir() + "/password"
	if err := os.WriteFile(password, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	login := func(c *Config) { c.User, c.PasswordFile, c.TTL = "healthd", password, 3*time.Second } // what is refused is tried each third of that
	h1 := newDaemon(t, "h1", c.Endpoints, login)
	h1.has("a", stateReady)
	ctx := t.Context()
	do := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	do(root.UserAdd(ctx, "root", "root"))
	do(root.RoleAdd(ctx, "root"))
	do(root.UserGrantRole(ctx, "root", "root"))
	do(root.UserAdd(ctx, "healthd", "secret"))
	do(root.RoleAdd(ctx, "healthd"))
	do(root.UserGrantRole(ctx, "healthd", "healthd"))
	do(root.AuthEnable(ctx))
	h1.start()
	h1.awaitEvent(eventLost, "etcd refuses to show the fleet")
	h1.awaitEvent(eventError, "permission denied")
	boss, err := clientv3.New(clientv3.Config{Endpoints: c.Endpoints, Username: "root", Password: "root", DialTimeout: patience.Limit})
	do(nil, err)
	defer func() { boss.Close() }()
	prefix := h1.config.Prefix
	do(boss.RoleGrantPermission(ctx, "healthd", prefix, clientv3.GetPrefixRangeEnd(prefix), clientv3.PermissionType(clientv3.PermReadWrite)))
	h1.awaitEvent(eventBack, "store")
	h1.until(func() bool { s := h1.fleet.Status(); return s.Published == 1 && s.Error == "" }, "its member")
	h2 := newDaemon(t, "h2", c.Endpoints, login).start()
	h2.await("h1:a ready")
	time.Sleep(4 * time.Second) // the tokens have ended
	h1.has("a", stateDraining)
	h2.await("h1:a draining")
	boss.Close() // its token has ended, too
	boss, err = clientv3.New(clientv3.Config{Endpoints: c.Endpoints, Username: "root", Password: "root", DialTimeout: patience.Limit})
	do(nil, err)
	do(boss.UserChangePassword(ctx, "healthd", "changed"))
	do(nil, os.WriteFile(password, []byte("changed\n"), 0o600))
	h1.has("a", stateReady)
	h2.await("h1:a ready")
}

func TestExpiredCertificate(t *testing.T) {
	t.Parallel()
	authority := etcdtest.NewTLS(t)
	c := newCluster(t, etcdtest.Options{Members: 1, TLS: authority})
	cert, key := authority.Sign(t, "h1", time.Now().Add(-time.Hour))
	h1 := newDaemon(t, "h1", c.Endpoints, func(c *Config) { c.CAFile, c.CertFile, c.KeyFile = authority.CA, cert, key })
	h1.has("a", stateReady)
	h1.start()
	h1.awaitEvent(eventLost, "certificate")
	h1.awaitEvent(eventError, "ends at")
	if !h1.happened(eventLost, "tls:") {
		t.Errorf("the cause is not told: %+v", h1.events)
	}
	authority.Sign(t, "h1", time.Now().Add(time.Hour))
	h1.awaitEvent(eventBack, "store")
	h1.until(func() bool { return h1.fleet.Status().Published == 1 }, "its member")
}

func TestUnknownAuthority(t *testing.T) {
	t.Parallel()
	c := newCluster(t, etcdtest.Options{Members: 1, TLS: etcdtest.NewTLS(t)})
	other := etcdtest.NewTLS(t)
	cert, key := other.Sign(t, "h1", time.Now().Add(time.Hour))
	h1 := newDaemon(t, "h1", c.Endpoints, func(c *Config) { c.CAFile, c.CertFile, c.KeyFile = other.CA, cert, key }).start()
	h1.awaitEvent(eventLost, "unknown authority")
}

// A full etcd takes nothing but deletions. What is there lives on, what is not ready any more is taken away, and the rest
// comes when there is room.
func TestNoSpace(t *testing.T) {
	t.Parallel()
	c := newCluster(t, etcdtest.Options{Members: 1, Flags: []string{"--quota-backend-bytes", "1500000"}})
	client := c.Client(t)
	h1 := newDaemon(t, "h1", c.Endpoints, ttl(15*time.Second))
	h1.has("a", stateReady)
	h1.has("c", stateReady)
	h1.start()
	h2 := newDaemon(t, "h2", c.Endpoints, nil).start()
	h2.await("h1:a ready, h1:c ready")
	var err error
	for i := 0; err == nil && i < 100; i++ {
		_, err = client.Put(t.Context(), "filler", strings.Repeat("x", 200_000))
	}
	if classOf(err) != noSpace {
		t.Fatalf("etcd is not full: %v", err)
	}
	h1.has("b", stateReady)
	h1.awaitEvent(eventError, "etcd is full")
	if up := metricOf(t, h1, "healthd_fleet_up"); up != 0 {
		t.Errorf("healthd_fleet_up is %v while etcd is full", up)
	}
	h1.awaitRenewals(3) // its lease would have ended
	h1.has("c", stateDraining)
	h2.await("h1:a ready")
	if got := h2.shows(); got != "h1:a ready" {
		t.Errorf("h2 shows %q", got)
	}
	h1.end() // the next daemon cannot even claim the host's name
	h1.has("d", stateReady)
	h1.has("a", stateDraining)
	h1.start()
	h2.await("")
	ctx, cancel := context.WithTimeout(t.Context(), patience.Limit)
	defer cancel()
	answer, err := client.Get(ctx, "filler")
	if err == nil {
		_, err = client.Compact(ctx, answer.Header.Revision)
	}
	if err == nil {
		_, err = client.Defragment(ctx, c.Endpoints[0])
	}
	if err == nil {
		_, err = client.AlarmDisarm(ctx, &clientv3.AlarmMember{})
	}
	if err != nil {
		t.Fatal(err)
	}
	h2.await("h1:a draining, h1:b ready, h1:c draining, h1:d ready")
	h1.awaitEvent(eventBack, "published again")
}

// metricOf returns the value of a gauge without labels.
func metricOf(t *testing.T, d *daemon, name string) float64 {
	t.Helper()
	registry := prometheus.NewRegistry()
	if err := registry.Register(d.fleet); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.Metric[0].GetGauge().GetValue()
		}
	}
	t.Fatalf("there is no %s", name)
	return 0
}

func TestWhenExpiryIsTold(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for life, want := range map[time.Duration]time.Duration{24 * time.Hour: 4 * time.Hour, 365 * 24 * time.Hour: 7 * 24 * time.Hour} {
		leaf := &x509.Certificate{NotBefore: now, NotAfter: now.Add(life)}
		if got := leaf.NotAfter.Sub(tellExpiryAt(leaf)); got != want {
			t.Errorf("of a life of %v it is told %v before, want %v", life, got, want)
		}
	}
}
