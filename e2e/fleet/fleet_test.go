package fleet

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"healthd/e2e/harness"
)

// fleetGone is how long members of a host whose lease is not renewed stay at most, while etcd keeps its leader: see docs/fleet.md.
const fleetGone = fleetTTL + 3*time.Second

// Three hosts with nine replicas, HAProxy on a fourth, etcd with three members: whatever goes away, no container is restarted for it, and
// HAProxy sends requests to whoever is known to be ready.
//
//	go test ./e2e/fleet -run TestFleet/restarts -v
func TestFleet(t *testing.T) {
	t.Parallel()
	f := startFleet(t)
	t.Run("readiness", func(t *testing.T) { f.in(t).unreadyIsWithdrawn() })
	t.Run("restarts", func(t *testing.T) { f.in(t).fewAreDownAtOnce() })
	before := f.restarts()
	t.Run("daemon-dies", func(t *testing.T) { f.in(t).daemonDiesAndReturns() })
	t.Run("one-etcd-away", func(t *testing.T) { f.in(t).oneMemberOfEtcdAway() })
	t.Run("quorum-lost", func(t *testing.T) { f.in(t).quorumLost() })
	t.Run("balancer-cut", func(t *testing.T) { f.in(t).balancerCutOff() })
	t.Run("host-cut", func(t *testing.T) { f.in(t).hostCutOff() })
	t.Run("daemon-stopped", func(t *testing.T) { f.in(t).daemonWakesUp() })
	t.Run("restore", func(t *testing.T) { f.in(t).etcdIsRestored() })
	t.Run("hold", func(t *testing.T) { f.in(t).holdOnAllHosts() })
	t.Run("host-dies", func(t *testing.T) { f.in(t).hostDies() })
	if n := f.restarts(); n != before {
		t.Errorf("%d containers were restarted for what happened to others", n-before)
	}
}

func (f *fleet) unreadyIsWithdrawn() {
	l := harness.StartLoad(f.t, f.haproxy.URL, 20*time.Millisecond)
	all := f.replicas(f.hosts...)
	for _, h := range f.hosts {
		h.set(0, "ready=503")
		others := slices.DeleteFunc(slices.Clone(all), func(a string) bool { return a == h.replica(0) })
		f.eventually("withdraw a replica of another host", func() error { return f.up(others...) })
		f.eventually("tell all that it is not ready", func() error { return f.told(h, 0, false) })
		h.set(0, "ready=200")
		f.eventually("send requests to it again", func() error { return f.up(all...) })
		f.eventually("tell all that it is ready", func() error { return f.told(h, 0, true) })
	}
	l.NoFailures()
}

// fewAreDownAtOnce has the liveness of all replicas fail at once. Two are restarted at a time, over all hosts, and no request is lost.
func (f *fleet) fewAreDownAtOnce() {
	const most = 2 // max_unavailable
	f.eventually("have HAProxy grow old enough to be trusted", f.haproxy.OldProcessEnded)
	l := harness.StartLoad(f.t, f.haproxy.URL, 200*time.Millisecond)
	for _, h := range f.hosts {
		for i := range webPerHost {
			h.set(i, "status=500")
		}
	}
	f.eventually("restart all replicas", func() error {
		return f.each(func(h *fleetHost, name string) error {
			s, err := h.Status(name)
			if err == nil && (s.RestartCount != 1 || !s.Ready) {
				err = fmt.Errorf("%s of %s: %d restarts, ready: %v", name, h.name, s.RestartCount, s.Ready)
			}
			return err
		})
	})
	worst := f.mostDown()
	f.t.Logf("at most %d were down at once", worst)
	if worst > most {
		f.t.Errorf("%d were down at once, want at most %d", worst, most)
	}
	if n := f.restarts(); n != len(f.hosts)*webPerHost {
		f.t.Errorf("%d restarts, want one of each replica", n)
	}
	f.eventually("have HAProxy send requests to all again", func() error { return f.up(f.replicas(f.hosts...)...) })
	l.NoFailures()
}

// each calls a function for each replica, up to the first error.
func (f *fleet) each(do func(h *fleetHost, name string) error) error {
	for _, h := range f.hosts {
		for i := range webPerHost {
			if err := do(h, webName(i)); err != nil {
				return err
			}
		}
	}
	return nil
}

// mostDown is how many replicas were down at once for a restart by healthd: from the decision until they were ready again. All hosts
// have one clock here.
func (f *fleet) mostDown() (most int) {
	f.t.Helper()
	changes := map[time.Time]int{}
	_ = f.each(func(h *fleetHost, name string) error {
		down := false
		for _, e := range h.Events(name) {
			switch {
			case e.Reason == "Killing" && !down:
				changes[e.Time]++
				down = true
			case e.Reason == "Ready" && down:
				changes[e.Time]--
				down = false
			}
		}
		return nil
	})
	now := 0
	for _, at := range slices.SortedFunc(maps.Keys(changes), time.Time.Compare) {
		now += changes[at]
		most = max(most, now)
	}
	if now != 0 || most == 0 {
		f.t.Errorf("%d are down in the end, at most %d were: the events are not whole", now, most)
	}
	return most
}

