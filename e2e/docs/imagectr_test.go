package docs

import (
	"strings"
	"testing"

	"healthd/e2e/harness"
	"healthd/runtime/containerd/containerdtest"
)

// containerd takes the archive for Docker as well, with both names.
func TestImageInContainerd(t *testing.T) {
	t.Parallel()
	path, err := imageArchive()
	if err != nil {
		t.Fatal(err)
	}
	c := harness.Containerd.Engine(t)
	if out, err := c.Ctr(t, "images", "import", path); err != nil {
		t.Fatalf("ctr images import: %v: %s", err, out)
	}
	t.Cleanup(func() {
		_, _ = c.Ctr(t, "images", "rm", "docker.io/library/healthd:latest", "docker.io/library/healthd:e2e")
	})
	out, err := c.Ctr(t, "run", "--rm", "docker.io/library/healthd:latest", containerdtest.Namespace+"-version", "/healthd", "version")
	if err != nil || !strings.HasPrefix(out, "healthd e2e\n") {
		t.Errorf("ctr run: %v: %s", err, out)
	}
	if list, err := c.Ctr(t, "images", "ls", "-q"); err != nil || !strings.Contains(list, "docker.io/library/healthd:e2e\n") {
		t.Errorf("ctr images ls: %v: %s", err, list)
	}
}
