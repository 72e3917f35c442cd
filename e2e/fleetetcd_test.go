package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"healthd/runtime/enginetest"
)

// etcd is three members, each on a host of its own.
type etcd struct {
	t       *testing.T
	net     *segment
	dir     string
	members []*etcdMember
}

type etcdMember struct {
	name, ns, address string
	data              string
	process           *enginetest.Process
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
	c := &etcd{t: t, net: net, dir: dir}
	for i := range 3 {
		name := fmt.Sprintf("e%d", i+1)
		c.members = append(c.members, &etcdMember{
			name: name, ns: net.netns(name, firstEtcd+i), address: net.address(firstEtcd + i), data: filepath.Join(dir, name),
		})
	}
	for _, m := range c.members {
		c.start(m)
	}
	c.healthy()
	return c
}

func (c *etcd) start(m *etcdMember) {
	c.t.Helper()
	peer, client := "http://"+m.address+":2380", "http://"+m.address+":2379"
	argv := inNetns(m.ns, findProgram(c.t, "etcd"), "--name", m.name, "--data-dir", m.data, "--listen-client-urls", client, "--advertise-client-urls", client,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", c.cluster(), "--initial-cluster-token", c.net.bridge)
	m.process = enginetest.NewProcess("etcd "+m.name, filepath.Join(c.dir, m.name+".log"), argv...)
	if err := m.process.Start(); err != nil {
		c.t.Fatal(err)
	}
	p := m.process
	c.t.Cleanup(func() {
		if p.Running() {
			_ = p.Signal(syscall.SIGCONT)
			_ = p.Stop(syscall.SIGKILL, 10*time.Second)
		}
	})
}

// stop kills members.
func (c *etcd) stop(members ...*etcdMember) {
	c.t.Helper()
	for _, m := range members {
		if err := m.process.Stop(syscall.SIGKILL, 10*time.Second); err != nil {
			c.t.Fatal(err)
		}
	}
}

func (c *etcd) cluster() string {
	var all []string
	for _, m := range c.members {
		all = append(all, m.name+"=http://"+m.address+":2380")
	}
	return strings.Join(all, ",")
}

func (c *etcd) endpoints() (all []string) {
	for _, m := range c.members {
		all = append(all, "http://"+m.address+":2379")
	}
	return all
}

// healthy waits until all members answer with a leader.
func (c *etcd) healthy() {
	c.t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		out, err := c.ctl("endpoint", "health")
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("etcd is not healthy: %v: %s", err, out)
		}
	}
}

// ctl runs etcdctl against all members.
func (c *etcd) ctl(args ...string) (string, error) {
	return c.ctlAt(c.endpoints(), args...)
}

func (c *etcd) ctlAt(endpoints []string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, findProgram(c.t, "etcdctl"), append([]string{"--endpoints", strings.Join(endpoints, ","), "--command-timeout=5s"}, args...)...)
	cmd.Env = []string{"ETCDCTL_API=3", "HOME=" + c.dir}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// must is ctl that has to succeed.
func (c *etcd) must(args ...string) string {
	c.t.Helper()
	out, err := c.ctl(args...)
	if err != nil {
		c.t.Fatalf("etcdctl %v: %v: %s", args, err, out)
	}
	return out
}

// save makes a snapshot, and returns its file.
func (c *etcd) save() string {
	c.t.Helper()
	file := filepath.Join(c.dir, "snapshot.db")
	if out, err := c.ctlAt(c.endpoints()[:1], "snapshot", "save", file); err != nil {
		c.t.Fatalf("cannot save a snapshot: %v: %s", err, out)
	}
	return file
}

// restore kills all members and starts them again with what a snapshot has.
func (c *etcd) restore(file string) {
	c.t.Helper()
	c.stop(c.members...)
	for _, m := range c.members {
		if err := os.RemoveAll(m.data); err != nil {
			c.t.Fatal(err)
		}
		c.must("snapshot", "restore", file, "--name", m.name, "--data-dir", m.data, "--initial-cluster", c.cluster(),
			"--initial-cluster-token", c.net.bridge, "--initial-advertise-peer-urls", "http://"+m.address+":2380")
		c.start(m)
	}
	c.healthy()
}

// addresses returns those of some members.
func addressesOf(members ...*etcdMember) (all []string) {
	for _, m := range members {
		all = append(all, m.address)
	}
	return all
}

// partition cuts all members off from an address.
func (c *etcd) partition(address string) (mend func()) {
	c.t.Helper()
	return c.cutOff(c.members, address)
}

// cutOff has none of these members answer to any of the addresses.
func (c *etcd) cutOff(members []*etcdMember, addresses ...string) (mend func()) {
	c.t.Helper()
	var all []func()
	for _, m := range members {
		all = append(all, c.net.cut(m.ns, slices.DeleteFunc(slices.Clone(addresses), func(a string) bool { return a == m.address })...))
	}
	return func() {
		for _, mend := range all {
			mend()
		}
	}
}
