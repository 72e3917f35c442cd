// Package etcdtest starts private etcd clusters for tests: Debian's etcd on free ports of 127.0.0.1, with data directories of
// their own. Members can be stopped, killed, and restored from a snapshot.
package etcdtest

import (
	"strconv"

	"healthd/e2e/ports"

	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"healthd/e2e/patience"
)

// Options are how a cluster is to be.
type Options struct {
	Members int    // 0: three
	Hosts   []Host // of the members; none: all are on this one, on free ports of 127.0.0.1
	TLS     *TLS   // of clients; nil: none
	Flags   []string
}

// Host is where a member is.
type Host struct {
	Address string
	Under   []string // what runs a program there, such as nsenter
}

// Cluster is a running cluster.
type Cluster struct {
	Endpoints []string // for clients, one for each member
	options   Options
	dir       string
	members   []*member
	life      int // how often it was restored
}

type member struct {
	name         string
	under        []string
	client, peer string // URLs
	command      *exec.Cmd
	ended        chan struct{}
}

// New starts a cluster and waits until it answers. It ends with the test.
func New(t testing.TB, o Options) *Cluster {
	t.Helper()
	c, err := Start(t.TempDir(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		if t.Failed() {
			t.Log(c.logs())
		}
	})
	return c
}

// Start is New without a test: somebody has to Close it. What it keeps is in a directory.
func Start(dir string, o Options) (*Cluster, error) {
	c := &Cluster{options: o, dir: dir}
	addresses, err := o.addresses()
	if err != nil {
		return nil, err
	}
	scheme := "http"
	if o.TLS != nil {
		scheme = "https"
	}
	for i := range len(addresses) / 2 {
		m := &member{name: fmt.Sprintf("m%d", i), client: scheme + "://" + addresses[2*i], peer: "http://" + addresses[2*i+1]}
		if len(o.Hosts) > 0 {
			m.under = o.Hosts[i].Under
		}
		c.members = append(c.members, m)
		c.Endpoints = append(c.Endpoints, m.client)
	}
	for i := range c.members {
		if err := c.start(i); err != nil {
			c.Close()
			return nil, err
		}
	}
	if err := c.await(); err != nil {
		logs := c.logs()
		c.Close()
		return nil, fmt.Errorf("%w\n%s", err, logs)
	}
	return c, nil
}

// addresses returns two for each member: for clients and for the other members.
func (o *Options) addresses() (all []string, err error) {
	if len(o.Hosts) == 0 {
		return freeAddresses(2 * cmp.Or(o.Members, 3))
	}
	for _, h := range o.Hosts {
		all = append(all, net.JoinHostPort(h.Address, "2379"), net.JoinHostPort(h.Address, "2380"))
	}
	return all, nil
}

