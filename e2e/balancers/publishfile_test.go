package balancers

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"healthd/e2e/harness"
	"healthd/runtime/docker/dockertest"
)

// A container is stopped only after it is out of the file, the reload has ended, and the drain after it. A daemon that is
// killed while it reloads is followed by one that does. A template with a mistake changes nothing.
func TestPublishedFile(t *testing.T) {
	t.Parallel()
	e := harness.Docker.Engine(t)
	dir := t.TempDir()
	file, log, hang, alone := filepath.Join(dir, "servers"), filepath.Join(dir, "log"), filepath.Join(dir, "hang"), filepath.Join(dir, "alone")
	own := filepath.Join(dir, "own.tmpl")
	template := func(text string) {
		if err := os.WriteFile(own, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	template(`{{range services}}{{.Name}}:{{range .Ready}} {{.Container}}{{end}}{{"\n"}}{{else}}none{{end}}`)
	reload := fmt.Sprintf("test ! -e %[3]s || exec sleep 100; sleep 1; cat %[1]s >> %[2]s; ! grep -qx 'pub: pub-2' %[1]s || touch %[4]s", file, log, hang, alone)
	d := harness.StartDaemon(t, e.Endpoint, fmt.Sprintf(`
[[publish_file]]
template = %q
path     = %q
services = ["pub"]
reload   = ["sh", "-c", %q]
drain    = "2s"

[[spec]]
name = "pub"
match = { e2e = "pub" }
[spec.readiness]
tcp_socket = { port = 8080 }
period = "500ms"
[spec.publish]
service = "pub"
port = 8080
`, own, file, reload))
	for _, name := range []string{"pub-1", "pub-2"} {
		e.Run(t, dockertest.RunOptions{Name: name, Labels: map[string]string{"e2e": "pub"}})
	}
	has := func(path, want string) func() error {
		return func() error {
			if text, err := os.ReadFile(path); err != nil || !strings.HasSuffix(string(text), want) {
				return fmt.Errorf("%s has %q, %v", path, text, err)
			}
			return nil
		}
	}
	d.Eventually("load both", has(log, "pub: pub-1 pub-2\n"))
	if out, code := d.Run("restart", "pub-1"); code != 0 {
		t.Fatalf("%d: %s", code, out)
	}
	d.Eventually("load the other one alone, then both again", has(log, "pub: pub-2\npub: pub-1 pub-2\n"))
	info, err := os.Stat(alone)
	if err != nil {
		t.Fatal(err)
	}
	if ended := e.Inspect(t, "pub-1").FinishedAt; ended.Sub(info.ModTime()) < 2*time.Second-50*time.Millisecond {
		t.Errorf("pub-1 ended %v after the reload", ended.Sub(info.ModTime()))
	}

	if err := os.WriteFile(hang, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	e.StopByOperator(t, "pub-2")
	d.Eventually("write", has(file, "pub: pub-1\n"))
	d.Kill()
	if err := os.Remove(hang); err != nil {
		t.Fatal(err)
	}
	d.Restart()
	d.Eventually("make the reload that is owed", has(log, "pub-2\npub: pub-1\n"))

	template("{{range services}}")
	for _, command := range []string{"check", "reload"} {
		if out, code := d.Run(command); code == 0 || !strings.Contains(out, "publish_file[#1].template: "+own+":1: unexpected EOF") {
			t.Errorf("%s: %d: %s", command, code, out)
		}
	}
	if err := has(file, "pub: pub-1\n")(); err != nil {
		t.Error(err)
	}
}
