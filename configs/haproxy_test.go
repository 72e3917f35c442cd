package configs

import (
	"slices"
	"strings"
	"testing"
	"time"

	"healthd/runtime"
	"healthd/supervisor/core"
)

const haproxySpec = `
[haproxy]
sockets = ["/run/haproxy/admin.sock", "ipv4@127.0.0.1:9999"]

[[spec]]
name = "balanced"
[spec.publish]
port = 8080
[spec.publish.haproxy]
backend = "web"
`

func TestHAProxySockets(t *testing.T) {
	for _, socket := range []string{
		"/run/haproxy/admin.sock", "unix@/run/haproxy/admin.sock", "/run/a b@c:1.sock", "/" + strings.Repeat("a", 106),
		"unix@/" + strings.Repeat("a", 106), "ipv4@127.0.0.1:1", "ipv4@10.1.2.3:65535", "ipv6@[::1]:9999", "ipv6@[2001:DB8::1]:9999",
	} {
		c := mustParse(t, "haproxy.sockets = [\""+socket+"\"]")
		if got := c.HAProxy.Sockets; !slices.Equal(got, []string{socket}) {
			t.Errorf("got %q, want %q as it was written", got, socket)
		}
	}
	for _, text := range []string{"", "[haproxy]\n", "haproxy.sockets = []", "haproxy.sockets = []\nlisten.agent = \"\""} {
		if got := mustParse(t, text).HAProxy.Sockets; len(got) > 0 {
			t.Errorf("%q: got %q, want none", text, got)
		}
	}
	c := mustParse(t, haproxySpec)
	if got := c.HAProxy.Sockets; !slices.Equal(got, []string{"/run/haproxy/admin.sock", "ipv4@127.0.0.1:9999"}) {
		t.Errorf("got %q", got)
	}
}

// The sockets may be in any of the files.
func TestBackendNeedsSockets(t *testing.T) {
	const spec = "[[spec]]\nname = \"a\"\npublish = { port = 1, haproxy.backend = \"web\" }\n"
	const missing = "1.toml:3: spec[a].publish.haproxy.backend: needs [haproxy] sockets"
	const off = ": haproxy.sockets: needs listen.agent, which is off: HAProxy accepts pushes only for servers with an agent check"
	tests := []struct {
		name, later string // what the later file has
		want        string
	}{
		{"later file", "[haproxy]\nsockets = [\"/run/a.sock\"]\n", ""},
		{"no section", "", missing},
		{"empty section", "[haproxy]\n", missing},
		{"no sockets", "haproxy.sockets = []\n", missing},
		{"wrong sockets", "haproxy.sockets = [\"x\"]\n", `2.toml:1: haproxy.sockets[0]: must be "/PATH" or "unix@/PATH" of at most 107 bytes, "ipv4@IP:PORT" or "ipv6@[IP]:PORT", is "x"`},
		{"sockets of a wrong type", "haproxy.sockets = \"x\"\n", `2.toml:1: haproxy.sockets: must be an array, is "x" (a string)`},
		{"a file that cannot be read", "[haproxy\n", `2.toml:1: expected '.' or ']' to end table name, but got '\n' instead`},
		{"no agent", "listen.agent = \"\"\nhaproxy.sockets = [\"/run/a.sock\"]\n", "2.toml:2" + off},
		{"neither", "listen.agent = \"\"\n", missing},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			write(t, map[string]string{"1.toml": spec, "2.toml": tt.later})
			_, err := Load([]string{"1.toml", "2.toml"})
			got := ""
			if err != nil {
				got = err.Error()
			}
			if got != tt.want {
				t.Errorf("got  %q\nwant %q", got, tt.want)
			}
		})
	}
	write(t, map[string]string{"1.toml": spec})
	if _, err := Load([]string{"1.toml", "2.toml"}); err == nil || err.Error() != "2.toml: cannot be read: no such file or directory" {
		t.Errorf("got %v", err)
	}
	write(t, map[string]string{"1.toml": "haproxy.sockets = [\"/a\"]", "2.toml": "haproxy.sockets = [\"/b\"]"})
	if _, err := Load([]string{"1.toml", "2.toml"}); err == nil || err.Error() != "2.toml:1: haproxy.sockets: is already set at 1.toml:1" {
		t.Errorf("got %v", err)
	}
}

