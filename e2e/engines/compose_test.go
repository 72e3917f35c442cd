package engines

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"healthd/e2e/harness"
	"healthd/runtime/docker/dockertest"
)

// A hold goes to the container that Docker Compose puts in the place of a held one, and to no other: Compose 1 starts the
// new one before it removes the old one, Compose 2 after that. So do others, which rename containers.
func TestHoldMovesToTheNextContainer(t *testing.T) {
	harness.RingTwo(t, "make test-engines")
	e := harness.Docker.Engine(t)
	d := harness.StartDaemonOn(t, e, `
[[spec]]
name = "held"
match = { e2e = "held" }
`)
	c := &composeFile{t: t, engine: e, path: filepath.Join(t.TempDir(), "compose.yaml")}
	byRename := func(t *testing.T, version string) {
		if version != "1" {
			e.Rename(t, "shop_web_1", "shop_web_1-old")
			defer e.Remove(t, "shop_web_1-old")
		}
		e.Run(t, dockertest.RunOptions{Name: "shop_web_1", Cmd: []string{"/bin/testserver"}, Labels: map[string]string{"e2e": "held"}})
	}
	for name, up := range map[string]func(t *testing.T, version string){"Compose": c.up, "by its name": byRename} {
		t.Run(name, func(t *testing.T) {
			up(t, "1")
			held := func(want bool) {
				t.Helper()
				began := e.Inspect(t, "shop_web_1").StartedAt
				d.Eventually(fmt.Sprintf("show the new container, held: %v", want), func() error {
					s, err := d.Status("shop_web_1")
					if err == nil && (s.State.Running == nil || !s.State.Running.StartedAt.Equal(began) || s.Held != want) {
						err = fmt.Errorf("held %v, %+v, not since %v", s.Held, s.State, began)
					}
					return err
				})
			}
			held(false)
			if out, code := d.Run("hold", "shop_web_1"); code != 0 {
				t.Fatal(out)
			}
			up(t, "2")
			held(true)
			if out, code := d.Run("resume", "shop_web_1"); code != 0 || strings.Contains(out, "neither") {
				t.Fatal(code, out)
			}
			up(t, "3")
			held(false)
			e.Remove(t, "shop_web_1")
		})
	}
}

// composeFile is a project of one service, for the Docker Compose that comes with the engine.
type composeFile struct {
	t      *testing.T
	engine *dockertest.Engine
	path   string
}

// up is docker-compose up -d, of a container that has that version of its service.
func (c *composeFile) up(t *testing.T, version string) {
	t.Helper()
	text := fmt.Sprintf(`
version: "3"
services:
  web:
    image: %s
    container_name: shop_web_1
    command: /bin/testserver
    network_mode: bridge
    labels: { e2e: held }
    environment: { VERSION: "%s" }
`, c.engine.Image, version)
	if err := os.WriteFile(c.path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	argv := c.engine.Command("docker-compose", "--project-name", "shop", "--file", c.path, "up", "--detach")
	cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), "DOCKER_HOST="+c.engine.Endpoint)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("docker-compose up: %v\n%s", err, out)
	}
}
