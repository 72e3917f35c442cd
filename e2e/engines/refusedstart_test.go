package engines

import (
	"fmt"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"

	"healthd/e2e/harness"
	"healthd/e2e/ports"
	"healthd/runtime/docker/dockertest"
)

// A deploy whose new container the engine does not start says why: docker run leaves it Created.
func TestRefusedFirstStart(t *testing.T) {
	harness.RingTwo(t, "make test-engines")
	t.Parallel()
	e := harness.Docker.Engine(t)
	d := harness.StartDaemonOn(t, e, "[[spec]]\nname = \"refused\"\nmatch = { e2e = \"refused\" }\n")
	publish := fmt.Sprintf("127.0.0.1:%d:8080", ports.Free(t))
	e.Run(t, dockertest.RunOptions{Name: "has-the-port", Publish: publish})
	for _, tt := range []struct {
		words string
		dockertest.RunOptions
	}{
		{"no-such-program", dockertest.RunOptions{Name: "no-program", Cmd: []string{"/no-such-program"}}},
		{"port is already allocated", dockertest.RunOptions{Name: "port-taken", Publish: publish}},
	} {
		tt.Labels = map[string]string{"e2e": "refused"}
		id := e.Create(t, tt.RunOptions)
		d.Until(tt.Name, "created", harness.WaitsFor("Created"))
		if err := e.Client().ContainerStart(t.Context(), id, container.StartOptions{}); err == nil {
			t.Fatalf("the engine starts %s", tt.Name)
		}
		d.Until(tt.Name, "refused", harness.WaitsFor("RunContainerError"))
		for _, command := range []string{"status", "explain"} {
			if out, _ := d.Run(command, tt.Name); !strings.Contains(out, "RunContainerError") || !strings.Contains(out, tt.words) {
				t.Errorf("%s says\n%s", command, out)
			}
		}
	}
}
