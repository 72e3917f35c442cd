package configs

import (
	"strings"
	"testing"

	"healthd/runtime"
	"healthd/supervisor/core"
)

func TestConnection(t *testing.T) {
	const text = `
startup   = { grpc = { port = 9000, connection = "keep-alive" } }
liveness  = { http_get = { port = 80, connection = "close" } }
readiness = { http_get = { port = 80 } }
`
	spec := resolveText(t, text, "healthd.liveness.http_get.connection=keep-alive")
	if !spec.Probes[core.Startup].Handler.GRPC.KeepAlive || !spec.Probes[core.Liveness].Handler.HTTPGet.KeepAlive {
		t.Error("keeps no connection")
	}
	if spec.Probes[core.Readiness].Handler.HTTPGet.KeepAlive || resolveText(t, text).Probes[core.Liveness].Handler.HTTPGet.KeepAlive {
		t.Error("keeps a connection unasked")
	}
	shown := map[string]string{}
	for _, v := range spec.Values {
		if strings.HasSuffix(v.Path, ".connection") {
			shown[v.Path] = v.Value + " " + v.Origin
		}
	}
	for path, want := range map[string]string{
		"startup.grpc.connection":       `"keep-alive" healthd.toml:4`,
		"liveness.http_get.connection":  `"keep-alive" label healthd.liveness.http_get.connection`,
		"readiness.http_get.connection": `"close" default`,
	} {
		if shown[path] != want {
			t.Errorf("%s: got %s, want %s", path, shown[path], want)
		}
	}
}

// A header that contradicts the connection is the mistake of whoever wrote the later of the two.
func TestConnectionByLabel(t *testing.T) {
	const keeps = "\nreadiness.http_get = { port = 80, connection = \"keep-alive\" }"
	const header = "\nreadiness.http_get = { port = 80, headers = [{ name = \"connection\", value = \"close\" }] }"
	for _, tt := range []struct{ spec, label, want string }{
		{keeps, `headers=[{"name":"Connection","value":"close"}]`, "headers: must not have Connection, because healthd.toml:4 sets connection"},
		{keeps, "connection=close", ""},
		{keeps, "connection=upgrade", `connection: must be "close" or "keep-alive", is "upgrade"`},
		{header, "connection=keep-alive", "connection: cannot be set by a label, because healthd.toml:4 sets headers"},
	} {
		const path = "healthd.readiness.http_get."
		key, value, _ := strings.Cut(tt.label, "=")
		c := mustParse(t, "[[spec]]\nname = \"web\"\nclaimable = true"+tt.spec)
		_, err := c.Resolve(runtime.Traits{Name: "c", Labels: map[string]string{specLabel: "web", path + key: value}})
		switch {
		case tt.want == "" && err != nil:
			t.Errorf("%s: %v", tt.label, err)
		case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("%s: got %v, want %s", tt.label, err, tt.want)
		}
	}
}

func TestConnectionThatIsNeverKept(t *testing.T) {
	for handler, warns := range map[string]bool{
		`port = 80`:                                             false,
		`port = 80, host = "192.0.2.1"`:                         false,
		`port = 80, method = "HEAD"`:                            false,
		`port = 80, method = "POST"`:                            true,
		`port = 444, scheme = "https"`:                          false,
		`port = 80, host = "api.example.com"`:                   false,
		`port = 80, expect = { warning_header = "X-Degraded" }`: false,
	} {
		spec := resolveText(t, "readiness.http_get = { connection = \"keep-alive\", "+handler+" }")
		if got := keepsNone(spec.Probes[core.Readiness].Handler.HTTPGet); strings.HasPrefix(got, `has no effect with method = "POST"`) != warns {
			t.Errorf("%s: %q", handler, got)
		}
	}
}
