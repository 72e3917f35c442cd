package supervisor

import (
	"testing"

	"healthd/runtime"
	"healthd/supervisor/core"
)

func named(runtimeName, namespace, id, name, service string) *core.View {
	return &core.View{Service: service, Container: &runtime.Container{Runtime: runtimeName, Namespace: namespace, ID: id, Name: name}}
}

// Containers of several runtimes and namespaces may have one name. Nobody who says it may get
// another one than the one that was meant.
func TestNamesOfSeveralRuntimes(t *testing.T) {
	b := NewBoard(nil,
		named("docker", "", "d0c0", "web", "shop"), named("containerd", "", "c0de", "web", "shop"),
		named("containerd", "blog", "blog:b106", "web", "blog"), named("docker", "", "d0c1", "db", "db"),
		named("containerd-2", "", "containerd-2:default:web", "web2", "web2"),
		named("docker", "", "01d0", "new", "new"), named("docker", "", "01d1", "new", "new"))
	const ambiguous = "AmbiguousName: containerd:blog:web, containerd:web, docker:web"
	for name, want := range map[string]string{
		"docker:web": "d0c0", "containerd:web": "c0de", "containerd:blog:web": "blog:b106", "web": ambiguous,
		"db": "d0c1", "docker:db": "d0c1", "containerd:db": "UnknownContainer", "docker:blog:web": "UnknownContainer",
		"web2": "containerd-2:default:web", "containerd-2:default:web": "containerd-2:default:web",
		"b106": "blog:b106", "blog:b106": "blog:b106", ":web": "UnknownContainer", "web:": "UnknownContainer", ":": "UnknownContainer",
		"shop/web":        "AmbiguousName: containerd:web, docker:web",
		"shop/docker:web": "d0c0", "blog/web": "blog:b106", "other/web": "OtherService", "blog/docker:web": "OtherService",
		"new": "01d1", "docker:new": "01d1", "new/new": "01d1", // the newer one takes the name of the older
	} {
		got := ""
		v, err := b.FindMember(name)
		if got = ReasonNotFound(err); err == nil {
			got = v.Container.ID
		}
		if got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
	for _, v := range b.Views() {
		c := v.Container
		if c.ID == "01d0" { // has lost its name
			continue
		}
		if found, err := b.Find(b.NameOf(c)); err != nil || found != v {
			t.Errorf("the name of %s, %s, finds %v, %v", c.ID, b.NameOf(c), found, err)
		}
	}
}

// A name is its container's own again once no other runtime has it.
func TestNameIsFreeAgain(t *testing.T) {
	b := &Board{}
	docker, containerd := &slot{}, &slot{}
	b.put(docker, named("docker", "", "d0c0", "web", "shop"))
	b.put(containerd, named("containerd", "", "c0de", "web", "shop"))
	if got := b.NameOf(docker.view.Load().Container); got != "docker:web" {
		t.Errorf("beside another one: got %s", got)
	}
	b.put(containerd, named("containerd", "", "c0de", "renamed", "shop"))
	if got := b.NameOf(docker.view.Load().Container); got != "web" {
		t.Errorf("after the other one was renamed: got %s", got)
	}
	if v, err := b.Find("web"); err != nil || v.Container.ID != "d0c0" {
		t.Errorf("got %v, %v", v, err)
	}
}

func TestNamesAmong(t *testing.T) {
	views := []*core.View{
		named("docker", "", "d0c0", "web", "shop"), named("containerd", "", "c0de", "web", "shop"), named("docker", "", "d0c1", "db", "shop"),
		named("docker", "", "01d0", "new", "shop"), named("docker", "", "01d1", "new", "shop"),
	}
	for i, want := range []string{"docker:web", "containerd:web", "db", "new", "new"} {
		if got := NamesAmong(views)[i]; got != want {
			t.Errorf("%d: got %s, want %s", i, got, want)
		}
	}
}

// Two containers of one name that have nothing to do with each other must not wait for each
// other, nor get each other's back-off.
func TestNamesakesShareNothing(t *testing.T) {
	labels := map[string]string{core.ComposeProject: "shop", core.ComposeService: "web", core.ComposeNumber: "1"}
	entryOf := func(runtimeName, id string, labels map[string]string) *entry {
		e := &entry{}
		e.setSpec(&runtime.Container{Runtime: runtimeName, ID: id, Name: "web", Labels: labels}, webSpec(), nil)
		return e
	}
	lineageOf := func(e *entry) string { return lineage(e.container.Runtime, e.container.ID, e.identity) }
	docker, containerd := entryOf("docker", "d0c0", nil), entryOf("containerd", "c0de", nil)
	if docker.groupKey == containerd.groupKey || docker.group != "web" {
		t.Errorf("alone: got the groups %s and %s", docker.groupKey, containerd.groupKey)
	}
	blog, again := entryOf("containerd", "blog:c0de", nil), entryOf("containerd", "blog:b106", nil)
	for _, other := range []*entry{containerd, blog} {
		if lineageOf(docker) == lineageOf(other) {
			t.Errorf("got %s twice", lineageOf(other))
		}
	}
	if lineageOf(blog) == lineageOf(containerd) || lineageOf(blog) != lineageOf(again) {
		t.Errorf("got %s, %s and then %s", lineageOf(containerd), lineageOf(blog), lineageOf(again))
	}
	spec := webSpec()
	spec.Group.Name = "web"
	member := &entry{}
	member.setSpec(&runtime.Container{Runtime: "docker", ID: "d0c0", Name: "web"}, spec, nil)
	other := &entry{}
	other.setSpec(&runtime.Container{Runtime: "docker", ID: "d0c1", Name: "web-2"}, spec, nil)
	if member.groupKey != other.groupKey {
		t.Errorf("of a group that is named as one of its members: got %s and %s", member.groupKey, other.groupKey)
	}
	one, two := entryOf("docker", "d0c0", labels), entryOf("containerd", "c0de", labels)
	if one.groupKey != "shop/web" || two.groupKey != one.groupKey || lineageOf(one) == lineageOf(two) {
		t.Errorf("of one Compose service: got %s, %s", one.groupKey, two.groupKey)
	}
}
