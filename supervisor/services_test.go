package supervisor

import (
	"strings"
	"testing"

	"healthd/runtime"
	"healthd/supervisor/core"
)

// published is a container that belongs to that service; by a file's word if owned.
func published(name, service string, owned bool) *core.View {
	return &core.View{
		Service: service, Spec: &core.Spec{Publish: core.Publish{Service: service, Owned: owned}},
		Container: &runtime.Container{Runtime: "docker", ID: "id-of-" + name, Name: name}, State: core.NewState(),
	}
}

// Two projects may have a service of one name. What is asked of one is never answered by the other.
func TestServicesOfSeveralProjects(t *testing.T) {
	b := NewBoard(nil,
		published("shop-web-1", "shop/web", false), published("shop-web-2", "shop/web", false), published("blog-web-1", "blog/web", false),
		published("shop-api-1", "shop/api", false), published("api", "api", true), published("fake", "api", false),
		published("db", "db", false), published("shop-db-1", "shop/db", false), published("cache", "cache", false),
		&core.View{Container: &runtime.Container{Runtime: "docker", ID: "id-of-wrong", Name: "wrong"}, Invalid: "labels", State: core.NewState()})
	for name, want := range map[string]string{
		"shop/web": "shop/web: shop-web-1 shop-web-2", "blog/web": "blog/web: blog-web-1", "other/web": "UnknownContainer",
		"web":      "AmbiguousService: blog/web, shop/web",
		"shop/api": "shop/api: shop-api-1", "api": "api: api fake", // by the file's word
		"shop/db": "shop/db: shop-db-1", "db": "AmbiguousService: db, shop/db", // a label may not take the name
		"cache": "cache: cache", "": "UnknownContainer", "/": "UnknownContainer", "shop/": "UnknownContainer", "/web": "UnknownContainer", "shop": "UnknownContainer",
	} {
		if got := serviceText(b.FindService(name)); got != want {
			t.Errorf("%q: got %s, want %s", name, got, want)
		}
	}
	for name, want := range map[string]string{
		"web/shop-web-1": "shop-web-1", "shop/web/shop-web-1": "shop-web-1", "blog/web/shop-web-1": "OtherService",
		"db/shop-db-1": "shop-db-1", "db/db": "db", "eb/shop-web-1": "OtherService", "/wrong": "OtherService",
	} {
		got := ""
		v, err := b.FindMember(name)
		if got = ReasonNotFound(err); err == nil {
			got = v.Container
		}
		if got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
}

// A service is there as long as a container of it is.
func TestServiceComesAndGoes(t *testing.T) {
	b, shop, blog := &Board{}, &slot{}, &slot{}
	expect := func(when, want string) {
		t.Helper()
		if got := serviceText(b.FindService("web")); got != want {
			t.Errorf("%s: got %s, want %s", when, got, want)
		}
	}
	expect("none", "UnknownContainer")
	b.put(shop, published("shop-web-1", "shop/web", false))
	b.put(shop, published("shop-web-1", "shop/web", false))
	expect("one", "shop/web: shop-web-1")
	b.put(blog, published("blog-web-1", "blog/web", false))
	expect("two", "AmbiguousService: blog/web, shop/web")
	b.put(blog, published("blog-web-1", "web", true))
	expect("a reload gives one the name", "web: blog-web-1")
	b.put(blog, published("blog-web-1", "other", false))
	expect("and another one", "shop/web: shop-web-1")
	b.put(shop, &core.View{Container: shop.view.Load().Container, Invalid: "labels", State: core.NewState()})
	expect("invalid", "UnknownContainer")
	b.put(shop, published("shop-web-1", "shop/web", false))
	b.remove(shop)
	expect("removed", "UnknownContainer")
	b.remove(blog)
	for part := range b.services.byPart.all {
		t.Errorf("%s is left", part)
	}
	if len(b.services.members) > 0 {
		t.Errorf("%v are left", b.services.members)
	}
}

func serviceText(full string, members []*core.View, err error) string {
	if err != nil {
		return ReasonNotFound(err)
	}
	text := full + ":"
	for _, v := range members {
		text += " " + v.Container.Name
	}
	return strings.TrimSpace(text)
}
