package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"time"

	"healthd/bench/engine"
)

const (
	fleetHosts = 100
	downFor    = 5 // seconds, a member that changes
)

// fleet has a healthd beside a real HAProxy and no engine take the members of a hundred hosts from a real etcd: when it starts,
// while nothing changes, and while some change all the time. The hosts are played.
func fleet(ctx context.Context, w workload, t *table) error {
	w.byDefault(10_000, 0, 30)
	r, err := newBareRig(ctx)
	if err != nil {
		return err
	}
	b, err := r.newBalancer(engine.Kinds)
	if err == nil {
		err = measureFleet(w, t, r, b)
	}
	return errors.Join(err, b.close(), r.close())
}

// newBareRig has neither an engine nor targets.
func newBareRig(ctx context.Context) (*rig, error) {
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return nil, err
	}
	r := &rig{dir: dir, ctx: ctx, runtimes: "runtime = []\n"}
	r.control = onSocket(r.path("control.sock"))
	return r, nil
}

func measureFleet(w workload, t *table, r *rig, b *balancer) error {
	e, err := r.newEtcd()
	if err != nil {
		return err
	}
	defer e.close()
	ln, err := net.Listen("tcp4", "0.0.0.0:0") // at all addresses of the members
	if err != nil {
		return err
	}
	defer ln.Close()
	go answerChecks(ln)
	p := &players{etcd: e, perHost: max(1, w.containers/fleetHosts), port: ln.Addr().(*net.TCPAddr).Port}
	stopRenewing, err := p.join(r.ctx, t)
	if err != nil {
		return err
	}
	defer stopRenewing()
	if err := b.start(); err != nil {
		return err
	}
	began := time.Now()
	err = r.runDaemon(w.binary, fmt.Sprintf("[fleet]\nendpoints = [%q]\nhost = \"balancer\"\nadvertise = \"127.0.0.1\"\n[haproxy]\nsockets = [%q]\n", e.url, b.socket))
	if err == nil {
		err = p.awaitUp(r, b)
	}
	if err != nil {
		return err
	}
	t.note("fleet", fmt.Sprintf("start of healthd to all %d up in HAProxy", p.size()), "%s", short(time.Since(began)))
	during := time.Duration(w.seconds) * time.Second
	if err := p.watchCost(t, r, "fleet, nothing changes", func() error { return r.sleep(during) }); err != nil {
		return err
	}
	for _, rate := range []int{10, 100} { // a second
		name := fmt.Sprintf("fleet, %d changes/s", rate)
		var l latencies
		err = p.watchCost(t, r, name, func() (err error) {
			l, err = p.change(r, b, rate, during)
			return err
		})
		if err != nil {
			return err
		}
		t.note(name, "changes of which HAProxy's log has no line", "%d of %d", len(l.missing), len(l.missing)+len(l.all))
		t.note(name, "put in etcd until HAProxy has it p50, p99, max", "%s, %s, %s", short(l.at(0.5)), short(l.at(0.99)), short(l.at(1)))
	}
	return nil
}

// answerChecks takes connections, which is all that HAProxy's checks want, until the listener is closed.
func answerChecks(ln net.Listener) {
	for {
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		conn.Close()
	}
}

// watchCost measures what it costs healthd and etcd to follow what happens.
func (p *players) watchCost(t *table, r *rig, name string, meanwhile func() error) error {
	began := time.Now()
	before, sent, err := p.usages(r)
	if err == nil {
		err = meanwhile()
	}
	if err != nil {
		return err
	}
	after, sentAfter, err := p.usages(r)
	if err != nil {
		return err
	}
	took := time.Since(began).Seconds()
	mem, err := r.memory()
	t.note(name, "CPU of healthd, of etcd", "%.1f %%, %.1f %% of a core", 100*(after[0]-before[0]).Seconds()/took, 100*(after[1]-before[1]).Seconds()/took)
	t.note(name, "bytes from etcd to its clients", "%.1f kB/s", (sentAfter-sent)/took/1e3)
	t.note(name, "memory of healthd: now, peak", "%.0f MB, %.0f MB", mem.resident, mem.peak)
	return err
}

// usages returns the CPU of healthd and of etcd, and what etcd has sent.
func (p *players) usages(r *rig) (cpu [2]time.Duration, sent float64, err error) {
	daemon, err := r.usage()
	etcd, etcdErr := p.etcd.process.usage()
	sent, sentErr := p.etcd.metric(r.ctx, "etcd_network_client_grpc_sent_bytes_total")
	return [2]time.Duration{daemon.total(), etcd.total()}, sent, errors.Join(err, etcdErr, sentErr)
}

// players are the hosts of the fleet, each with its lease and its members.
type players struct {
	etcd    *etcd
	perHost int
	port    int // of all members
	leases  []int64
}

