package supervisor

import (
	"strings"
	"testing"

	"healthd/runtime"
	"healthd/supervisor/core"
)

// A name is a container's before it is a service's, and a service's before it is a project's.
func TestSelect(t *testing.T) {
	of := func(project string, v *core.View) *core.View {
		v.Container.Labels = map[string]string{core.ComposeProject: project}
		return v
	}
	withID := func(id string, v *core.View) *core.View { v.Container.ID = id; return v }
	elsewhere := published("twin", "other", false)
	elsewhere.Container.Runtime, elsewhere.Container.ID = "containerd", "another-twin"
	b := NewBoard(nil,
		of("shop", published("shop-web-1", "shop/web", false)), of("shop", published("shop-web-2", "shop/web", false)),
		of("shop", published("shop-db-1", "shop/db", false)), of("blog", published("blog-web-1", "blog/web", false)),
		of("web", published("web-x-1", "web/x", false)), of("db", published("db-y-1", "db/y", false)),
		withID(strings.Repeat("cafe", 16), published("hex", "beef", false)), withID(strings.Repeat("beef", 16), published("hex2", "plain", false)),
		withID(strings.Repeat("dead", 16), of("dead", published("hex3", "dead/z", false))), of("blog", published("shop-api-1", "blog/api", false)),
		published("api", "api-service", false), published("twin", "plain", false), elsewhere,
		&core.View{Container: &runtime.Container{Runtime: "docker", ID: "id-of-wrong", Name: "wrong", Labels: map[string]string{core.ComposeProject: "shop"}}, Invalid: "labels", State: core.NewState()})
	const unknown = "no supervised container, service or project has that name or ID"
	for name, want := range map[string]string{
		"shop-web-1": "shop-web-1", "shop/web": "shop-web-1 shop-web-2", "shop": "shop-db-1 shop-web-1 shop-web-2 wrong",
		"web": "several services have that name: blog/web, shop/web", "db": "shop-db-1", // the service, not the project
		"x": "web-x-1", "api": "api", "blog/api": "shop-api-1",
		"cafe": "hex", "cafecafe": "hex", "beef": "hex", "plain": "hex2 twin", "dead": "hex3", strings.Repeat("beef", 16): "hex2",
		"twin": "several containers have that name: containerd:twin, docker:twin", "docker:twin": "twin", "id:another-twin": "twin",
		"nope": unknown, "": unknown, "shop/": unknown, "id:nope": unknown, "docker:nope": unknown,
	} {
		all, err := b.Select(name)
		var got []string
		for _, v := range all {
			got = append(got, v.Container.Name)
		}
		if err != nil {
			got = append(got, err.Error())
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q: got %q, want %s", name, got, want)
		}
	}
}