func TestBackend(t *testing.T) {
	c := mustParse(t, webSpec+haproxySpec)
	longest := strings.Repeat("a", 128)
	tests := []struct {
		name   string
		labels map[string]string
		want   core.Publish
		values string // below publish.haproxy
	}{
		{"file", labels("healthd.spec=balanced"), core.Publish{Service: "balanced", Port: 8080, Drain: time.Second, HAProxy: core.HAProxy{Backend: "web"}},
			"publish.haproxy.backend = \"web\"  (healthd.toml:37)\n"},
		{"label over file", labels("healthd.spec=balanced", "healthd.publish.haproxy.backend=-Be_1.x:y"),
			core.Publish{Service: "balanced", Port: 8080, Drain: time.Second, HAProxy: core.HAProxy{Backend: "-Be_1.x:y"}},
			"publish.haproxy.backend = \"-Be_1.x:y\"  (label healthd.publish.haproxy.backend)\n"},
		{"port by label", labels("healthd.spec=balanced", "healthd.publish.port=81", "healthd.publish.drain=0s"),
			core.Publish{Service: "balanced", Port: 81, Drain: 0, HAProxy: core.HAProxy{Backend: "web"}},
			"publish.haproxy.backend = \"web\"  (healthd.toml:37)\n"},
		{"labels only", labels("healthd.readiness.tcp_socket.port=80", "healthd.publish.port=80", "healthd.publish.haproxy.backend="+longest),
			core.Publish{Service: "c", Port: 80, Drain: time.Second, HAProxy: core.HAProxy{Backend: longest}},
			"publish.haproxy.backend = \"" + longest + "\"  (label healthd.publish.haproxy.backend)\n"},
		{"none", labels("healthd.spec=bare"), core.Publish{Service: "bare"}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			spec, err := c.Resolve(runtime.Traits{Name: "c", Labels: tt.labels})
			if err != nil {
				t.Fatal(err)
			}
			if spec.Publish != tt.want {
				t.Errorf("got %+v, want %+v", spec.Publish, tt.want)
			}
			if got := showValues(valuesBelow(spec, "publish.haproxy")); got != tt.values {
				t.Errorf("got %q, want %q", got, tt.values)
			}
		})
	}
}

func TestBadBackendLabels(t *testing.T) {
	const key, rule = "healthd.publish.haproxy.backend", "must be 1 to 128 letters, digits, -, _, . and :"
	const port, backend = "healthd.publish.port=80", key + "=web"
	const with = haproxySpec + "[[spec]]\nname = \"portless\"\npublish.haproxy.backend = \"web\"\n"
	tests := []struct {
		name, text string
		labels     map[string]string
		want       string
	}{
		{"no sockets", "", labels(port, backend), "label " + key + ": needs [haproxy] sockets"},
		{"no sockets over a spec", webSpec, labels("healthd.spec=web", port, backend), "label " + key + ": needs [haproxy] sockets"},
		{"empty sockets", "haproxy.sockets = []", labels(port, backend), "label " + key + ": needs [haproxy] sockets"},
		{"neither sockets nor port", "", labels(backend), "label " + key + ": needs [haproxy] sockets; label " + key + ": needs publish.port"},
		{"no port", with, labels(backend), "label " + key + ": needs publish.port"},
		{"no port of the file's", with, labels("healthd.spec=portless"), "healthd.toml:13: spec[portless].publish.haproxy.backend: needs publish.port"},
		{"no port over the file's", with, labels("healthd.spec=portless", backend), "label " + key + ": needs publish.port"},
		{"bad port", with, labels(backend, "healthd.publish.port=0"), `label healthd.publish.port: must be 1 to 65535 or a port name, is "0"`},
		{"empty", with, labels(port, key+"="), "label " + key + ": " + rule + `, is ""`},
		{"server", with, labels(port, key+"=web/s1"), "label " + key + ": " + rule + `, is "web/s1"`},
		{"command", with, labels(port, key+"=web/s1 state ready; shutdown sessions"), "label " + key + ": " + rule + `, is "web/s1 state ready; shutdown sessions"`},
		{"line", with, labels(port, key+"=web\n"), "label " + key + ": " + rule + `, is "web\n"`},
		{"NUL", with, labels(port, key+"=web\x00"), "label " + key + ": " + rule + `, is "web\x00"`},
		{"not ASCII", with, labels(port, key+"=wéb"), "label " + key + ": " + rule + `, is "wéb"`},
		{"too long", with, labels(port, key+"="+strings.Repeat("a", 129)), "label " + key + ": " + rule + `, is "` + strings.Repeat("a", 64) + `"...`},
		{"table", with, labels(port, "healthd.publish.haproxy=web"), `label healthd.publish.haproxy: takes no value, only keys below it, is "web"`},
		{"misspelt", with, labels(port, "healthd.publish.haproxy.backends=web"),
			"label " + key + `: must be set; label healthd.publish.haproxy.backends: unknown key, did you mean "backend"?`},
		{"sockets", with, labels("healthd.haproxy.sockets=/run/x.sock"), "label healthd.haproxy: unknown key"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := tt.labels
			m["healthd.liveness.tcp_socket.port"] = "1"
			spec, err := mustParse(t, tt.text).Resolve(runtime.Traits{Name: "c", Labels: m})
			if err == nil {
				t.Fatalf("got %+v, want an error", spec)
			}
			if got := err.Error(); got != tt.want {
				t.Errorf("got:\n%s\nwant:\n%s", got, tt.want)
			}
		})
	}
}

func TestWarnsOfBackendWithoutPort(t *testing.T) {
	const head = "haproxy.sockets = [\"/run/a.sock\"]\n[[spec]]\nname = \"a\"\n[spec.publish]\n"
	const want = "healthd.toml:5: spec[a].publish.haproxy.backend: needs publish.port: a container without the label healthd.publish.port is Invalid"
	if got := one(t, head+"haproxy.backend = \"web\"\n"); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	for _, text := range []string{"", "port = 80\n", "port = 80\nhaproxy.backend = \"web\"\n", "port = \"http\"\nhaproxy.backend = \"web\"\n[spec.ports]\nhttp = 80\n"} {
		if got := one(t, head+text, "there is no readiness probe"); got != "" {
			t.Errorf("%q: got %q", text, got)
		}
	}
}
