package fleet

import (
	"healthd/e2e/ports"

	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"healthd/e2e/harness"
	"healthd/e2e/patience"
	"healthd/runtime/docker/dockertest"
)

// A host joins a fleet whose etcd it cannot reach. All that is its own works on as before: files, DNS, agent checks, discovery, readiness
// and restarts. Only a group that is told to wait for etcd does.
func TestFleetJoinedWithoutEtcd(t *testing.T) {
	t.Parallel()
	e := harness.Docker.Engine(t)
	dir := t.TempDir()
	file, template := filepath.Join(dir, "servers"), filepath.Join(dir, "own.tmpl")
	if err := os.WriteFile(template, []byte(`ready: {{range services}}{{range .Ready}}{{.Container}} {{end}}{{end}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	d := harness.NewDaemon(t, e.Endpoint, fmt.Sprintf(`
[[publish_file]]
template     = %q
path         = %q
services     = ["alone"]
min_interval = "1s"
`, template, file)+aloneSpec("alone", "")+aloneSpec("waits", ""))
	agent, named := ports.Address(t), ports.Address(t)
	d.Rewrite(func(text string) string {
		return strings.Replace(text, `agent = ""`, fmt.Sprintf("agent = %q\ndns = %q", agent, named), 1)
	})
	run := func(name, spec string) {
		e.Run(t, dockertest.RunOptions{Name: name, Cmd: []string{"/bin/testserver"}, Labels: map[string]string{"e2e": spec}})
	}
	run("alone-1", "alone")
	run("waits-1", "waits")
	d.Start()
	d.Until("alone-1", "ready", harness.Ready)
	d.Until("waits-1", "ready", harness.Ready)
	has := func(want string) func() error {
		return func() error {
			if text, err := os.ReadFile(file); err != nil || string(text) != want {
				return fmt.Errorf("the file has %q, %v", text, err)
			}
			return nil
		}
	}
	d.Eventually("write the file", has("ready: alone-1 "))
	if err := d.Stop(); err != nil {
		t.Fatal(err)
	}

	d.Rewrite(func(text string) string {
		text = strings.NewReplacer(aloneSpec("alone", ""), aloneSpec("alone", "local"), aloneSpec("waits", ""), aloneSpec("waits", "wait")).Replace(text)
		return text + fmt.Sprintf("[fleet]\nendpoints = [\"http://%s\"]\nhost = \"h1\"\nadvertise = \"10.0.0.5\"\n", ports.Address(t))
	})
	d.Start()
	d.Eventually("be synced", d.Synced)
	run("alone-2", "alone")
	d.Until("alone-2", "ready", harness.Ready)
	d.Eventually("write the file", has("ready: alone-1 alone-2 "))
	e.StopByOperator(t, "alone-1")
	d.Eventually("write the file", has("ready: alone-2 "))
	if err := connected(d, false); err != nil {
		t.Error(err)
	}
	for name, want := range map[string]string{"alone/alone-1": "down", "alone/alone-2": "up", "alone/alone-9": "down # UnknownContainer"} {
		if got, err := harness.AskAgent(agent, name); err != nil || !strings.HasPrefix(got, want) {
			t.Errorf("the agent says %q of %s, %v", got, name, err)
		}
	}
	answer, _, err := (&dns.Client{Net: "tcp", Timeout: patience.Limit}).Exchange(new(dns.Msg).SetQuestion("alone.healthd.", dns.TypeA), named)
	if err != nil || len(answer.Answer) != 1 {
		t.Errorf("DNS answers %v, %v", answer, err)
	}
	for _, path := range []string{"/v1/discovery/traefik", "/v1/discovery/prometheus", "/v1/services/alone/ready"} {
		if code, body, err := d.Get(path); err != nil || code != http.StatusOK {
			t.Errorf("%s answers %d %s, %v", path, code, body, err)
		}
	}
	for _, name := range []string{"waits-1", "alone-2"} {
		harness.Inside(t, e, name, "/bin/wget", "-q", "-O", "-", "--post-data=", "http://127.0.0.1:8080/set?status=500")
	}
	d.Until("alone-2", "restarted", func(s harness.Status) bool { return s.RestartCount == 1 && s.Ready })
	d.Stays(5*time.Second, "waits-1", "waiting for etcd", func(s harness.Status) bool { return s.RestartCount == 0 })
	if out, _ := d.Run("explain", "waits-1"); !strings.Contains(out, "etcd, which cannot be reached") {
		t.Errorf("explain does not say what it waits for:\n%s", out)
	}
}

// aloneSpec is a spec whose group is over all hosts, unless unreachable is empty.
func aloneSpec(name, unreachable string) string {
	group := ""
	if unreachable != "" {
		group = fmt.Sprintf("group = { name = %q, scope = \"fleet\", unreachable = %q }\n", name, unreachable)
	}
	return fmt.Sprintf(`
[[spec]]
name      = %[1]q
match     = { e2e = %[1]q }
liveness  = { http_get = { port = 8080, path = "/healthz" }, period = "1s", failure_threshold = 2 }
readiness = { http_get = { port = 8080, path = "/healthz" }, period = "500ms", failure_threshold = 1 }
publish   = { service = %[1]q, port = 8080, drain = "1s" }
%[2]s`, name, group)
}
