package haproxy

import (
	"testing"

	"healthd/runtime"
	"healthd/supervisor"
	"healthd/supervisor/core"
)

// A server's name stays its container's own while it is the only one in its backend, so that
// servers of a configuration file keep their containers. healthd must find what an agent check
// asks for.
func TestNamesakes(t *testing.T) {
	view := func(engine, id, service, backend string) supervisor.Member {
		return supervisor.MemberOf(&core.View{
			Container: &runtime.Container{Runtime: engine, ID: id, Name: "web", SharesName: engine == "containerd", Address: "172.18.0.5"}, Service: service,
			Spec:  &core.Spec{Publish: core.Publish{Service: service, Port: 80, HAProxy: core.HAProxy{Backend: backend}}},
			State: core.NewState(),
		})
	}
	remote := func(host, id, service, backend string) supervisor.Member {
		return supervisor.Member{Host: host, Container: "web", ID: host + "/" + id, Service: service, Backend: backend, Address: "10.0.0.2", Port: 32768}
	}
	all := members([]supervisor.Member{
		view("docker", "a", "shop", "shop"), view("containerd", "b", "shop", "shop"),
		view("docker-2", "c", "shop", "other"), view("docker-3", "d", "blog", "blog"),
		view("docker-4", "g", "p/web", "compose"),
		view("containerd", "e", "twice", "twice"), view("containerd", "f", "twice", "twice"),
		view("docker-5", "h", "fleet", "fleet"), remote("h2", "a", "fleet", "fleet"), remote("h3.example", "a", "p/fleet", "fleet"), remote("h2", "b", "", "none"),
	})
	for backend, want := range map[string]map[string]string{ // agent names by server name
		"shop":    {"docker:web": "shop/docker:web", "containerd:web": "shop/containerd:web"},
		"other":   {"web": "shop/docker-2:web"},
		"blog":    {"web": "blog/web"},
		"compose": {"web": "p/web/web"},
		"twice":   {"id:e": "twice/id:e", "id:f": "twice/id:f"},
		"fleet":   {"web": "fleet/web", "h2:web": "fleet/h2:web", "h3.example:web": "p/fleet/h3.example:web"},
		"none":    {"h2:web": "h2:web"},
	} {
		if len(all[backend]) != len(want) {
			t.Errorf("%s: got %+v", backend, all[backend])
		}
		for _, m := range all[backend] {
			if want[m.name] != m.agentName || m.invalid != "" || m.duplicateName {
				t.Errorf("%s: got %+v", backend, m)
			}
		}
	}
}
