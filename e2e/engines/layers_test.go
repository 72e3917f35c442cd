package engines

import (
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"

	"healthd/e2e/harness"
	"healthd/runtime/docker/dockertest"
)

const layerSpecs = `
[defaults]
readiness = { period = "500ms", timeout = "30s" }

[[spec]]
name = "layers-base"
ports = { web = 8080 }
readiness = { http_get = { port = "web", path = "/healthz" } }

[[spec]]
name = "layers-named"
extends = "layers-base"
match_name = "layers-named-*"

[[spec]]
name = "layers-pictured"
extends = "layers-base"
match_image = "layers.example/shop:*"

[[spec]]
name = "layers-networked"
extends = "layers-base"
match = [{ e2e = "layers-none" }, { e2e = "layers-networked" }]
network = "layers-beta"
`

// Containers are chosen by name, image and alternatives, have their settings from layers, and are reached in
// the network that their spec names.
func TestChosenAndLayered(t *testing.T) {
	harness.RingTwo(t, "make test-engines")
	t.Parallel()
	e := harness.Docker.Engine(t)
	e.Network(t, "layers-alpha")
	e.Network(t, "layers-beta")
	d := harness.StartDaemonOn(t, e, layerSpecs)
	e.Run(t, dockertest.RunOptions{Name: "layers-named-1"})
	e.Run(t, dockertest.RunOptions{Name: "layers-image", Image: "layers.example/shop:1"})
	e.Run(t, dockertest.RunOptions{Name: "layers-two", Labels: map[string]string{"e2e": "layers-networked"}, Network: "layers-alpha", Networks: []string{"layers-beta"}})
	e.Run(t, dockertest.RunOptions{Name: "layers-outside", Labels: map[string]string{"e2e": "layers-networked"}, Network: "layers-alpha"})
	e.Run(t, dockertest.RunOptions{Name: "layers-other"})
	for name, spec := range map[string]string{"layers-named-1": "layers-named", "layers-image": "layers-pictured", "layers-two": "layers-networked"} {
		d.Until(name, "ready by "+spec, func(s harness.Status) bool { return s.Ready && s.Spec == spec })
	}
	for name, want := range map[string]string{
		"layers-named-1": `readiness.period "500ms" /`, "layers-outside": "it is not in the network layers-beta, which its spec names, but in layers-alpha",
		"layers-other": `its name is "layers-other", not layers-named-*`,
	} {
		if out, _ := d.Run("explain", name); !strings.Contains(strings.Join(strings.Fields(out), " "), want) {
			t.Errorf("explain %s does not say %s:\n%s", name, want, out)
		}
	}
	c, err := e.Client().ContainerInspect(t.Context(), "layers-two")
	if err != nil {
		t.Fatal(err)
	}
	s, err := d.Status("layers-two")
	if err != nil {
		t.Fatal(err)
	}
	if beta := c.NetworkSettings.Networks["layers-beta"].IPAddress; s.Address != beta || beta == "" {
		t.Errorf("reached at %q, want %q", s.Address, beta)
	}
	// An image that is not known from a list, because its name means another one by now.
	if _, err := e.Client().ContainerCommit(t.Context(), "layers-named-1", container.CommitOptions{Reference: "layers.example/shop:1"}); err != nil {
		t.Fatal(err)
	}
	if err := d.Stop(); err != nil {
		t.Fatal(err)
	}
	d.Restart()
	d.Until("layers-image", "ready after a restart", harness.Ready)
}
