package fleet

import (
	"fmt"
	"os"
	"slices"
	"testing"

	"healthd/supervisor/fleet/etcdtest"
)

// etcd is three members, each on a host of its own.
type etcd struct {
	*etcdtest.Cluster
	net   *segment
	hosts []etcdtest.Host
	names []string // of the hosts
}

const firstEtcd = 31 // the end of its address

// startEtcd starts three members, and waits until they answer. They end with the test.
func startEtcd(t *testing.T, net *segment) *etcd {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "hd-etcd") // what a disk that others keep busy takes is not what is tested
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	c := &etcd{net: net}
	for i := range 3 {
		ns := net.netns(fmt.Sprintf("e%d", i+1), firstEtcd+i)
		c.names = append(c.names, ns)
		c.hosts = append(c.hosts, etcdtest.Host{Address: net.address(firstEtcd + i), Under: inNetns(ns)})
	}
	if c.Cluster, err = etcdtest.Start(dir, etcdtest.Options{Hosts: c.hosts}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// partition has no member answer to an address.
func (c *etcd) partition(address string) (mend func()) {
	return c.cutOff([]int{0, 1, 2}, address)
}

// cutOff has none of these members answer to any of the addresses, nor to one another.
func (c *etcd) cutOff(members []int, addresses ...string) (mend func()) {
	var all []func()
	for _, i := range members {
		others := slices.DeleteFunc(slices.Clone(addresses), func(a string) bool { return a == c.hosts[i].Address })
		all = append(all, c.net.cut(c.names[i], others...))
	}
	return func() {
		for _, mend := range all {
			mend()
		}
	}
}

// addresses are those of all members.
func (c *etcd) addresses() (all []string) {
	for _, h := range c.hosts {
		all = append(all, h.Address)
	}
	return all
}
