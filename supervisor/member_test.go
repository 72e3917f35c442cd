package supervisor

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"healthd/prober"
	"healthd/runtime"
	"healthd/supervisor/core"
)

// elsewhere is a container that another host publishes under a service.
func elsewhere(host, id, name, service string) Member {
	return Member{
		Host: host, Container: name, ID: host + "/" + id, Run: runtime.Run{ID: host + "/" + id, Started: 1}, Service: service,
		Address: "10.0.0.2", Port: 32768, Phase: core.PhaseRunning, Ready: true,
	}
}

// found is whom FindMember finds: its ID, or why it finds nobody.
func found(b *Board, name string) string {
	m, err := b.FindMember(name)
	if err != nil {
		return ReasonNotFound(err)
	}
	return m.ID
}

// A member of another host is called HOST:CONTAINER, and never what a container of this host is called.
func TestNamesOfOtherHosts(t *testing.T) {
	b := NewBoard(nil, published("web-1", "shop/web", false), published("db", "db", true), named("h3", "", "of-runtime-h3", "web-1", "shop/web"))
	b.ShowRemote([]Member{
		elsewhere("h2", "1", "web-1", "shop/web"), elsewhere("h2", "2", "web-2", "shop/web"), elsewhere("h3", "1", "web-1", "blog/web"),
		elsewhere("h2.example", "1", "docker:cache", "cache"), elsewhere("h2", "3", "id:beef", "cache"),
	}, nil)
	for name, want := range map[string]string{
		"h2:web-1": "h2/1", "shop/web/h2:web-1": "h2/1", "web/h2:web-1": "h2/1", "blog/web/h2:web-1": "OtherService", "h2:web-2": "h2/2",
		"web-2": "UnknownContainer", "web/web-2": "UnknownContainer", "h4:web-1": "UnknownContainer", "h2:": "UnknownContainer", ":web-1": "UnknownContainer",
		"docker:web-1": "id-of-web-1", "web/docker:web-1": "id-of-web-1",
		"h3:web-1": "of-runtime-h3", "shop/web/h3:web-1": "of-runtime-h3", "blog/web/h3:web-1": "h3/1", "db/h3:web-1": "OtherService",
		"h2.example:docker:cache": "h2.example/1", "cache/h2.example:docker:cache": "h2.example/1", "h2:id:beef": "h2/3",
		"h2/1": "UnknownContainer", "id:h2/1": "UnknownContainer", "db": "id-of-db",
	} {
		if got := found(b, name); got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
	all := slices.Collect(b.AllMembers())
	if len(all) != 8 || all[0].Local == nil || all[7].Local != nil {
		t.Errorf("all are %+v", all)
	}
	for i, name := range MemberNames(all) {
		if all[i].Host != "h3" && found(b, name) != all[i].ID { // h3 has the name of one of this host's runtimes
			t.Errorf("%s is not found by its name %s", all[i].ID, name)
		}
		if m, ok := b.Member(all[i].ID); !ok || m != all[i] {
			t.Errorf("the member %s is %+v, want %+v", all[i].ID, m, all[i])
		}
	}
	if _, ok := b.Member("h2/9"); ok {
		t.Error("there is a member nobody has shown")
	}
}

// A host may be called as a runtime of this one is. Its members are not taken for this host's containers, whose names need no
// runtime.
func TestHostWithTheNameOfARuntime(t *testing.T) {
	b := NewBoard(nil, published("web-1", "shop/web", false), published("db", "db", true), named("podman", "", "of-podman", "db", "db"))
	b.ShowRemote([]Member{elsewhere("docker", "1", "web-1", "shop/web"), elsewhere("podman", "1", "web-1", "blog/web"), elsewhere("docker", "2", "db", "db")}, nil)
	for name, want := range map[string]string{
		"web-1": "id-of-web-1", "docker:web-1": "docker/1", "shop/web/docker:web-1": "docker/1", "web/docker:web-1": "docker/1",
		"podman:web-1": "podman/1", "shop/web/podman:web-1": "OtherService", "shop/docker:web-1": "OtherService",
		"docker:db": "id-of-db", "db/docker:db": "id-of-db", "db/podman:db": "of-podman",
	} {
		if got := found(b, name); got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
	b.ShowRemote(nil, []string{"docker/1"})
	if got := found(b, "shop/web/docker:web-1"); got != "id-of-web-1" {
		t.Errorf("without the host: got %s", got)
	}
}

// For a moment a container and the one that replaces it are both there. Whoever goes, the other keeps the name.
func TestNameOfOtherHostIsTakenOver(t *testing.T) {
	old, next := elsewhere("h2", "old", "web", "shop"), elsewhere("h2", "new", "web", "shop")
	b := &Board{}
	b.ShowRemote([]Member{old, next}, nil)
	old.Ready = false
	b.ShowRemote([]Member{old}, nil) // a late word of it
	if got := found(b, "h2:web"); got != "h2/new" {
		t.Errorf("got %s, want the newer one", got)
	}
	b.ShowRemote(nil, []string{"h2/new"})
	if got := found(b, "h2:web"); got != "h2/old" {
		t.Errorf("got %s, want the one that is left", got)
	}
	old.Container = "web-old"
	b.ShowRemote([]Member{old, next}, []string{"h2/none"})
	if found(b, "h2:web") != "h2/new" || found(b, "h2:web-old") != "h2/old" {
		t.Errorf("after a change of name: %s, %s", found(b, "h2:web"), found(b, "h2:web-old"))
	}
	b.ShowRemote(nil, []string{"h2/old", "h2/new"})
	if got := found(b, "h2:web"); got != "UnknownContainer" {
		t.Errorf("got %s, and all are gone", got)
	}
	for name := range b.remote.byName.all {
		t.Errorf("the name %s is left", name)
	}
	for part := range b.remote.services.byPart.all {
		t.Errorf("the service %s is left", part)
	}
}

func endpointsText(s Service, err error) string {
	if err != nil {
		return ReasonNotFound(err)
	}
	var names []string
	for _, e := range s.Endpoints {
		names = append(names, e.Container)
	}
	return s.Name + ": " + strings.Join(names, " ")
}

// What a short name of a service means depends on the services of all hosts. What is done on this host is not.
func TestServicesOfAllHosts(t *testing.T) {
	b := NewBoard(nil, published("web-2", "shop/web", false), published("web-1", "shop/web", false), published("api-1", "shop/api", false))
	check := func(when string, want map[string]string) {
		t.Helper()
		for name, want := range want {
			if got := endpointsText(b.FindWholeService(name)); got != want {
				t.Errorf("%s: %q: got %s, want %s", when, name, got, want)
			}
		}
		if got := serviceText(b.FindService("web")); got != "shop/web: web-1 web-2" {
			t.Errorf("%s: on this host: %s", when, got)
		}
	}
	check("alone", map[string]string{"web": "shop/web: web-1 web-2", "cache": "UnknownContainer"})
	named := elsewhere("h2", "4", "api-9", "api")
	named.Owned = true
	b.ShowRemote([]Member{
		elsewhere("h3", "1", "web-1", "shop/web"), elsewhere("h2", "1", "web-2", "shop/web"), elsewhere("h2", "2", "cache-1", "shop/cache"), named,
	}, nil)
	check("with others", map[string]string{
		"web": "shop/web: web-1 web-2 h2:web-2 h3:web-1", "shop/web": "shop/web: web-1 web-2 h2:web-2 h3:web-1",
		"cache": "shop/cache: h2:cache-1", "api": "api: h2:api-9", "shop/api": "shop/api: api-1",
	})
	b.ShowRemote([]Member{elsewhere("h2", "3", "blog-1", "blog/web")}, nil)
	check("with another project's", map[string]string{"web": "AmbiguousService: blog/web, shop/web", "shop/web": "shop/web: web-1 web-2 h2:web-2 h3:web-1"})
	b.ShowRemote(nil, []string{"h2/1", "h2/2", "h2/3", "h2/4", "h3/1"})
	check("alone again", map[string]string{"web": "shop/web: web-1 web-2", "cache": "UnknownContainer", "api": "shop/api: api-1"})
}

// A service has the endpoints of all hosts, and is one's by the word of any file.
func TestEndpointsOfAllHosts(t *testing.T) {
	b := NewBoard([]RuntimeView{{Name: "docker", Synced: true}, {Name: "podman"}}, published("web-1", "web", false), named("podman", "", "p", "web-3", "web"))
	draining := elsewhere("h2", "1", "web-1", "web")
	draining.Owned, draining.Ready, draining.Draining, draining.Phase = true, false, true, core.PhaseUnknown
	b.ShowRemote([]Member{elsewhere("h3", "1", "web-2", "web"), draining, elsewhere("h2", "2", "none", "")}, nil)
	const want = "web, named by a file: web-1=:0, unreachable; h2:web-1=10.0.0.2:32768 draining; h3:web-2=10.0.0.2:32768 ready\n"
	services, all := b.ServicesSynced()
	if got := servicesText(services); got != want || all {
		t.Errorf("got %s, %v; want %s, some are missing", got, all, want)
	}
	services = b.Services()
	if len(services) != 1 || len(services[0].Endpoints) != 4 || services[0].Phase() != core.PhaseUnknown {
		t.Fatalf("all services are %+v", services)
	}
	if e := services[0].Endpoints[2]; e.Host != "h2" || e.ID != "h2/1" || e.Phase != core.PhaseUnknown {
		t.Errorf("the endpoint of another host is %+v", e)
	}
}

// A container of this host is the same member as it is a view.
func TestMemberOf(t *testing.T) {
	v := published("web-1", "shop/web", true)
	v.Group, v.Container.Address, v.State.Run.ID = "shop/web", "172.18.0.2", runtime.Run{ID: "id-of-web-1", Started: 5}
	v.Spec.Publish.Port, v.Spec.Publish.HAProxy.Backend = 8080, "shop"
	v.State.Engine.State, v.State.Conditions.Started.Status = runtime.Running, true
	v.State.Conditions.Ready.Status, v.State.Conditions.ContainerReady.Status = true, true
	want := Member{
		Container: "web-1", Local: v.Container, ID: "id-of-web-1", Run: v.State.Run.ID, Service: "shop/web", Owned: true, Group: "shop/web",
		Backend: "shop", Address: "172.18.0.2", Port: 8080, Phase: core.PhaseRunning, Ready: true,
	}
	if got := MemberOf(v); got != want {
		t.Errorf("ready: got %+v, want %+v", got, want)
	}
	v.State.Conditions.Ready.Status, v.State.Conditions.ContainerReady.Status = false, false
	v.State.Action.Stopping, v.State.Health.Probes[core.Readiness].Result = core.ByLiveness, prober.Success
	want.Ready, want.Reason, want.Draining, want.DrainingReady = false, core.NotReadyDraining, true, true
	want.AwaitsDrain, want.AwaitsWithdrawal = true, true
	if got := MemberOf(v); got != want {
		t.Errorf("draining: got %+v, want %+v", got, want)
	}
	got := MemberOf(&core.View{Container: v.Container, Invalid: "labels", State: core.NewState()})
	if got.Reason != core.NotReadyInvalid || got.Ready || got.Port != 0 || got.Backend != "" || got.Service != "" {
		t.Errorf("invalid: got %+v", got)
	}
}

// Who waits for a name of this host does not wait for the fleet.
func TestComplete(t *testing.T) {
	for _, tt := range []struct {
		synced, fleet, known        bool
		complete, local, ofAnything bool
	}{
		{false, false, false, false, false, false}, {true, false, false, true, true, true}, {false, true, true, false, false, false},
		{true, true, false, false, true, false}, {true, true, true, true, true, true},
	} {
		b := NewBoard([]RuntimeView{{Name: "docker", Synced: tt.synced}})
		if tt.fleet {
			b.ExpectRemote()
		}
		if tt.known {
			b.RemoteKnown()
		}
		_, all := b.ServicesSynced()
		got := fmt.Sprint(b.Complete(), b.Knows("shop/web/web-1"), b.Knows("shop/web/h2:web-1"), b.Knows("h2:web-1"), all)
		if want := fmt.Sprint(tt.complete, tt.local, tt.ofAnything, tt.ofAnything, tt.complete); got != want {
			t.Errorf("%+v: got %s, want %s", tt, got, want)
		}
	}
}
