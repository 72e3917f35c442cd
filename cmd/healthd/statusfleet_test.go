package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"healthd/supervisor"
	"healthd/supervisor/api"
)

// fakeFleet answers with a view, and notes what is asked for.
type fakeFleet struct {
	view   api.FleetView
	asked  []string
	err    error
	unheld bool // nothing is held
}

func (f *fakeFleet) View() api.FleetView { return f.view }

func (f *fakeFleet) Hold(_ context.Context, service string, d time.Duration) error {
	f.asked = append(f.asked, "hold "+service+" "+d.String())
	return f.err
}

func (f *fakeFleet) Resume(_ context.Context, service string) error {
	f.asked = append(f.asked, "resume "+service)
	if f.unheld {
		return api.ErrNoFleetHold
	}
	return f.err
}

// threeHosts is a fleet as h1 sees it: h2 is lost, h3 has left, and a service of a project that h4 has is held.
func threeHosts() *fakeFleet {
	member := func(service, host, container, state, reason string) api.FleetMember {
		return api.FleetMember{Service: service, Host: host, Container: container, Address: "10.0.0." + host[1:], Port: 32768, State: state, Reason: reason}
	}
	return &fakeFleet{view: api.FleetView{
		Host: "h1", Connected: true, Since: clock.Add(-time.Hour), Endpoints: []string{"https://10.0.0.1:2379"},
		Hosts: []api.FleetHost{
			{Name: "h1", State: api.FleetHostLive, Since: clock.Add(-26 * time.Hour), Address: "10.0.0.1", Version: "0.1.0", Balancer: true, Ready: 2, Draining: 1},
			{Name: "h2", State: api.FleetHostLost, Since: clock.Add(-5 * time.Minute), Address: "10.0.0.2", Version: "0.1.0"},
			{Name: "h3", State: api.FleetHostLeft, Since: clock.Add(-3 * time.Hour)},
			{Name: "h4", State: api.FleetHostLive, Since: clock.Add(-40 * time.Second), Address: "10.0.0.4", Version: "0.2.0", Ready: 1, Down: 2},
		},
		Members: []api.FleetMember{
			member("blog/web", "h4", "blog-web-1", supervisor.MemberDown, "ReadinessFailed"),
			member("db", "h1", "db", supervisor.MemberReady, ""),
			{Service: "shop/cart", Host: "h4", Container: "shop-cart-1", Address: "fd00::4", State: supervisor.MemberDown, Reason: "NotRunning"},
			member("shop/web", "h1", "shop-web-1", supervisor.MemberReady, ""),
			member("shop/web", "h1", "shop-web-2", supervisor.MemberDraining, "Draining"),
			member("shop/web", "h4", "shop-web-1", supervisor.MemberReady, ""),
		},
		Holds: []api.FleetHold{
			{Service: "shop/web", By: "h4", Since: clock.Add(-10 * time.Minute), For: "1h0m0s"}, {Service: "old/api", By: "h1", Since: clock.Add(-time.Minute)},
		},
	}}
}

// etcdAway has the fleet lose etcd.
func etcdAway(f *fakeFleet) *fakeFleet {
	f.view.Connected, f.view.Since, f.view.Error = false, clock.Add(-3*time.Minute), "context deadline exceeded: no leader"
	return f
}

