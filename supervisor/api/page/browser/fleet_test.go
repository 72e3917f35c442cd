package browser_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"healthd/supervisor/api"
	"healthd/supervisor/api/page/chromiumtest"
)

// fleet is what a host knows of others. Tests change it.
type fleet struct {
	mu   sync.Mutex
	view api.FleetView
}

func newFleet(changes ...func(*api.FleetView)) *fleet {
	f := &fleet{view: api.FleetView{Host: "h1", Connected: true, Since: time.Now().Add(-time.Hour)}}
	for _, change := range changes {
		change(&f.view)
	}
	return f
}

func (f *fleet) View() api.FleetView {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.view
}

func (f *fleet) change(change func(*api.FleetView)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.view.Hosts = append([]api.FleetHost{}, f.view.Hosts...)
	change(&f.view)
}

func (f *fleet) Hold(context.Context, string, time.Duration) error {
	return errors.New("the page changes nothing")
}

func (f *fleet) Resume(context.Context, string) error { return errors.New("the page changes nothing") }

// everyHost has a host of each state, a hold and problems.
func everyHost(v *api.FleetView) {
	since := func(ago time.Duration) time.Time { return time.Now().Add(-ago) }
	v.Hosts = []api.FleetHost{
		{Name: "h1", State: api.FleetHostLive, Since: since(51 * time.Hour), Address: "10.0.0.1", Version: "0.1.0", Balancer: true, Ready: 3},
		{Name: "h2", State: api.FleetHostLive, Since: since(26 * time.Hour), Ready: 2, Draining: 1, Down: 1},
		{Name: "h3", State: api.FleetHostLive, Since: since(9 * time.Minute), Down: 2},
		{Name: "h4.example.com", State: api.FleetHostLost, Since: since(5*time.Minute + 10*time.Second)},
		{Name: "h5", State: api.FleetHostLeft, Since: since(3 * time.Hour)},
	}
	v.Holds = []api.FleetHold{{Service: "shop/web", By: "h2", Since: since(10 * time.Minute), For: "1h0m0s"}, {Service: "db", By: "h1"}}
	v.WrongKeys, v.Problems = 2, []string{"two daemons are called h3"}
}

func etcdAway(v *api.FleetView) {
	v.Connected, v.Since, v.Error = false, time.Now().Add(-3*time.Minute-5*time.Second), "no leader"
}

func manyHosts(n int) func(*api.FleetView) {
	return func(v *api.FleetView) {
		for i := range n {
			h := api.FleetHost{Name: fmt.Sprintf("rack-%d-host-%02d", i/20+1, i), State: api.FleetHostLive, Since: time.Now().Add(-time.Hour), Ready: 12}
			if i == n-1 {
				h.State, h.Ready = api.FleetHostLost, 0
			}
			v.Hosts = append(v.Hosts, h)
		}
	}
}

// hostileFleet has texts of hostile everywhere.
func hostileFleet(v *api.FleetView) {
	v.Host, v.Error, v.Connected = hostile[0], strings.Join(hostile, " "), false
	for _, text := range hostile {
		v.Hosts = append(v.Hosts, api.FleetHost{Name: text, State: text, Address: text, Version: text, Ready: 1})
		v.Holds = append(v.Holds, api.FleetHold{Service: text, By: text, For: text, Since: time.Now()})
		v.Problems = append(v.Problems, text)
	}
}

// Hosts are there with their states and counts; lost ones come first.
func TestFleet(t *testing.T) {
	h := newHostIn(t, newFleet(everyHost), container("shop", "web", 1))
	b := chromiumtest.New(t, 1280, "light")
	b.Open(h.url(""))
	b.Says("#fleet-summary", "3 of 5 hosts live, 5 of 9 members ready")
	const tiles = `[...document.querySelectorAll("#fleet-hosts li")].map((li) => {
		const times = [...li.querySelectorAll("time")].map((t) => t.innerText.split(" ").slice(0, 3).join(" "));
		return [li.className, ...[...li.querySelectorAll(".who, .state")].map((e) => e.innerText), ...times, li.querySelector(".ratio").innerText].join(", ");
	}).join("; ")`
	const want = "lost, h4.example.com, lost, for 5 min, no members; live, h1 this host, live, for 2 d, 3/3 ready; " +
		"live, h2, live, for 1 d, 2/4 ready, 1 draining; live, h3, live, for 9 min, 0/2 ready; left, h5, left, for 3 h, no members"
	if got := chromiumtest.Eval[string](b, tiles); got != want {
		t.Errorf("hosts\n%s, want\n%s", got, want)
	}
	if got := b.Text("#fleet-notes"); !strings.Contains(got, "two daemons are called h3") || !strings.Contains(got, "2 keys in etcd cannot be read") ||
		!strings.Contains(got, "shop/web is held on all hosts, by h2 since ") || !strings.Contains(got, " for 1h0m0s.") || !strings.Contains(got, "db is held on all hosts, by h1, until a resume.") {
		t.Errorf("notes %s", got)
	}
	for query, hidden := range map[string]bool{"?view=events": true, "?q=web": true, "?show=problems": true, "?c=shop-web-1": false} {
		b.Open(h.url(query))
		b.Until(fmt.Sprintf(`document.querySelector("#fleet").hidden === %v`, hidden))
	}
}

// Without [fleet] nothing is asked and nothing is shown.
func TestNoFleet(t *testing.T) {
	h := newHost(t, container("shop", "web", 1))
	b := chromiumtest.New(t, 1280, "light")
	b.Open(h.url(""))
	b.Says("#connection", "Live")
	if !chromiumtest.Eval[bool](b, `document.querySelector("#fleet").hidden && !performance.getEntriesByType("resource").some((r) => r.name.includes("/v1/fleet"))`) {
		t.Error("it shows or asks for a fleet")
	}
}

// What changes on other hosts comes without an event here, and is on the screen within seconds.
func TestFleetIsLive(t *testing.T) {
	f := newFleet(everyHost)
	h := newHostIn(t, f, container("shop", "web", 1))
	b := chromiumtest.New(t, 1280, "light")
	b.Open(h.url(""))
	b.Says("#fleet-summary", "3 of 5 hosts live")
	if !chromiumtest.Eval[bool](b, `document.querySelector("#fleet-away").hidden`) {
		t.Error("etcd is there, and the page says it is away")
	}
	f.change(func(v *api.FleetView) { v.Hosts[1].State, v.Hosts[1].Ready = api.FleetHostLost, 0; etcdAway(v) })
	b.Says("#fleet-summary", "2 of 5 hosts live")
	b.Says("#fleet-away", "etcd cannot be reached: no leader. Members of other hosts are shown as last known. For 3 min")
	f.change(func(v *api.FleetView) { v.Connected = true; v.Hosts = v.Hosts[:1] })
	b.Until(`document.querySelector("#fleet-away").hidden && document.querySelectorAll("#fleet-hosts li").length === 1`)
}

func TestManyHosts(t *testing.T) {
	h := newHostIn(t, newFleet(manyHosts(80)), container("shop", "web", 1))
	b := chromiumtest.New(t, 1280, "light")
	b.Open(h.url(""))
	b.Says("#fleet-more", "And 60 more")
	b.Says("#fleet-hosts li:first-child", "rack-4-host-79")
}
