package haproxy

import (
	"testing"

	"healthd/runtime"
	"healthd/supervisor/core"
)

// A server's name stays its container's own while it is the only one in its backend, so that
// servers of a configuration file keep their containers. healthd must find what an agent check
// asks for.
func TestNamesakes(t *testing.T) {
	view := func(engine, id, service, backend string) *core.View {
		return &core.View{
			Container: &runtime.Container{Runtime: engine, ID: id, Name: "web", SharesName: engine == "containerd", Address: "172.18.0.5"}, Service: service,
			Spec:  &core.Spec{Publish: core.Publish{Service: service, Port: 80, HAProxy: core.HAProxy{Backend: backend}}},
			State: core.NewState(),
		}
	}
	all := members([]*core.View{
		view("docker", "a", "shop", "shop"), view("containerd", "b", "shop", "shop"),
		view("docker-2", "c", "shop", "other"), view("docker-3", "d", "blog", "blog"),
		view("docker-4", "g", "p/web", "compose"),
		view("containerd", "e", "twice", "twice"), view("containerd", "f", "twice", "twice"),
	})
	for backend, want := range map[string]map[string]string{ // agent names by server name
		"shop":    {"docker:web": "shop/docker:web", "containerd:web": "shop/containerd:web"},
		"other":   {"web": "shop/docker-2:web"},
		"blog":    {"web": "blog/web"},
		"compose": {"web": "p/web/web"},
		"twice":   {"id:e": "twice/id:e", "id:f": "twice/id:f"},
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