func fleetText(t *testing.T, v *api.FleetView, f statusForm, colours bool, columns int) string {
	t.Helper()
	var b bytes.Buffer
	if err := writeFleet(&b, &b, v, f, colours, columns, clock); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestFleetTables(t *testing.T) {
	var all strings.Builder
	for _, tt := range []struct {
		name string
		v    *api.FleetView
		form statusForm
	}{
		{"status --fleet", &threeHosts().view, form(false)},
		{"status --fleet, etcd is away", &etcdAway(threeHosts()).view, form(false)},
		{"status --fleet -o wide", &threeHosts().view, form(true)},
		{"status --fleet --no-headers", &threeHosts().view, statusForm{output: asTable, noHeaders: true}},
		{"of a fleet without members", &api.FleetView{Connected: true, Host: "h1", Hosts: []api.FleetHost{{Name: "h1", State: api.FleetHostLive}}}, form(false)},
	} {
		all.WriteString("# " + tt.name + "\n" + fleetText(t, tt.v, tt.form, false, 100) + "\n")
	}
	golden(t, "fleet.txt", all.String())
	away := etcdAway(threeHosts()).view
	coloured := fleetText(t, &away, form(true), true, 100)
	bare := strings.NewReplacer(red, "", green, "", yellow, "", plain, "").Replace(coloured)
	if bare != fleetText(t, &away, form(true), false, 100) {
		t.Errorf("colours change more than colours:\n%s", coloured)
	}
	for _, want := range []string{red + "etcd cannot be reached for 3m: ", red + "h2" + plain, red + "lost" + plain, red + "5m" + plain} {
		if !strings.Contains(coloured, want) {
			t.Errorf("there is no %q in %q", want, coloured)
		}
	}
}

// The tables fit an ordinary terminal, whatever is in etcd, and control none.
func TestFleetTablesFit(t *testing.T) {
	v := etcdAway(threeHosts()).view
	const hostile = "\x1b[2J<b>\nnext \u202e"
	v.Error = strings.Repeat("the connection is refused ", 9) + hostile
	long := strings.Repeat("a-long-name-", 5)
	v.Hosts = append(v.Hosts, api.FleetHost{Name: long + hostile, State: hostile, Address: "fd00:1234:5678:9abc:def0:1234:5678:9abc", Version: long + hostile, Ready: 1000})
	for _, host := range []string{"h5", "h6", long + hostile, "h7"} {
		v.Members = append(v.Members, api.FleetMember{Service: long + hostile, Host: host, Container: long + hostile, Address: hostile, State: hostile, Reason: hostile})
	}
	v.Holds = append(v.Holds, api.FleetHold{Service: long + hostile, By: long + hostile, Since: clock, For: hostile})
	for _, columns := range []int{80, 100, unlimited} {
		text := fleetText(t, &v, form(false), false, columns)
		fits(t, text, columns)
		text += fleetText(t, &v, form(true), false, columns)
		if strings.ContainsAny(text, "\x1b\u202e") || strings.Contains(text, "\nnext") {
			t.Errorf("%d columns: it controls the terminal: %q", columns, text)
		}
	}
}

func TestStatusOfAFleet(t *testing.T) {
	f := threeHosts()
	f.view.Problems, f.view.WrongKeys = []string{"two daemons are called h3\x1b[2J"}, 1
	socket, _ := daemonWith(t, &fake{fleet: f}, container("web-1", nil))
	const warnings = "warning: two daemons are called h3?[2J\nwarning: 1 key in etcd cannot be read: healthd leaves them alone\n"
	got := inside("status", "--fleet", "--socket", socket)
	if got.code != 0 || !strings.Contains(got.stdout, "h1 (this host)") || strings.Contains(got.stdout, "web-1 ") || got.stderr != warnings {
		t.Errorf("%+v", got)
	}
	got = inside("status", "--fleet", "-o", "json", "--socket", socket)
	var v api.FleetView
	if err := json.Unmarshal([]byte(got.stdout), &v); err != nil || got.code != 0 || len(v.Members) != len(f.view.Members) || v.Host != "h1" || strings.Contains(got.stdout, "\x1b") {
		t.Errorf("%v: %+v", err, got)
	}
	etcdAway(f)
	got = inside("status", "--fleet", "--no-headers", "--socket", socket)
	if !strings.HasPrefix(got.stdout, "h1 ") || strings.Contains(got.stdout, "this host") || !strings.HasPrefix(got.stderr, "etcd cannot be reached for ") {
		t.Errorf("without headers: %+v", got)
	}
	alone, _ := daemonWith(t, &fake{}, container("web-1", nil))
	for args, cannot := range map[string]string{"status --fleet": "show the fleet", "status --fleet --watch": "show the fleet", "hold --fleet web": "hold services of the fleet", "resume --fleet web": "resume services of the fleet"} {
		got := inside(append(strings.Fields(args), "--socket", alone)...)
		if want := "healthd: cannot " + cannot + ": this healthd is in no fleet: write [fleet] into its configuration, with the endpoints of etcd\n"; got.code != 1 || got.stderr != want || got.stdout != "" {
			t.Errorf("%s: %+v, want %q", args, got, want)
		}
	}
}

// Names of hosts and services leave what belongs to them, and only that is counted.
func TestFleetByNames(t *testing.T) {
	socket, _ := daemonWith(t, &fake{fleet: threeHosts()})
	for _, tt := range []struct {
		names, rows, failed string
		code                int
	}{
		{"shop/web", "h1 live 1 1 0; h4 live 1 0 0; shop/web 2 3", "", 0},
		{"cart", "h4 live 0 0 1; shop/cart 0 1", "", 0},
		{"h1", "h1 live 2 1 0; db 1 1; shop/web 1 2", "", 0},
		{"h2", "h2 lost 0 0 0", "", 0},
		{"h2 db", "h1 live 1 0 0; h2 lost 0 0 0; db 1 1", "", 0},
		{"api", "old/api 0 0", "", 0},
		{"web", "", "healthd: cannot show web: several services have that name: blog/web, shop/web\n", 1},
		{"db nobody", "h1 live 1 0 0; db 1 1", "healthd: cannot show nobody: no host of the fleet has that name, and no service\n", 1},
		{"shop/wbe", "", "healthd: cannot show shop/wbe: no host of the fleet has that name, and no service: did you mean shop/web?\n", 1},
	} {
		args := append([]string{"status", "--fleet", "--no-headers", "--socket", socket}, strings.Fields(tt.names)...)
		got := inside(args...)
		var rows []string
		for row := range strings.Lines(got.stdout) {
			cells := strings.Fields(row)
			switch {
			case len(cells) >= 8 && strings.HasPrefix(cells[0], "h"):
				rows = append(rows, strings.Join(append(cells[:2:2], cells[4:7]...), " "))
			case len(cells) > 0:
				rows = append(rows, strings.Join(cells[:3], " "))
			}
		}
		if strings.Join(rows, "; ") != tt.rows || got.stderr != tt.failed || got.code != tt.code {
			t.Errorf("%s: %q, %+v, want %q, %q", tt.names, strings.Join(rows, "; "), got, tt.rows, tt.failed)
		}
	}
}

func TestFleetCompletion(t *testing.T) {
	socket, _ := daemonWith(t, &fake{fleet: threeHosts()}, container("web-1", nil))
	for args, want := range map[string]string{
		"status --fleet":         "blog/web db old/api shop/cart shop/web h1 h2 h3 h4",
		"status --fleet h1":      "blog/web db old/api shop/cart shop/web h2 h3 h4",
		"hold --fleet":           "blog/web db old/api shop/cart shop/web",
		"resume --fleet old/api": "blog/web db shop/cart shop/web",
		"hold":                   "shop web-1",
	} {
		words := append([]string{"__complete", "--socket", socket}, strings.Fields(args)...)
		got := inside(append(words, "")...)
		offered, _, _ := strings.Cut(got.stdout, ":4\n")
		if strings.Join(strings.Fields(offered), " ") != want || got.code != 0 {
			t.Errorf("%q: %+v, want %s", args, got, want)
		}
	}
}

func TestFleetServiceNames(t *testing.T) {
	all := []string{"a/web", "b/web", "c/x", "web"}
	for word, want := range map[string]string{"a/web": "a/web", "web": "web", "x": "c/x", "": "", "c": "", "/web": ""} {
		if got, err := fleetService(all, word); got != want || (want == "") != errors.Is(err, errNoFleetService) {
			t.Errorf("%q: %q, %v, want %q", word, got, err, want)
		}
	}
}
