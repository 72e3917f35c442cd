package haproxy

import (
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"healthd/e2e/patience"
	"healthd/e2e/ports"
)

// What all servers of the configuration have is given to a server that is added, and of what they differ in what does not
// burden it. Backup servers, and those that healthd has added, are no siblings.
func TestSettingsOfSiblings(t *testing.T) {
	t.Parallel()
	sibling := func(of server) *server { of.active = true; return &of }
	added := server{id: firstID, forcedID: true, weight: 100, initialWeight: 100, agentAddress: agentAddress{"127.0.0.1", 18647}}
	for _, tt := range []struct {
		name    string
		servers []*server
		want    string
	}{
		{"none", []*server{sibling(added), {initialWeight: 7}}, "weight 100 pool-max-conn -1 pool-purge-delay 5s check inter 2s fall 3 rise 2"},
		{"one", []*server{sibling(server{initialWeight: 1, maxConn: 7, maxQueue: 9, checkPort: 81, rise: 5, fall: 4})},
			"weight 1 maxconn 7 maxqueue 9 pool-max-conn 0 pool-purge-delay 5s check port 81 inter 2s fall 4 rise 5"},
		{"several", []*server{
			sibling(server{initialWeight: 5, maxConn: 7, checkPort: 81, idleMost: 3}), sibling(server{initialWeight: 3, maxConn: 6, maxQueue: 1, rise: 5, fall: 4, idleMost: -1}),
		}, "weight 3 maxconn 6 pool-max-conn -1 pool-purge-delay 5s check inter 2s fall 3 rise 2"},
		{"weight 0", []*server{sibling(server{idleMost: 3}), sibling(server{initialWeight: 5, idleMost: 3})},
			"weight 5 pool-max-conn 3 pool-purge-delay 5s check inter 2s fall 3 rise 2"},
		{"all weight 0", []*server{sibling(server{idleMost: 3})}, "weight 100 pool-max-conn 3 pool-purge-delay 5s check inter 2s fall 3 rise 2"},
	} {
		if got := planFor("web", tt.servers, nil, 0).siblings().settings(); got != tt.want {
			t.Errorf("%s: got %s", tt.name, got)
		}
	}
}

// A real HAProxy shows of an added server what it shows of its siblings, and shares the requests between them alike, on
// connections that it uses again.
func TestAddedServerIsLikeItsSiblings(t *testing.T) {
	t.Parallel()
	var opened [2]atomic.Int64 // connections
	var asked [2]atomic.Int64
	var at [2]int
	for i := range at {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		at[i] = ln.Addr().(*net.TCPAddr).Port
		s := &http.Server{
			Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { asked[i].Add(1) }),
			ConnState: func(_ net.Conn, state http.ConnState) {
				if state == http.StateNew {
					opened[i].Add(1)
				}
			},
		}
		t.Cleanup(func() { s.Close() })
		go func() { _ = s.Serve(ln) }()
	}
	front := ports.Free(t)
	b := startBalancer(t, frontend(front)+fmt.Sprintf("backend web\n  balance roundrobin\n  http-reuse always\n"+
		"  server s1 127.0.0.1:%d maxconn 50 maxqueue 60 check addr 127.0.0.1 port %d rise 1 fall 4\n", at[0], at[0]))
	e := b.startPushing()
	e.setIn("web", "c1", "127.0.0.1", at[1], "up")
	var shown []*server
	patience.Until(t, "both are up", func() (err error) {
		shown, err = b.servers("web")
		if err == nil && (len(shown) != 2 || !shown[0].takesTraffic() || !shown[1].takesTraffic()) {
			err = fmt.Errorf("HAProxy shows %+v", shown)
		}
		return err
	})
	like, c1 := *shown[0], *shown[slices.IndexFunc(shown, func(s *server) bool { return s.name == "c1" })]
	if c1.initialWeight != like.initialWeight || c1.weight != like.weight || c1.maxConn != 50 || c1.maxQueue != 60 || c1.rise != 1 || c1.fall != 4 ||
		c1.idleMost != like.idleMost || c1.checkAddress != like.checkAddress || c1.checkPort != at[0] {
		t.Errorf("it is %+v, and its sibling %+v", c1, like)
	}
	asked[0].Store(0)
	asked[1].Store(0)
	opened[1].Store(0)
	const requests = 50
	for range requests {
		answer, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d", front))
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
	}
	if n := asked[1].Load(); n < requests/2-1 || n > requests/2+1 {
		t.Errorf("it got %d of %d requests", n, requests)
	}
	if n := opened[1].Load(); n >= requests/2-1 { // one for each thread of HAProxy, at most
		t.Errorf("its %d requests came on %d connections", asked[1].Load(), n)
	}
	e.noErrors()
}

// Clients stick to an added server by a cookie where HAProxy has one for it, from 3.0 on; before, healthd says so.
func TestCookieOfAddedServers(t *testing.T) {
	t.Parallel()
	for name, sibling := range map[string]string{"alone": "", "with a sibling": "  server s1 127.0.0.9:81 cookie s1\n"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := startBalancer(t, "backend web\n  cookie SRV insert\n"+sibling)
			info, err := b.try("show info")
			if err != nil {
				t.Fatal(err)
			}
			e := b.startPushing()
			e.set("c1", "A", "up")
			e.set("c2", "B", "up")
			patience.Until(t, "both are up", func() error {
				all, err := b.servers("web")
				n := 0
				for _, s := range all {
					if s.takesTraffic() && s.name != "s1" {
						n++
					}
				}
				if err == nil && n < 2 {
					err = fmt.Errorf("they are %+v", all)
				}
				return err
			})
			if strings.Contains(info, "Version: 2.") {
				e.waitForEvent(EventError, "clients do not stick to the servers that healthd adds to backend web: HAProxy before 3.0 gives these no cookie. "+
					"Give it slots (server-template) and a dynamic-cookie-key")
				e.waitForProblems("clients do not stick")
				return
			}
			all, err := b.servers("web")
			if err != nil || slices.ContainsFunc(all, func(s *server) bool { return !s.cookie }) {
				t.Errorf("they are %+v, %v", all, err)
			}
			e.noErrors()
		})
	}
}
