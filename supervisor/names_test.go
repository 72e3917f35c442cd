package supervisor

import (
	"fmt"
	"strings"
	"testing"

	"healthd/runtime"
	"healthd/supervisor/core"
)

func named(runtimeName, namespace, id, name, service string) *core.View {
	return &core.View{Service: service, Container: &runtime.Container{Runtime: runtimeName, Namespace: namespace, ID: id, Name: name}, State: core.NewState()}
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
			got = v.ID
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

// labelled is named for an engine where names are labels.
func labelled(namespace, id, name, service string) *core.View {
	v := named("containerd", namespace, id, name, service)
	v.Container.SharesName = true
	return v
}

// Where names are labels, two containers of one namespace may have the same, or one the ID of the
// other. None of them is acted on by guess, whichever is newer.
func TestNamesThatAreLabels(t *testing.T) {
	views := []*core.View{
		labelled("", "web", "web", "shop"), labelled("", "c0de", "web", "shop"), labelled("blog", "blog:web", "web", "blog"),
		labelled("", "c0d1", "db", "shop"), labelled("", "c0d2", "db", "other"), labelled("", "c0d3", "c0d4", "alone"), labelled("", "c0d4", "cache", "alone"),
	}
	b := NewBoard(nil, append(views, named("docker", "", "d0c0", "db", "shop"))...)
	for name, want := range map[string]string{
		"web": "AmbiguousName: containerd:blog:web, id:c0de, id:web", "containerd:web": "AmbiguousName: id:c0de, id:web",
		"shop/web": "AmbiguousName: id:c0de, id:web", "blog/web": "blog:web", "containerd:blog:web": "blog:web",
		"id:web": "web", "shop/id:web": "web", "id:c0de": "c0de", "c0de": "c0de", "id:blog:web": "blog:web", "id:db": "UnknownContainer", "id:": "UnknownContainer",
		"db": "AmbiguousName: docker:db, id:c0d1, id:c0d2", "containerd:db": "AmbiguousName: id:c0d1, id:c0d2", "other/db": "c0d2", "other/containerd:db": "c0d2",
		"shop/db": "AmbiguousName: containerd:db, docker:db", "shop/containerd:db": "c0d1",
		"c0d4": "c0d3", "id:c0d4": "c0d4", "cache": "c0d4",
	} {
		v, err := b.FindMember(name)
		got := ReasonNotFound(err)
		if err == nil {
			got = v.ID
		}
		if got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
	for i, name := range NamesAmong(b.Views()) {
		v := b.Views()[i]
		if found, err := b.Find(name); err != nil || found != v || b.NameOf(v.Container) != name {
			t.Errorf("the name of %s, %s, finds %v, %v; it is also %s", v.Container.ID, name, found, err, b.NameOf(v.Container))
		}
	}
}

// An ID that people chose may be the beginning of another one. Once its container is gone, id:ID is
// nobody's: not that of the other container.
func TestIDIsNoPrefix(t *testing.T) {
	b := &Board{}
	gone := &slot{}
	b.put(gone, labelled("", "cafe", "web", "shop"))
	b.put(&slot{}, named("docker", "", "cafe0123", "db", "shop"))
	if v, err := b.Find("id:cafe"); err != nil || v.Container.ID != "cafe" {
		t.Fatalf("got %v, %v", v, err)
	}
	b.remove(gone)
	for _, name := range []string{"id:cafe", "shop/id:cafe"} {
		if v, err := b.FindMember(name); err == nil {
			t.Errorf("%s finds %s", name, v.ID)
		}
	}
}

// Once the other one is removed, a name that is a label is its container's own.
func TestLabelIsFreeAgain(t *testing.T) {
	b := &Board{}
	older, newer := &slot{}, &slot{}
	b.put(older, labelled("", "c0d1", "web", "shop"))
	b.put(newer, labelled("", "c0d2", "web", "shop"))
	if got := b.NameOf(older.view.Load().Container); got != "id:c0d1" {
		t.Errorf("beside another one: got %s", got)
	}
	b.remove(older)
	if v, err := b.Find("web"); err != nil || v != newer.view.Load() || b.NameOf(v.Container) != "web" {
		t.Errorf("got %v, %v", v, err)
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
	lineageOf := func(e *entry) lineageKey { return keyOf(e.container.Runtime, e.container.ID, e.identity) }
	docker, containerd := entryOf("docker", "d0c0", nil), entryOf("containerd", "c0de", nil)
	if docker.groupKey == containerd.groupKey || docker.group != "web" {
		t.Errorf("alone: got the groups %s and %s", docker.groupKey, containerd.groupKey)
	}
	labelledAs := func(id string) *entry {
		e := &entry{}
		e.setSpec(labelled("", id, "web", "shop").Container, webSpec(), nil)
		return e
	}
	if one, other := labelledAs("c0d1"), labelledAs("c0d2"); one.groupKey == other.groupKey || one.group != "web" {
		t.Errorf("alone, by labels of one name: got the groups %s and %s", one.groupKey, other.groupKey)
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

// A container that is named as another's full ID gets nothing that is meant for that one.
func TestNamedAsAnotherID(t *testing.T) {
	id, own := strings.Repeat("0d", 32), strings.Repeat("1e", 32)
	b := NewBoard(nil, named("docker", "", id, "db", "shop"), named("docker", "", own, id, "shop"))
	for name, want := range map[string]string{id: id, "shop/" + id: id, "db": id, own: own, "docker:" + id: own, "id:" + own: own} {
		if v, err := b.FindMember(name); err != nil || v.ID != want {
			t.Errorf("%s: got %v, %v", name, v, err)
		}
	}
}

// A container that is called by another one's full ID never gets what is meant for that one, be it known,
// removed or not supervised. It is shown, and found, under its qualified name.
func TestNamedAsAnID(t *testing.T) {
	id, other := strings.Repeat("ab", 32), strings.Repeat("cd", 32)
	b, victim := &Board{}, &slot{}
	b.put(&slot{}, named("docker", "", other, id, "shop"))
	b.put(&slot{}, named("containerd", "blog", "blog:"+strings.Repeat("ef", 32), strings.Repeat("ef", 32), "blog")) // nobody named it
	find := func(name string) string {
		v, err := b.FindMember(name)
		if err != nil {
			return ReasonNotFound(err)
		}
		return v.ID
	}
	for _, known := range []bool{false, true, false} {
		want := "UnknownContainer"
		if known {
			b.put(victim, named("docker", "", id, "web", "shop"))
			want = id
		}
		if got := find(id); got != want {
			t.Errorf("known %v: the ID finds %s", known, got)
		}
		if got := find("docker:" + id); got != other {
			t.Errorf("known %v: the qualified name finds %s", known, got)
		}
		if v, _ := b.Find(other); b.NameOf(v.Container) != "docker:"+id {
			t.Errorf("known %v: it is called %s", known, b.NameOf(v.Container))
		}
		if known {
			b.remove(victim)
		}
	}
	if got := find(strings.Repeat("ef", 32)); got != "blog:"+strings.Repeat("ef", 32) {
		t.Errorf("the ID of another namespace finds %s", got)
	}
}

// A tenant has as many projects as it likes, each with a service of another one's name.
func TestManyNamesakesAreNotAllListed(t *testing.T) {
	all := make([]string, 1000)
	for i := range all {
		all[i] = fmt.Sprintf("tenant-%03d/web", i)
	}
	const want = "tenant-000/web, tenant-001/web"
	for _, text := range []string{
		(&AmbiguousServiceError{all}).Error(), (&AmbiguousNameError{all}).Error(), ReasonNotFound(&AmbiguousServiceError{all}), ReasonNotFound(&AmbiguousNameError{all}),
	} {
		if !strings.Contains(text, want) || !strings.HasSuffix(text, "tenant-009/web and 990 more") {
			t.Errorf("got %q", text)
		}
	}
	if got := someOf(all[:10]); strings.Contains(got, "more") || !strings.HasSuffix(got, "tenant-009/web") {
		t.Errorf("got %q", got)
	}
}
