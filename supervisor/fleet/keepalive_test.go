package fleet

import (
	"testing"
	"time"

	"healthd/supervisor/fleet/etcdtest"
)

// Two of three members hang while their connections stay. Whoever gets the next call: the lease is renewed each time.
func TestRenewalWhileMembersHang(t *testing.T) {
	t.Parallel()
	c := sharedCluster(t)
	var ways []*etcdtest.Proxy
	var endpoints []string
	for range 3 {
		way := etcdtest.NewProxy(t, c.Endpoints[0])
		ways, endpoints = append(ways, way), append(endpoints, way.Endpoint)
	}
	h1 := newDaemon(t, "h1", endpoints, ttl(5*time.Minute))
	h1.begin = func(f *Fleet) { f.lease.within = 10 * time.Second }
	h1.start()
	lease := h1.leaseID()
	for _, way := range ways[:2] {
		way.Hang()
		defer way.Release()
	}
	for range 3 {
		if err := h1.fleet.lease.keepAlive(t.Context(), lease); err != nil {
			t.Fatal(err)
		}
	}
	expire(t, c, lease)
	if err := h1.fleet.lease.keepAlive(t.Context(), lease); classOf(err) != noLease {
		t.Errorf("of a lease that has ended: %v", err)
	}
}
