package configs

import (
	"strings"
	"testing"

	"healthd/prober"
	"healthd/runtime"
	"healthd/supervisor/core"
)

func TestVia(t *testing.T) {
	const text = `
startup   = { grpc = { port = 9000, via = "container" } }
liveness  = { tcp_socket = { port = 80, via = "host" } }
readiness = { http_get = { port = 80 } }
lifecycle = { post_start = { http_get = { port = 80, host = "::1", via = "container" } }, pre_stop = { tcp_socket = { port = 80, host = "::1" } } }
`
	spec := resolveText(t, text, "healthd.liveness.tcp_socket.via=container")
	for what, got := range map[string]prober.Via{
		"grpc":       spec.Probes[core.Startup].Handler.GRPC.Via,
		"label":      spec.Probes[core.Liveness].Handler.TCPSocket.Via,
		"post_start": spec.Lifecycle.PostStart.HTTPGet.Via,
	} {
		if got != prober.ViaContainer {
			t.Errorf("%s: %q", what, got)
		}
	}
	if got := resolveText(t, text).Probes[core.Liveness].Handler.TCPSocket.Via; got != prober.ViaHost {
		t.Errorf("without the label: %q", got)
	}
	for what, got := range map[string]prober.Via{
		"http_get": spec.Probes[core.Readiness].Handler.HTTPGet.Via,
		"pre_stop": spec.Lifecycle.PreStop.TCPSocket.Via,
	} {
		if got != prober.ViaDefault {
			t.Errorf("%s: %q", what, got)
		}
	}
	shown := map[string]string{}
	for _, v := range spec.Settings() {
		if strings.HasSuffix(v.Path, ".via") {
			shown[v.Path] = v.Value + " " + v.Origin
		}
	}
	for path, want := range map[string]string{
		"startup.grpc.via":                  `"container" healthd.toml:4`,
		"liveness.tcp_socket.via":           `"container" label healthd.liveness.tcp_socket.via`,
		"readiness.http_get.via":            `"host"; without an address "container" default`,
		"lifecycle.post_start.http_get.via": `"container" healthd.toml:7`,
		"lifecycle.pre_stop.tcp_socket.via": `"host" default`,
	} {
		if shown[path] != want {
			t.Errorf("%s: got %s, want %s", path, shown[path], want)
		}
	}
}

// Whoever may write labels must not choose from where healthd asks another host.
func TestViaByLabelBesideAHost(t *testing.T) {
	c := mustParse(t, "[[spec]]\nname = \"web\"\nliveness = { tcp_socket = { port = 80, host = \"db\" } }\n")
	_, err := c.Resolve(runtime.Traits{Name: "c", Labels: labels(specLabel+"=web", "healthd.liveness.tcp_socket.via=container")})
	if err == nil || !strings.Contains(err.Error(), "cannot be set by a label, because healthd.toml:3 sets host") {
		t.Errorf("got %v", err)
	}
}

func TestAsksInside(t *testing.T) {
	for text, want := range map[string]bool{
		`liveness.tcp_socket = { port = 80 }`:                                                false,
		`liveness.tcp_socket = { port = 80, via = "host" }`:                                  false,
		`liveness.exec.command = ["true"]`:                                                   false,
		`liveness.tcp_socket = { port = 80, via = "container" }`:                             true,
		`readiness.http_get = { port = 80, host = "::1", via = "container" }`:                true,
		`startup.grpc = { port = 80, via = "container" }`:                                    true,
		`lifecycle.post_start.http_get = { port = 80, via = "container" }`:                   true,
		`lifecycle.pre_stop.tcp_socket = { port = 80, via = "container" }`:                   true,
		`lifecycle = { pre_stop.sleep.duration = "1s", post_start.tcp_socket = {port = 1} }`: false,
	} {
		if got := mustParse(t, "[[spec]]\nname = \"web\"\n"+text).AsksInside(); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}