// A daemon that is killed and comes back within the life of its lease is not missed.
func (f *fleet) daemonDiesAndReturns() {
	l := harness.StartLoad(f.t, f.haproxy.URL, 20*time.Millisecond)
	h := f.hosts[0]
	h.whole.Kill()
	h.whole.Restart()
	h.Daemon = h.whole.In(f.t)
	f.allStayUp(fleetGone)
	if lost := f.eventsOf("FleetHostLost"); len(lost) > 0 {
		f.t.Errorf("the balancer's healthd says %v", lost)
	}
	l.NoFailures()
}

func (f *fleet) oneMemberOfEtcdAway() {
	l := harness.StartLoad(f.t, f.haproxy.URL, 20*time.Millisecond)
	mend := f.etcd.cutOff([]int{0}, slices.Concat(f.etcd.addresses(), f.addresses())...)
	f.allStayUp(fleetGone)
	mend()
	f.allStayUp(fleetTTL / 3)
	l.NoFailures()
}

func (f *fleet) quorumLost() {
	l := harness.StartLoad(f.t, f.haproxy.URL, 20*time.Millisecond)
	f.etcd.Kill(f.t, 1)
	f.etcd.Kill(f.t, 2)
	f.eventually("say that etcd is away", func() error { return connected(f.balancer.Daemon, false) })
	f.allStayUp(fleetGone)
	f.etcd.Start(f.t, 1, 2)
	f.eventually("say that etcd is back", func() error { return connected(f.balancer.Daemon, true) })
	f.allStayUp(fleetGone)
	l.NoFailures()
}

// While the balancer cannot reach etcd it keeps what it knows, and says so. Then it takes in what has changed.
func (f *fleet) balancerCutOff() {
	mend := f.etcd.partition(f.balancer.address)
	f.eventually("say that etcd is away", func() error { return connected(f.balancer.Daemon, false) })
	h := f.hosts[1]
	h.set(1, "ready=503")
	h.Until(webName(1), "not ready", func(s harness.Status) bool { return !s.Ready })
	f.allStayUp(fleetGone)
	if _, text, err := f.balancer.Get("/metrics"); err != nil || !strings.Contains(text, "\nhealthd_fleet_up 0\n") {
		f.t.Errorf("metrics do not say that etcd is away: %v", err)
	}
	mend()
	others := slices.DeleteFunc(f.replicas(f.hosts...), func(a string) bool { return a == h.replica(1) })
	f.eventually("take in what has changed", func() error { return f.up(others...) })
	h.set(1, "ready=200")
	f.eventually("send requests to all", func() error { return f.up(f.replicas(f.hosts...)...) })
	if lost, back := f.eventsOf("FleetLost"), f.eventsOf("FleetBack"); len(lost) == 0 || len(back) == 0 {
		f.t.Errorf("the history has %v, %v", lost, back)
	}
}

// A host that cannot reach etcd supervises on. Others do not see it any more when its lease is over.
func (f *fleet) hostCutOff() {
	h := f.hosts[0]
	mend := f.etcd.partition(h.address)
	f.eventually("drop the members of a host that is cut off", func() error { return f.up(f.replicas(f.hosts[1:]...)...) })
	h.set(2, "ready=503")
	h.Until(webName(2), "not ready", func(s harness.Status) bool { return !s.Ready })
	h.set(2, "ready=200")
	h.Until(webName(2), "ready", harness.Ready)
	mend()
	f.eventually("have all back", func() error { return f.up(f.replicas(f.hosts...)...) })
}

// A daemon that did not run for longer than its lease lives puts all again when it wakes up.
func (f *fleet) daemonWakesUp() {
	h := f.hosts[1]
	if err := h.Cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		f.t.Fatal(err)
	}
	f.eventually("drop the members of a daemon that does not run", func() error { return f.up(f.replicas(f.hosts[0], f.hosts[2])...) })
	if err := h.Cmd.Process.Signal(syscall.SIGCONT); err != nil {
		f.t.Fatal(err)
	}
	f.eventually("have all back", func() error { return f.up(f.replicas(f.hosts...)...) })
}