// freeAddresses returns addresses at which nothing listens now.
func freeAddresses(n int) (all []string, err error) {
	for range n {
		port, err := ports.Claim()
		if err != nil {
			return nil, err
		}
		all = append(all, net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	}
	return all, nil
}

func (c *Cluster) dataDir(i int) string {
	return filepath.Join(c.dir, fmt.Sprintf("%s-%d", c.members[i].name, c.life))
}

func (c *Cluster) initial() string {
	var all []string
	for _, m := range c.members {
		all = append(all, m.name+"="+m.peer)
	}
	return strings.Join(all, ",")
}

func (c *Cluster) start(i int) error {
	m := c.members[i]
	args := []string{
		"--name", m.name, "--data-dir", c.dataDir(i), "--listen-client-urls", m.client, "--advertise-client-urls", m.client,
		"--listen-peer-urls", m.peer, "--initial-advertise-peer-urls", m.peer, "--initial-cluster", c.initial(),
		"--initial-cluster-token", "healthd", "--initial-cluster-state", "new", "--logger", "zap", "--log-level", "warn",
	}
	if c.options.TLS != nil {
		args = append(args, c.options.TLS.flags()...)
	}
	log, err := os.OpenFile(filepath.Join(c.dir, m.name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	argv := slices.Concat(m.under, []string{"etcd"}, args, c.options.Flags)
	m.command = exec.Command(argv[0], argv[1:]...)
	m.command.Stdout, m.command.Stderr = log, log
	m.command.Env = []string{"PATH=" + os.Getenv("PATH"), "GOMAXPROCS=2"}
	m.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if err := m.command.Start(); err != nil {
		return fmt.Errorf("cannot start etcd, of Debian's etcd-server: %w", err)
	}
	m.ended = make(chan struct{})
	go func(command *exec.Cmd, ended chan struct{}) {
		defer close(ended)
		_ = command.Wait()
	}(m.command, m.ended)
	return nil
}

// await waits until every member answers what needs a leader.
func (c *Cluster) await() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience.Limit)
	defer cancel()
	for _, endpoint := range c.Endpoints {
		if err := c.awaitMember(ctx, endpoint); err != nil {
			return fmt.Errorf("etcd does not answer at %s: %w", endpoint, err)
		}
	}
	return nil
}

func (c *Cluster) awaitMember(ctx context.Context, endpoint string) error {
	client, err := c.dial(endpoint)
	if err != nil {
		return err
	}
	defer client.Close()
	for {
		once, cancel := context.WithTimeout(ctx, 5*time.Second) // waits: asked again
		_, err := client.Get(once, "etcdtest")
		cancel()
		if err == nil || strings.Contains(err.Error(), "user name is empty") { // it asks for passwords
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (c *Cluster) dial(endpoints ...string) (*clientv3.Client, error) {
	var own *tls.Config
	if c.options.TLS != nil {
		own = c.options.TLS.client()
	}
	return clientv3.New(clientv3.Config{Endpoints: endpoints, TLS: own, Logger: zap.NewNop(), DialTimeout: 5 * time.Second})
}

// Client returns a client of the cluster, which ends with the test.
func (c *Cluster) Client(t testing.TB) *clientv3.Client {
	t.Helper()
	client, err := c.dial(c.Endpoints...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

// Leader returns which member leads.
func (c *Cluster) Leader(t testing.TB) int {
	t.Helper()
	client := c.Client(t)
	leader := 0
	patience.Until(t, "a member leads", func() (err error) {
		for i, endpoint := range c.Endpoints {
			var status *clientv3.StatusResponse
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second) // waits: asked again
			status, err = client.Status(ctx, endpoint)
			cancel()
			if err == nil && status.Header.MemberId == status.Leader {
				leader = i
				return nil
			}
		}
		return errors.Join(errors.New("none does"), err)
	})
	return leader
}

func (c *Cluster) signal(t testing.TB, i int, s syscall.Signal) {
	t.Helper()
	if err := c.members[i].command.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// Stop lets a member hang: its connections stay open. Cont lets it go on.
func (c *Cluster) Stop(t testing.TB, i int) { t.Helper(); c.signal(t, i, syscall.SIGSTOP) }

// Cont lets a member that was stopped go on.
func (c *Cluster) Cont(t testing.TB, i int) { t.Helper(); c.signal(t, i, syscall.SIGCONT) }

// Kill ends a member. It can be started again.
func (c *Cluster) Kill(t testing.TB, i int) { t.Helper(); c.kill(i) }

func (c *Cluster) kill(i int) {
	if m := c.members[i]; m.command != nil && m.command.Process != nil {
		_ = m.command.Process.Kill()
		<-m.ended
	}
}

// Start starts members that were killed, and waits until they answer.
func (c *Cluster) Start(t testing.TB, members ...int) {
	t.Helper()
	for _, i := range members {
		if err := c.start(i); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience.Limit)
	defer cancel()
	for _, i := range members {
		if err := c.awaitMember(ctx, c.Endpoints[i]); err != nil {
			t.Fatal(err)
		}
	}
}

// Snapshot saves what the cluster has in a file, and returns its path.
func (c *Cluster) Snapshot(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "snapshot.db")
	c.etcdctl(t, "--endpoints", c.Endpoints[0], "snapshot", "save", path)
	return path
}

// Restore kills all members, and starts them with what a snapshot has.
func (c *Cluster) Restore(t testing.TB, snapshot string) {
	t.Helper()
	for i := range c.members {
		c.kill(i)
	}
	c.life++
	for i, m := range c.members {
		c.etcdctl(t, "snapshot", "restore", snapshot, "--name", m.name, "--data-dir", c.dataDir(i), "--initial-cluster", c.initial(),
			"--initial-cluster-token", "healthd", "--initial-advertise-peer-urls", m.peer)
	}
	for i := range c.members {
		if err := c.start(i); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.await(); err != nil {
		t.Fatal(err)
	}
}

// Replace kills all members, and starts others at their addresses that have nothing.
func (c *Cluster) Replace(t testing.TB) {
	t.Helper()
	for i := range c.members {
		c.kill(i)
	}
	c.life++
	for i := range c.members {
		if err := c.start(i); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.await(); err != nil {
		t.Fatal(err)
	}
}

func (c *Cluster) etcdctl(t testing.TB, args ...string) {
	t.Helper()
	command := exec.Command("etcdctl", args...)
	command.Env = []string{"ETCDCTL_API=3", "PATH=" + os.Getenv("PATH")}
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("etcdctl, of Debian's etcd-client: %v: %s", err, out)
	}
}

// Close ends all members.
func (c *Cluster) Close() {
	for i := range c.members {
		c.kill(i)
	}
}

func (c *Cluster) logs() string {
	var all bytes.Buffer
	for _, m := range c.members {
		text, _ := os.ReadFile(filepath.Join(c.dir, m.name+".log"))
		fmt.Fprintf(&all, "%s:\n%s", m.name, text[max(0, len(text)-2000):])
	}
	return all.String()
}
