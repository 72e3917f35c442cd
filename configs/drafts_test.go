package configs

import (
	"fmt"
	goruntime "runtime"
	"strings"
	"testing"
	"unsafe"
	"weak"

	"healthd/runtime"
	"healthd/supervisor/core"
)

// specOf returns the spec of a container with these labels, which must be right.
func specOf(t *testing.T, c *Config, name string, own ...string) *core.Spec {
	t.Helper()
	all := labels(own...)
	all["app"] = "web"
	spec, err := c.Resolve(runtime.Traits{Name: name, Labels: all})
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

func TestContainersShareWhatIsTheSame(t *testing.T) {
	c := mustParse(t, "[[spec]]\nname = \"web\"\nmatch = { app = \"web\" }\nliveness = { tcp_socket = { port = 80 } }\n")
	one, other := specOf(t, c, "one"), specOf(t, c, "other")
	if one == other || one.Probes[core.Liveness] != other.Probes[core.Liveness] || &one.Values[0] != &other.Values[0] {
		t.Error("they share nothing, or all")
	}
	if one.Settings()[len(one.Settings())-1].Path != "publish.service" {
		t.Errorf("the service is not among the settings: %v", one.Settings())
	}
	changed := specOf(t, c, "third", "healthd.liveness.period=3s")
	if changed.Probes[core.Liveness].Period == one.Probes[core.Liveness].Period {
		t.Error("a label has no effect on a spec that another container has had before")
	}
	alone, err := c.Resolve(runtime.Traits{Name: "alone", Labels: labels("healthd.liveness.tcp_socket.port=81")})
	if err != nil || alone.Publish.Service != "alone" || alone.ServiceOrigin == "" {
		t.Errorf("of labels only: %+v, %v", alone, err)
	}
	sibling, err := c.Resolve(runtime.Traits{Name: "sibling", Labels: labels("healthd.liveness.tcp_socket.port=81")})
	if err != nil || sibling.Publish.Service != "sibling" {
		t.Errorf("of the same labels only: %+v, %v", sibling, err)
	}
}

// Of the settings of two drafts only the texts that differ take memory twice.
func TestDraftsShareTexts(t *testing.T) {
	c := mustParse(t, "[[spec]]\nname = \"web\"\nmatch = { app = \"web\" }\nliveness = { tcp_socket = { port = 80 } }\n")
	one, other := specOf(t, c, "one", "healthd.liveness.period=3s"), specOf(t, c, "other", "healthd.liveness.period=4s")
	if len(one.Values) != len(other.Values) || cap(one.Values) > len(one.Values)+len(one.Values)/4+1 {
		t.Fatalf("%d and %d settings, room for %d", len(one.Values), len(other.Values), cap(one.Values))
	}
	for i, v := range one.Values {
		o := other.Values[i]
		for _, pair := range [][2]string{{v.Path, o.Path}, {v.Value, o.Value}, {v.Origin, o.Origin}} {
			if pair[0] == pair[1] && unsafe.StringData(pair[0]) != unsafe.StringData(pair[1]) {
				t.Errorf("%s: %q is there twice", v.Path, pair[0])
			}
		}
	}
}

// What containers of one project may name, those of another may not.
func TestDraftsOfProjectsAreApart(t *testing.T) {
	c := mustParse(t, "[labels]\ngroups = []\n")
	for project, allowed := range map[string]bool{"shop": true, "blog": false} {
		own := labels("healthd.readiness.tcp_socket.port=80", "healthd.group.name=shop/web")
		own[core.ComposeProject], own[core.ComposeService] = project, "x"
		if _, err := c.Resolve(runtime.Traits{Name: "x", Labels: own}); (err == nil) != allowed {
			t.Errorf("%s joins shop/web: %v", project, err)
		}
	}
}

// A container leaves no draft behind that takes as much memory as somebody likes.
func TestLongLabelsLeaveNoDraft(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	for name, own := range map[string][]string{
		"right": {"healthd.liveness.http_get.port=80", "healthd.liveness.http_get.path=/" + long[:4090], "healthd.readiness.http_get.port=80", "healthd.readiness.http_get.path=/" + long[:4090]},
		"wrong": {"healthd.liveness.http_get.path=" + long},
	} {
		c := mustParse(t, "")
		_, _ = c.Resolve(runtime.Traits{Name: "x", Labels: labels(own...)})
		kept := 0
		for key := range c.drafts.byKey {
			kept += len(key.project) + len(key.labels)
		}
		for text := range c.drafts.texts {
			kept += len(text)
		}
		if kept > 10_000 {
			t.Errorf("%s: keeps %d bytes", name, kept)
		}
	}
}

func TestDraftsAreBounded(t *testing.T) {
	c := mustParse(t, "")
	for port := range maxDrafts + 10 {
		specOf(t, c, "x", fmt.Sprintf("healthd.readiness.tcp_socket.port=%d", port+1))
	}
	if n := len(c.drafts.byKey); n > maxDrafts {
		t.Errorf("%d drafts are kept", n)
	}
}

func TestRetiredConfigKeepsNoSpecs(t *testing.T) {
	c := mustParse(t, "[[spec]]\nname = \"web\"\nmatch = { app = \"web\" }\nliveness = { tcp_socket = { port = 80 } }\n")
	kept := weak.Make(specOf(t, c, "one").Probes[core.Liveness])
	goruntime.GC()
	if kept.Value() == nil {
		t.Fatal("it keeps no specs while it is in force")
	}
	c.Retire()
	goruntime.GC()
	if kept.Value() != nil {
		t.Error("it keeps specs when it is no longer in force")
	}
	if spec := specOf(t, c, "one"); spec.Probes[core.Liveness].Handler.TCPSocket.Port != 80 {
		t.Errorf("then it says %+v", spec)
	}
}
