package configs

import (
	"reflect"
	"testing"
	"time"

	"healthd/prober"
	"healthd/runtime"
	"healthd/supervisor/core"
)

// resolveText returns what the only spec of a text makes of a container.
func resolveText(t *testing.T, text string, pairs ...string) *core.Spec {
	t.Helper()
	c := mustParse(t, "[[spec]]\nname = \"web\"\n"+text)
	c.specs[0].claimable = true
	spec, err := c.Resolve(runtime.Traits{Name: "c", Labels: labels(append(pairs, specLabel+"=web")...)})
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

func TestPorts(t *testing.T) {
	tests := []struct {
		name    string
		kubelet string
		ports   string
		port    string // as TOML
		want    int
	}{
		{"name of two", "61", "foo = 1, bar = 2", `"bar"`, 2},
		{"number", "63", "foo = 8080, bar = 9090", "443", 443},
		{"name", "65", "foo = 8080, bar = 9090", `"foo"`, 8080},
		{"number in a string", "74 77", "found = 93", `"118"`, 118},
		{"found", "77", "found = 93", `"found"`, 93},
		{"number beside a name", "77", "found = 93", "76", 76},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Attr("kubelet", tt.kubelet)
			spec := resolveText(t, "ports = { "+tt.ports+" }\n"+
				"startup.grpc.port = 1\n"+
				"liveness.http_get.port = "+tt.port+"\n"+
				"readiness.tcp_socket.port = "+tt.port+"\n")
			if got := spec.Probes[core.Liveness].Handler.HTTPGet.Port; got != tt.want {
				t.Errorf("http_get: got %d, want %d", got, tt.want)
			}
			if got := spec.Probes[core.Readiness].Handler.TCPSocket.Port; got != tt.want {
				t.Errorf("tcp_socket: got %d, want %d", got, tt.want)
			}
		})
	}
}

func TestValidProbes(t *testing.T) {
	get := func(h prober.HTTPGet) prober.Handler {
		h.Scheme = "http"
		return prober.Handler{HTTPGet: &h}
	}
	header := func(name, value string) prober.Header { return prober.Header{Name: name, Value: value} }
	tests := []struct {
		name    string
		kubelet string
		text    string // below [spec.readiness], or another probe
		change  func(*core.ProbeSpec)
	}{
		{"initial delay", "246", `initial_delay = "10s"`, func(p *core.ProbeSpec) { p.InitialDelay = 10 * time.Second }},
		{"timeout", "246", `timeout = "10s"`, func(p *core.ProbeSpec) { p.Timeout = 10 * time.Second }},
		{"period", "246", `period = "10s"`, func(p *core.ProbeSpec) { p.Period = 10 * time.Second }},
		{"success threshold", "246", "success_threshold = 10", func(p *core.ProbeSpec) { p.SuccessThreshold = 10 }},
		{"failure threshold", "246", "failure_threshold = 10", func(p *core.ProbeSpec) { p.FailureThreshold = 10 }},
		{"only exec", "248 255", "", func(*core.ProbeSpec) {}},
		{"least port", "255", `http_get = { port = 1, path = "/" }`, func(p *core.ProbeSpec) {
			p.Handler = get(prober.HTTPGet{Port: 1, Path: "/"})
		}},
		{"host", "255", `http_get = { port = 65535, path = "/foo", host = "host" }`, func(p *core.ProbeSpec) {
			p.Handler = get(prober.HTTPGet{Port: 65535, Path: "/foo", Host: "host"})
		}},
		{"named port", "255", `http_get = { port = "port", path = "/" }`, func(p *core.ProbeSpec) {
			p.Handler = get(prober.HTTPGet{Port: 8080, Path: "/"})
		}},
		{"header Host", "255", `http_get = { port = "port", headers = [{ name = "Host", value = "foo.example.com" }] }`, func(p *core.ProbeSpec) {
			p.Handler = get(prober.HTTPGet{Port: 8080, Path: "/", Headers: []prober.Header{header("Host", "foo.example.com")}})
		}},
		{"header twice", "255", `http_get.port = "port"
http_get.headers = [{ name = "X-Forwarded-For", value = "1.2.3.4" }, { name = "X-Forwarded-For", value = "5.6.7.8" }]`, func(p *core.ProbeSpec) {
			p.Handler = get(prober.HTTPGet{Port: 8080, Path: "/", Headers: []prober.Header{
				header("X-Forwarded-For", "1.2.3.4"), header("X-Forwarded-For", "5.6.7.8")}})
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Attr("kubelet", tt.kubelet)
			text := tt.text
			want := core.ProbeSpec{
				Handler:          prober.Handler{Exec: &prober.Exec{Command: []string{"echo"}}},
				Period:           10 * time.Second,
				Timeout:          time.Second,
				SuccessThreshold: 1,
				FailureThreshold: 3,
			}
			tt.change(&want)
			if want.Handler.Exec != nil {
				text += "\nexec.command = [\"echo\"]"
			}
			got := resolveText(t, "ports.port = 8080\n[spec.readiness]\n"+text).Probes[core.Readiness]
			if !reflect.DeepEqual(*got, want) {
				t.Errorf("got %+v with %s, want %+v with %s", *got, show(got.Handler), want, show(want.Handler))
			}
		})
	}
	t.Run("none", func(t *testing.T) {
		t.Attr("kubelet", "246")
		if spec := resolveText(t, ""); spec.Probes != ([core.NumProbes]*core.ProbeSpec{}) {
			t.Errorf("got %+v, want no probes", spec.Probes)
		}
	})
	t.Run("grace", func(t *testing.T) {
		t.Attr("kubelet", "254")
		spec := resolveText(t, `
startup = { tcp_socket.port = 1, termination_grace_period = "1s" }
liveness = { tcp_socket.port = 1, termination_grace_period = "1s" }
`)
		for _, which := range []core.ProbeType{core.Startup, core.Liveness} {
			if got := spec.Probes[which].TerminationGracePeriod; got != time.Second {
				t.Errorf("%v: got %v, want 1s", which, got)
			}
		}
	})
}
