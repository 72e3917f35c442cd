package api

import (
	"net/http"
	"testing"

	"healthd/supervisor"
	"healthd/supervisor/core"
)

// What Traefik and Prometheus are told of services, byte by byte: they poll it, and compare it with what they have.
func TestDiscovery(t *testing.T) {
	member := func(v *core.View, service, address string, port int) *core.View {
		v.Service, v.Container.Address, v.Spec.Publish.Port = service, address, port
		return v
	}
	for _, tt := range []struct {
		name       string
		views      []*core.View
		traefik    string
		prometheus string
	}{
		{"no containers", nil, `{}`, `[]`},
		{"no service", []*core.View{member(readyContainer("a"), "", "10.0.0.5", 80)}, `{}`, `[]`},
		{
			"one", []*core.View{member(readyContainer("shop-web-1"), "shop/web", "10.0.0.5", 8080)},
			`{"http":{"services":{"shop--web":{"loadBalancer":{"servers":[{"url":"http://10.0.0.5:8080"}]}}}}}`,
			`[{"targets":["10.0.0.5:8080"],"labels":{"project":"shop","service":"shop/web","container":"shop-web-1","ready":"true"}}]`,
		},
		{
			"only ready ones take requests", []*core.View{
				member(drainingContainer("web-3"), "web", "10.0.0.3", 80),
				member(unreadyContainer("web-2"), "web", "10.0.0.2", 80),
				member(readyContainer("web-1"), "web", "10.0.0.1", 80),
			},
			`{"http":{"services":{"web":{"loadBalancer":{"servers":[{"url":"http://10.0.0.1:80"}]}}}}}`,
			`[{"targets":["10.0.0.1:80"],"labels":{"project":"","service":"web","container":"web-1","ready":"true"}},` +
				`{"targets":["10.0.0.2:80"],"labels":{"project":"","service":"web","container":"web-2","ready":"false"}},` +
				`{"targets":["10.0.0.3:80"],"labels":{"project":"","service":"web","container":"web-3","ready":"false"}}]`,
		},
		{
			"nobody is ready", []*core.View{member(unreadyContainer("web-1"), "web", "10.0.0.1", 80)},
			`{"http":{"services":{"web":{"loadBalancer":{"servers":[]}}}}}`,
			`[{"targets":["10.0.0.1:80"],"labels":{"project":"","service":"web","container":"web-1","ready":"false"}}]`,
		},
		{
			"no address", []*core.View{member(readyContainer("web-1"), "web", "", 80)},
			`{"http":{"services":{"web":{"loadBalancer":{"servers":[]}}}}}`, `[]`,
		},
		{"no port", []*core.View{member(readyContainer("db-1"), "db", "10.0.0.1", 0)}, `{}`, `[]`},
		{
			"some have a port", []*core.View{member(readyContainer("db-1"), "db", "10.0.0.1", 0), member(readyContainer("db-2"), "db", "10.0.0.2", 5432)},
			`{"http":{"services":{"db":{"loadBalancer":{"servers":[{"url":"http://10.0.0.2:5432"}]}}}}}`,
			`[{"targets":["10.0.0.2:5432"],"labels":{"project":"","service":"db","container":"db-2","ready":"true"}}]`,
		},
		{
			"IPv6", []*core.View{member(readyContainer("web-1"), "web", "fd00::5", 80)},
			`{"http":{"services":{"web":{"loadBalancer":{"servers":[{"url":"http://[fd00::5]:80"}]}}}}}`,
			`[{"targets":["[fd00::5]:80"],"labels":{"project":"","service":"web","container":"web-1","ready":"true"}}]`,
		},
		{
			"in order, under names of their own", []*core.View{
				member(readyContainer("c"), "shop/web", "10.0.0.3", 80), member(readyContainer("b"), "shop--web", "10.0.0.2", 80), member(readyContainer("a"), "blog/web", "10.0.0.1", 80),
			},
			`{"http":{"services":{"blog--web":{"loadBalancer":{"servers":[{"url":"http://10.0.0.1:80"}]}},` +
				`"shop--web":{"loadBalancer":{"servers":[{"url":"http://10.0.0.3:80"}]}},"shop-_-web":{"loadBalancer":{"servers":[{"url":"http://10.0.0.2:80"}]}}}}}`,
			`[{"targets":["10.0.0.1:80"],"labels":{"project":"blog","service":"blog/web","container":"a","ready":"true"}},` +
				`{"targets":["10.0.0.2:80"],"labels":{"project":"","service":"shop--web","container":"b","ready":"true"}},` +
				`{"targets":["10.0.0.3:80"],"labels":{"project":"shop","service":"shop/web","container":"c","ready":"true"}}]`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a, _, _ := newAPI(tt.views...)
			for path, want := range map[string]string{"/v1/discovery/traefik": tt.traefik, "/v1/discovery/prometheus": tt.prometheus} {
				w := get(t, a.ReadOnly(), path)
				if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "application/json" || w.Body.String() != want+"\n" {
					t.Errorf("%s: %d %v\n%s\nwant\n%s", path, w.Code, w.Header(), w.Body, want)
				}
			}
		})
	}
}

// With an engine missing, an answer would take away what runs there.
func TestDiscoveryWaitsForAllEngines(t *testing.T) {
	web := readyContainer("web-1")
	web.Service = "web"
	for _, tt := range []struct {
		name     string
		runtimes []supervisor.RuntimeView
		want     int
	}{
		{"none is known", []supervisor.RuntimeView{{Name: "docker"}, {Name: "containerd"}}, http.StatusServiceUnavailable},
		{"one is not", []supervisor.RuntimeView{synced("docker"), {Name: "containerd"}}, http.StatusServiceUnavailable},
		{"both are", []supervisor.RuntimeView{synced("docker"), synced("containerd")}, http.StatusOK},
		{"one is lost", []supervisor.RuntimeView{synced("docker"), {Name: "containerd", Synced: true}}, http.StatusOK},
	} {
		asked := 0
		a := New(Config{Board: supervisor.NewBoard(tt.runtimes, web), TraefikAsks: func() { asked++ }})
		for _, path := range []string{"/v1/discovery/traefik", "/v1/discovery/prometheus", "/v1/services"} {
			if w := get(t, a.ReadOnly(), path); w.Code != tt.want {
				t.Errorf("%s: %s: %d %s, want %d", tt.name, path, w.Code, w.Body, tt.want)
			}
		}
		unknown := http.StatusNotFound
		if tt.want != http.StatusOK {
			unknown = tt.want
		}
		for path, want := range map[string]int{"/v1/services/web": tt.want, "/v1/services/other": unknown} {
			if w := get(t, a.ReadOnly(), path); w.Code != want {
				t.Errorf("%s: %s: %d %s, want %d", tt.name, path, w.Code, w.Body, want)
			}
		}
		if asked != 1 {
			t.Errorf("%s: Traefik asked %d times", tt.name, asked)
		}
	}
}