func (p *players) size() int { return fleetHosts * p.perHost }

// join writes all hosts and members, and renews their leases until the returned function is called.
func (p *players) join(ctx context.Context, t *table) (stop func(), err error) {
	began := time.Now()
	for h := range fleetHosts {
		lease, err := p.etcd.grant(ctx, leaseSeconds)
		if err != nil {
			return nil, err
		}
		p.leases = append(p.leases, lease)
		puts := []put{{fmt.Sprintf("hosts/host-%d", h), fmt.Sprintf(`{"instance":"%032x","version":"bench","advertise":"10.0.0.1"}`, h+1)}}
		for n := range p.perHost {
			puts = append(puts, p.member(h, n, true))
		}
		for len(puts) > 0 {
			some := puts[:min(len(puts), 100)]
			puts = puts[len(some):]
			if err := p.etcd.putAll(ctx, lease, some); err != nil {
				return nil, err
			}
		}
	}
	t.note("fleet", fmt.Sprintf("%d hosts write %d members", fleetHosts, p.size()), "%.0f a second", float64(p.size())/time.Since(began).Seconds())
	ctx, cancel := context.WithCancel(ctx)
	var renewing sync.WaitGroup
	renewing.Go(func() { p.renew(ctx) })
	return func() {
		cancel()
		renewing.Wait()
	}, nil
}

// awaitUp waits until HAProxy has all members up.
func (p *players) awaitUp(r *rig, b *balancer) error {
	return r.eventually(startPatience, "HAProxy has all servers", func() error {
		err := b.expectUp(p.size())
		if err != nil {
			err = errors.Join(err, r.sleep(20*time.Millisecond)) // to ask costs HAProxy time that it needs for the push
		}
		return err
	})
}

// renew keeps the leases, one after the other, each every third of its life.
func (p *players) renew(ctx context.Context) {
	tick := time.NewTicker(leaseSeconds * time.Second / 3 / fleetHosts)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-tick.C:
			_ = p.etcd.keepAlive(ctx, p.leases[n%len(p.leases)])
		case <-ctx.Done():
			return
		}
	}
}

// member returns what a host writes of one of its containers.
func (p *players) member(host, n int, ready bool) put {
	state, reason := "ready", ""
	if !ready {
		state, reason = "down", "ReadinessFailed"
	}
	kind := n % engine.Kinds
	return put{fmt.Sprintf("members/shop%%2Fkind-%d/host-%d/web-%d", kind, host, n), fmt.Sprintf(
		`{"container":"web-%d","id":"%064x","run":1750000000000000000,"address":"127.%d.%d.%d","port":%d,"state":%q,"reason":%q,"backend":"kind-%d","phase":"Running","group":"shop/kind-%[9]d","revision":1}`,
		n, host*p.perHost+n+1, 10+host/250, host%250, n%250+1, p.port, state, reason, kind)}
}

// turn is a change that HAProxy should show.
type turn struct {
	server, state string
	at            time.Time
}

// change has members go down, and come back some seconds later, at a rate for each second, and returns how long it took from each put until HAProxy had it.
func (p *players) change(r *rig, b *balancer, rate int, during time.Duration) (latencies, error) {
	tick := time.NewTicker(time.Second / time.Duration(rate))
	defer tick.Stop()
	var turns []turn
	next, down := rand.Perm(p.size()), []int{}
	for i := range int(during.Seconds()) * rate {
		select {
		case <-tick.C:
		case <-r.ctx.Done():
			return latencies{}, r.ctx.Err()
		}
		of, state := 0, "DOWN"
		if len(next) == 0 || i%2 == 1 && len(down) >= rate/2*downFor {
			of, down, state = down[0], down[1:], "UP"
		} else {
			of, next = next[0], next[1:]
			down = append(down, of)
		}
		host, n := of/p.perHost, of%p.perHost
		turns = append(turns, turn{fmt.Sprintf("host-%d:web-%d", host, n), state, time.Now()})
		if err := p.etcd.putAll(r.ctx, p.leases[host], []put{p.member(host, n, state == "UP")}); err != nil {
			return latencies{}, err
		}
	}
	for _, of := range down {
		host, n := of/p.perHost, of%p.perHost
		if err := p.etcd.putAll(r.ctx, p.leases[host], []put{p.member(host, n, true)}); err != nil {
			return latencies{}, err
		}
	}
	if err := p.awaitUp(r, b); err != nil { // whatever the log lacks
		return latencies{}, err
	}
	var l latencies
	for i, c := range turns {
		if at, ok := b.log.first(c.server, c.state, c.at); ok {
			l.all = append(l.all, at.Sub(c.at))
		} else {
			l.missing = append(l.missing, i)
		}
	}
	return l, nil
}
