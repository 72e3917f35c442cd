package api

import (
	"fmt"
	"net/http"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"healthd/supervisor"
	"healthd/supervisor/core"
)

// elsewhere is a ready container of host h2.
func elsewhere(name, service string) supervisor.Member {
	return supervisor.Member{
		Host: "h2", Container: name, ID: "h2/" + name, Service: service, Address: "10.0.0.2", Port: 32768, Phase: core.PhaseRunning, Ready: true,
	}
}

// elsewhereDraining is one that drains.
func elsewhereDraining(name, service string) supervisor.Member {
	m := elsewhere(name, service)
	m.Ready, m.Reason, m.Draining, m.DrainingReady = false, core.NotReadyDraining, true, true
	return m
}

// Whoever asks for readiness or services is answered for all hosts.
func TestOtherHosts(t *testing.T) {
	a, _, _ := newAPI(readyContainer("web-1"))
	failing := elsewhere("web-2", "shop")
	failing.Ready, failing.Reason, failing.Phase = false, core.NotReadyReadiness, core.PhaseUnknown
	a.board.ShowRemote([]supervisor.Member{elsewhere("web-1", "shop"), failing, elsewhereDraining("web-3", "shop"), elsewhere("x", "blog/api")}, nil)
	const web = `{"name":"shop","phase":"Unknown","endpoints":[{"container":"web-1","address":"172.18.0.5","port":8080,"ready":true,"draining":false},` +
		`{"container":"h2:web-1","host":"h2","address":"10.0.0.2","port":32768,"ready":true,"draining":false},` +
		`{"container":"h2:web-2","host":"h2","address":"10.0.0.2","port":32768,"ready":false,"draining":false},` +
		`{"container":"h2:web-3","host":"h2","address":"10.0.0.2","port":32768,"ready":false,"draining":true}]}`
	const api = `{"name":"blog/api","phase":"Running","endpoints":[{"container":"h2:x","host":"h2","address":"10.0.0.2","port":32768,"ready":true,"draining":false}]}`
	for path, want := range map[string]string{
		"/v1/ready/h2:web-1": "200 ready", "/v1/ready/shop/h2:web-1": "200 ready", "/v1/ready/blog/h2:web-1": "503 not ready: OtherService",
		"/v1/ready/h2:web-2": "503 not ready: ReadinessFailed", "/v1/ready/h2:web-3": "404 draining", "/v1/ready/h3:web-1": "503 not ready: UnknownContainer",
		"/v1/ready/blog/api/h2:x": "200 ready", "/v1/services/api": "200 " + api, "/v1/services/shop": "200 " + web,
		"/v1/services/shop/ready?min=2": "200 ready", "/v1/services/shop/ready?min=3": "503 not ready: 2 of 4 endpoints ready, 3 needed",
		"/v1/discovery/traefik": `200 {"http":{"services":{"blog--api":{"loadBalancer":{"servers":[{"url":"http://10.0.0.2:32768"}]}},` +
			`"shop":{"loadBalancer":{"servers":[{"url":"http://172.18.0.5:8080"},{"url":"http://10.0.0.2:32768"}]}}}}}`,
	} {
		answer := get(t, a.ReadOnly(), path)
		if got := fmt.Sprint(answer.Code, " ", answer.Body); got != want+"\n" {
			t.Errorf("%s: got %s, want %s", path, got, want)
		}
	}
	if got, want := string(indented(t, get(t, a.ReadOnly(), "/v1/services").Body.Bytes())), string(indented(t, []byte("["+api+","+web+"]\n"))); got != want {
		t.Errorf("all services are\n%s\nwant\n%s", got, want)
	}
	a.board.ShowRemote(nil, []string{"h2/web-1", "h2/web-2", "h2/web-3"})
	const want = `[{"targets":["10.0.0.2:32768"],"labels":{"project":"blog","service":"blog/api","container":"h2:x","host":"h2","ready":"true"}},` +
		`{"targets":["172.18.0.5:8080"],"labels":{"project":"","service":"shop","container":"web-1","ready":"true"}}]` + "\n"
	if got := get(t, a.ReadOnly(), "/v1/discovery/prometheus").Body.String(); got != want {
		t.Errorf("to Prometheus: %s, want %s", got, want)
	}
}

// What HAProxy says with a check of another host's container is noted for that one.
func TestCheckedOfOtherHost(t *testing.T) {
	board := supervisor.NewBoard([]supervisor.RuntimeView{synced("docker")})
	board.ShowRemote([]supervisor.Member{elsewhere("web-1", "shop")}, nil)
	noted := ""
	a := New(Config{Board: board, ChecksFrom: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}, Checked: func(id, state string) { noted = id + " " + state }})
	r, err := http.NewRequest(http.MethodGet, "/v1/ready/shop/h2:web-1", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.RemoteAddr = "192.0.2.1:1"
	r.Header.Set(stateHeader, "UP 2/3")
	if w := record(t, a.ReadOnly(), r); w.Code != http.StatusOK || noted != "h2/web-1 UP 2/3" {
		t.Errorf("got %d, noted %q", w.Code, noted)
	}
}

// Until the members of other hosts are known, checks of those wait, and of services that may have some. Others do not.
func TestChecksWaitForFleet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startWith(t, "docker")
		board := s.supervisor.Board()
		board.ExpectRemote()
		s.lists("docker", "web-1")
		s.syncs("docker")
		synctest.Wait()
		s.want(s.ask(t.Context(), http.MethodGet, "/v1/ready/web-1"), 200, textReady, 0)
		s.want(s.ask(t.Context(), http.MethodGet, "/v1/ready/web-9"), 503, "not ready: UnknownContainer\n", 0)
		s.want(s.ask(t.Context(), http.MethodGet, "/v1/services/shop%2Fweb/ready"), 200, textReady, 0)
		s.want(s.ask(t.Context(), http.MethodGet, "/readyz"), 200, "ok\n", 0)
		there := s.ask(t.Context(), http.MethodGet, "/v1/ready/h2:web-1")
		gone := s.ask(t.Context(), http.MethodGet, "/v1/ready/shop/web/h2:web-9")
		two := s.ask(t.Context(), http.MethodGet, "/v1/services/shop%2Fweb/ready?min=2")
		three := s.ask(t.Context(), http.MethodGet, "/v1/services/shop%2Fweb/ready?min=3")
		s.sleepUntil(time.Second)
		board.ShowRemote([]supervisor.Member{elsewhere("web-1", "shop/web")}, nil)
		s.want(there, 200, textReady, time.Second)
		s.want(two, 200, textReady, time.Second)
		s.sleepUntil(2 * time.Second)
		board.RemoteKnown()
		s.want(gone, 503, "not ready: UnknownContainer\n", 2*time.Second)
		s.want(three, 503, "not ready: 2 of 2 endpoints ready, 3 needed\n", 2*time.Second)
	})
}

// Without the members of other hosts, an answer would take them away.
func TestDiscoveryWaitsForFleet(t *testing.T) {
	a, _, _ := newAPI(readyContainer("web-1"))
	a.board.ExpectRemote()
	for _, want := range []int{http.StatusServiceUnavailable, http.StatusOK} {
		for _, path := range []string{"/v1/discovery/traefik", "/v1/discovery/prometheus"} {
			if w := get(t, a.ReadOnly(), path); w.Code != want {
				t.Errorf("%s: %d %s, want %d", path, w.Code, w.Body, want)
			}
		}
		a.board.RemoteKnown()
	}
}