// etcd is set back to an older state. Whoever is ready stays, and what has changed since then is not forgotten.
func (f *fleet) etcdIsRestored() {
	l := harness.StartLoad(f.t, f.haproxy.URL, 20*time.Millisecond)
	snapshot := f.etcd.Snapshot(f.t)
	h := f.hosts[2]
	h.set(0, "ready=503")
	others := slices.DeleteFunc(f.replicas(f.hosts...), func(a string) bool { return a == h.replica(0) })
	f.eventually("withdraw a replica", func() error { return f.up(others...) })
	client := f.etcd.Client(f.t)
	for range 50 { // so that the older state has a lower revision for a while
		if _, err := client.Put(f.t.Context(), "/other/key", "x"); err != nil {
			f.t.Fatal(err)
		}
	}
	f.etcd.Restore(f.t, snapshot)
	f.stay(fleetGone, others...)
	h.set(0, "ready=200")
	f.eventually("send requests to all", func() error { return f.up(f.replicas(f.hosts...)...) })
	l.NoFailures()
}

// A hold of the service reaches all hosts: nothing is restarted then.
func (f *fleet) holdOnAllHosts() {
	held := func(want bool) {
		f.t.Helper()
		for _, h := range f.hosts {
			for i := range webPerHost {
				h.Until(webName(i), fmt.Sprintf("held: %v", want), func(s harness.Status) bool { return s.Held == want })
			}
		}
	}
	if out, code := f.balancer.Run("hold", "--fleet", "shop/web"); code != 0 {
		f.t.Fatalf("hold: %d: %s", code, out)
	}
	held(true)
	if out, code := f.hosts[0].Run("status", "--fleet"); code != 0 || !strings.Contains(out, "shop/web") {
		f.t.Errorf("status --fleet: %d: %s", code, out)
	}
	if out, code := f.hosts[1].Run("resume", "--fleet", "shop/web"); code != 0 {
		f.t.Fatalf("resume: %d: %s", code, out)
	}
	held(false)
}

// hostDies has a host vanish with all that runs there. Requests may be lost until its lease is over, and none after that.
func (f *fleet) hostDies() {
	l := harness.StartLoadOfNewConnections(f.t, f.haproxy.URL, 20*time.Millisecond)
	h := f.hosts[2]
	port := fmt.Sprintf("%s-%d", f.net.bridge, 13)
	f.net.ip("link", "set", port, "down")
	f.eventually("see that a host died", func() error { return f.lost(h.name) })
	f.eventually("drop its members", func() error { return f.up(f.replicas(f.hosts[:2]...)...) })
	dropped := time.Now()
	l.Until(dropped.Add(5 * time.Second))
	l.NoFailuresSince(dropped)
	f.net.ip("link", "set", port, "up")
	f.eventually("have all back", func() error { return f.up(f.replicas(f.hosts...)...) })
}

func (f *fleet) addresses() (all []string) {
	for _, h := range append(slices.Clone(f.hosts), f.balancer) {
		all = append(all, h.address)
	}
	return all
}

// allStayUp checks for some time that HAProxy has all replicas up.
func (f *fleet) allStayUp(during time.Duration) {
	f.t.Helper()
	f.stay(during, f.replicas(f.hosts...)...)
}

// stay checks for some time that HAProxy sends requests to just these replicas.
func (f *fleet) stay(during time.Duration, addresses ...string) {
	f.t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(during); time.Now().Before(end); <-tick.C {
		if err := f.up(addresses...); err != nil {
			f.t.Fatalf("%v before the end of %v: %v", time.Until(end).Round(time.Millisecond), during, err)
		}
	}
}

// eventsOf returns the balancer's healthd's events of a reason.
func (f *fleet) eventsOf(reason string) (all []harness.Event) {
	f.t.Helper()
	for _, e := range f.balancer.Events("") {
		if e.Reason == reason {
			all = append(all, e)
		}
	}
	return all
}

// fleetView is the part of /v1/fleet that these tests use.
type fleetView struct {
	Connected bool
	Error     string
	Hosts     []struct{ Name, State string }
}

func fleetOf(d *harness.Daemon) (v fleetView, err error) {
	code, body, err := d.Get("/v1/fleet")
	if err == nil && code != http.StatusOK {
		err = errors.New(body)
	}
	if err != nil {
		return v, err
	}
	return v, json.Unmarshal([]byte(body), &v)
}

func connected(d *harness.Daemon, want bool) error {
	v, err := fleetOf(d)
	if err == nil && v.Connected != want {
		err = fmt.Errorf("connected is %v: %s", v.Connected, v.Error)
	}
	return err
}

// lost returns nil when the balancer's healthd shows a host as lost.
func (f *fleet) lost(host string) error {
	v, err := fleetOf(f.balancer.Daemon)
	if err != nil {
		return err
	}
	for _, h := range v.Hosts {
		if h.Name == host && h.State == "lost" {
			return nil
		}
	}
	return fmt.Errorf("%s is not lost: %+v", host, v)
}
