package configs

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"healthd/prober"
	"healthd/runtime"
	"healthd/supervisor/core"
)

const webSpec = `
[[spec]]
name  = "web"
match = { "com.docker.compose.service" = "web", "com.example.stage" = "*" }
claimable = true
[spec.liveness]
http_get = { port = "http", path = "/healthz", headers = [{ name = "X-Token", value = "secret" }] }
period   = "5s"

[spec.ports]
http = 8080

[[spec]]
name  = "any-web"
match = { "com.docker.compose.service" = "web*" }

[[spec]]
name = "fixed"
[spec.readiness]
http_get = { port = "http", host = "lb.example.com" }
[spec.liveness]
tcp_socket = { port = 1, host = "10.0.0.1" }
[spec.ports]
http = 80

[[spec]]
name = "bare"
`

// labels makes a map of "key=value" texts.
func labels(pairs ...string) map[string]string {
	m := map[string]string{}
	for _, pair := range pairs {
		key, value, _ := strings.Cut(pair, "=")
		m[key] = value
	}
	return m
}

func TestResolveChooses(t *testing.T) {
	c := mustParse(t, webSpec)
	tests := []struct {
		name      string
		labels    map[string]string
		spec      string
		matchedBy string // empty: left alone
	}{
		{"nothing", nil, "", ""},
		{"foreign labels", labels("a=b", "healthdx.liveness.tcp_socket.port=1"), "", ""},
		{"all labels match", labels("com.docker.compose.service=web", "com.example.stage=x"), "web",
			"match com.docker.compose.service=web, com.example.stage=* (healthd.toml:2)"},
		{"* matches nothing", labels("com.docker.compose.service=web", "com.example.stage="), "web",
			"match com.docker.compose.service=web, com.example.stage=* (healthd.toml:2)"},
		{"the next when one label is missing", labels("com.docker.compose.service=web"), "any-web",
			"match com.docker.compose.service=web* (healthd.toml:13)"},
		{"no match is no match", labels("com.docker.compose.service=db"), "", ""},
		{"chosen by label", labels("healthd.spec=bare", "com.docker.compose.service=web"), "bare",
			"label healthd.spec=bare (healthd.toml:26)"},
		{"not enabled", labels("healthd.enable=false", "healthd.spec=web", "healthd.livness.x=1"), "", ""},
		{"not enabled 0", labels("healthd.enable=0", "com.docker.compose.service=web"), "", ""},
		{"enabled and nothing else", labels("healthd.enable=true"), "", "labels only"},
		{"enabled", labels("healthd.enable=true", "com.docker.compose.service=web"), "any-web",
			"match com.docker.compose.service=web* (healthd.toml:13)"},
		{"probe label", labels("healthd.liveness.tcp_socket.port=1"), "", "labels only"},
		{"group label", labels("healthd.group.name=shop/web", "com.docker.compose.project=shop"), "", "labels only"},
		{"hook label", labels("healthd.lifecycle.pre_stop.sleep.duration=1s"), "", "labels only"},
		{"other label", labels("healthd.restart_policy=Never", "healthd.ports.http=80"), "", "labels only"},
		{"one-off", labels("com.docker.compose.service=web", "com.docker.compose.oneoff=True"), "", ""},
		{"no one-off", labels("com.docker.compose.service=web", "com.docker.compose.oneoff=False"), "any-web",
			"match com.docker.compose.service=web* (healthd.toml:13)"},
		{"one-off, other label", labels("com.docker.compose.service=web", "com.docker.compose.oneoff=True", "healthd.restart_policy=Never"), "", ""},
		{"one-off, enabled", labels("com.docker.compose.service=web", "com.docker.compose.oneoff=True", "healthd.enable=true"), "any-web",
			"match com.docker.compose.service=web* (healthd.toml:13)"},
		{"one-off, chosen by label", labels("com.docker.compose.oneoff=True", "healthd.spec=bare"), "", ""},
		{"one-off, probe label", labels("com.docker.compose.oneoff=True", "healthd.liveness.tcp_socket.port=1"), "", ""},
		{"one-off, probe label and enabled", labels("com.docker.compose.oneoff=True", "healthd.liveness.tcp_socket.port=1", "healthd.enable=true"), "", "labels only"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			spec, err := c.Resolve(runtime.Traits{Name: "c", Labels: tt.labels})
			if err != nil {
				t.Fatal(err)
			}
			if spec == nil {
				if tt.matchedBy != "" {
					t.Fatal("left alone")
				}
				return
			}
			if spec.Name != tt.spec || spec.MatchedBy != tt.matchedBy {
				t.Errorf("got %q by %q, want %q by %q", spec.Name, spec.MatchedBy, tt.spec, tt.matchedBy)
			}
		})
	}
}

func TestResolveDefaults(t *testing.T) {
	spec, err := mustParse(t, "").Resolve(runtime.Traits{Name: "web-1", Labels: labels("healthd.readiness.http_get.port=80")})
	if err != nil {
		t.Fatal(err)
	}
	spec.Values, spec.ServiceOrigin = nil, ""
	want := &core.Spec{
		MatchedBy:     "labels only",
		RestartPolicy: core.Always,
		OnFailure:     core.RestartFailed,
		Probes: [core.NumProbes]*core.ProbeSpec{core.Readiness: {
			Handler:          prober.Handler{HTTPGet: &prober.HTTPGet{Scheme: "http", Port: 80, Path: "/"}},
			Period:           10 * time.Second,
			Timeout:          time.Second,
			SuccessThreshold: 1,
			FailureThreshold: 3,
		}},
		Backoff: core.Backoff{Initial: 10 * time.Second, Max: 5 * time.Minute, ResetAfter: 10 * time.Minute},
		Publish: core.Publish{Service: "web-1"},
		Group:   core.Group{MaxUnavailable: core.Share{Number: 1}},
	}
	if !reflect.DeepEqual(spec, want) {
		t.Errorf("got %+v, want %+v", spec, want)
	}
}

// TestHandlers covers what labels can say.
func TestHandlers(t *testing.T) {
	http := func(h prober.HTTPGet) prober.Handler { return prober.Handler{HTTPGet: &h} }
	tcp := func(port int) prober.Handler { return prober.Handler{TCPSocket: &prober.TCPSocket{Port: port}} }
	exec := func(words ...string) prober.Handler {
		return prober.Handler{Exec: &prober.Exec{Command: words}}
	}
	tests := []struct {
		labels []string // below healthd.liveness.
		want   prober.Handler
	}{
		{[]string{"tcp_socket.port=found"}, tcp(93)},
		{[]string{"tcp_socket.port=76"}, tcp(76)},
		{[]string{"tcp_socket.port=118"}, tcp(118)},
		{[]string{"http_get.port=found"}, http(prober.HTTPGet{Scheme: "http", Port: 93, Path: "/"})},
		{[]string{"http_get.port=65535", "http_get.path=path?a=b", "http_get.scheme=HTTPS"},
			http(prober.HTTPGet{Scheme: "https", Port: 65535, Path: "/path?a=b"})},
		{[]string{"http_get.port=1", `http_get.headers=[{"name":"X-Forwarded-For","value":"1.2.3.4"},{"name":"X-Forwarded-For","value":""}]`},
			http(prober.HTTPGet{Scheme: "http", Port: 1, Path: "/", Headers: []prober.Header{
				{Name: "X-Forwarded-For", Value: "1.2.3.4"}, {Name: "X-Forwarded-For"}}})},
		{[]string{`exec.command=["pg_isready","-q"]`}, exec("pg_isready", "-q")},
		{[]string{`exec.command= ["a b", ""] `}, exec("a b", "")},
		{[]string{"exec.command=pg_isready -q"}, exec("pg_isready", "-q")},
		{[]string{`exec.command=sh -c 'echo "$HOME" | wc' ""`}, exec("sh", "-c", `echo "$HOME" | wc`, "")},
		{[]string{`exec.command=a\ b "c\d\"e\$f" $HOME *.go ~ #x`}, exec("a b", `c\d"e$f`, "$HOME", "*.go", "~", "#x")},
		{[]string{"grpc.port=9000"}, prober.Handler{GRPC: &prober.GRPC{Port: 9000}}},
		{[]string{"grpc.port=9000", "grpc.service=s"}, prober.Handler{GRPC: &prober.GRPC{Port: 9000, Service: "s"}}},
		{[]string{"engine_health={}"}, prober.Handler{EngineHealth: &prober.EngineHealth{}}},
		{[]string{"engine_health=true"}, prober.Handler{EngineHealth: &prober.EngineHealth{}}},
		{[]string{"engine_health="}, prober.Handler{EngineHealth: &prober.EngineHealth{}}},
	}
	c := mustParse(t, "")
	for _, tt := range tests {
		t.Run(strings.Join(tt.labels, " "), func(t *testing.T) {
			m := labels("healthd.ports.found=93")
			for _, pair := range tt.labels {
				key, value, _ := strings.Cut(pair, "=")
				m["healthd.liveness."+key] = value
			}
			spec, err := c.Resolve(runtime.Traits{Name: "c", Labels: m})
			if err != nil {
				t.Fatal(err)
			}
			if got := spec.Probes[core.Liveness].Handler; !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got %s, want %s", show(got), show(tt.want))
			}
		})
	}
}

func show(h prober.Handler) string {
	return fmt.Sprintf("%+v %+v %+v %+v %+v", h.HTTPGet, h.TCPSocket, h.Exec, h.GRPC, h.EngineHealth)
}

func TestLabelsOverSpec(t *testing.T) {
	const headers = `, headers = [{ name = "X-Token", value = "secret" }]`
	c := mustParse(t, strings.Replace(webSpec, headers, "", 1))
	spec, err := c.Resolve(runtime.Traits{Name: "shop-web-1", Labels: labels(
		"healthd.spec=web",
		"healthd.liveness.http_get.path=/live",
		"healthd.liveness.period=2s",
		"healthd.liveness.failure_threshold=7",
		"healthd.startup.exec.command=true",
		"healthd.startup.termination_grace_period=4s",
		"healthd.readiness.tcp_socket.port=http",
		"healthd.readiness.success_threshold=2",
		"healthd.ports.http=9090",
		"healthd.restart_policy=OnFailure",
		"healthd.termination_grace_period=1m",
		"healthd.backoff.initial=1s",
		"healthd.publish.port=http",
		"healthd.publish.drain=3s",
		"com.docker.compose.service=shop",
	)})
	if err != nil {
		t.Fatal(err)
	}
	live, start, ready := spec.Probes[core.Liveness], spec.Probes[core.Startup], spec.Probes[core.Readiness]
	got := []any{
		*live.Handler.HTTPGet, live.Period, live.Timeout, live.FailureThreshold, start.Handler.Exec.Command,
		start.TerminationGracePeriod, ready.Handler.TCPSocket.Port, ready.SuccessThreshold, spec.RestartPolicy,
		spec.TerminationGracePeriod, spec.Backoff.Initial, spec.Publish,
	}
	want := []any{
		prober.HTTPGet{Scheme: "http", Port: 9090, Path: "/live"},
		2 * time.Second, time.Second, 7, []string{"true"},
		4 * time.Second, 9090, 2, core.OnFailure,
		time.Minute, time.Second, core.Publish{Service: "shop", Port: 9090, Drain: 3 * time.Second},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	// The labels of one container must not reach the next.
	plain, err := c.Resolve(runtime.Traits{Name: "c", Labels: labels("healthd.spec=web")})
	if err != nil {
		t.Fatal(err)
	}
	if p := plain.Probes[core.Liveness]; p.Handler.HTTPGet.Port != 8080 || p.Period != 5*time.Second || plain.Probes[core.Startup] != nil {
		t.Errorf("the spec was changed: %+v", plain)
	}
}

func TestLabelReplacesHandler(t *testing.T) {
	spec, err := mustParse(t, webSpec).Resolve(runtime.Traits{Name: "c", Labels: labels("healthd.spec=fixed", "healthd.readiness.exec.command=true", "healthd.liveness.period=1s")})
	if err != nil {
		t.Fatal(err)
	}
	h := spec.Probes[core.Readiness].Handler
	if h.HTTPGet != nil || h.Exec == nil {
		t.Errorf("got %s, want exec only", show(h))
	}
	if h := spec.Probes[core.Liveness].Handler.TCPSocket; h == nil || h.Host != "10.0.0.1" {
		t.Errorf("got %+v, want the spec's", h)
	}
}

func TestService(t *testing.T) {
	c := mustParse(t, webSpec+"[spec.publish]\nservice = \"given\"\n")
	inShop := func(more ...string) map[string]string {
		return labels(append(more, "com.docker.compose.project=shop", "com.docker.compose.service=x")...)
	}
	const compose = "labels com.docker.compose.project, com.docker.compose.service"
	tests := []struct {
		labels       map[string]string
		want, origin string
		owned        bool
	}{
		{labels("healthd.spec=bare"), "given", "healthd.toml:29", true},
		{inShop("healthd.spec=bare"), "given", "healthd.toml:29", true},
		{labels("healthd.spec=bare", "healthd.publish.service=y"), "y", "label healthd.publish.service", false},
		{labels("healthd.spec=bare", "healthd.publish.service=shop/y", "com.docker.compose.project=shop"), "shop/y", "label healthd.publish.service", false},
		{inShop("healthd.spec=bare", "healthd.publish.service=y"), "shop/y", "label healthd.publish.service", false},
		{inShop("healthd.spec=web"), "shop/x", compose, false},
		{inShop("healthd.liveness.tcp_socket.port=1", "com.docker.compose.oneoff=False"), "shop/x", compose, false},
		{inShop("healthd.spec=web", "healthd.enable=true", "com.docker.compose.oneoff=True"), "c", "default", false},
		{labels("healthd.spec=web", "com.docker.compose.service=x"), "x", "label com.docker.compose.service", false},
		{labels("healthd.spec=web", "com.docker.compose.service=../x"), "web", "default", false},
		{labels("healthd.spec=web", "com.docker.compose.project=../x", "com.docker.compose.service=x"), "web", "default", false},
		{labels("healthd.spec=web"), "web", "default", false},
		{labels("healthd.liveness.tcp_socket.port=1"), "c", "default", false},
	}
	for _, tt := range tests {
		spec, err := c.Resolve(runtime.Traits{Name: "c", Labels: tt.labels})
		if err != nil {
			t.Fatal(err)
		}
		origin := ""
		for _, v := range spec.Settings() {
			if v.Path == "publish.service" {
				origin += v.Origin
			}
		}
		if spec.Publish.Service != tt.want || origin != tt.origin || spec.Publish.Owned != tt.owned {
			t.Errorf("%v: got %q from %q, owned %v, want %q from %q", tt.labels, spec.Publish.Service, origin, spec.Publish.Owned, tt.want, tt.origin)
		}
	}
}

func TestValues(t *testing.T) {
	spec, err := mustParse(t, webSpec).Resolve(runtime.Traits{Name: "c", Labels: labels("healthd.spec=web", "healthd.liveness.timeout=45s")})
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for _, v := range spec.Settings() {
		fmt.Fprintf(&got, "%s = %s  (%s)\n", v.Path, v.Value, v.Origin)
	}
	const want = `restart_policy = "Always"  (default)
on_failure = "restart"  (default)
mode = "enforce"  (default)
termination_grace_period = the container's stop timeout, else "30s"  (default)
ports.http = 8080  (healthd.toml:11)
liveness.http_get.port = "http"  (healthd.toml:7)
liveness.http_get.path = "/healthz"  (healthd.toml:7)
liveness.http_get.scheme = "http"  (default)
liveness.http_get.host = ""  (default)
liveness.http_get.via = "host"; without an address "container"  (default)
liveness.http_get.headers = [{ name = "X-Token", value = "***" }]  (healthd.toml:7)
liveness.http_get.connection = "close"  (default)
liveness.initial_delay = "0s"  (default)
liveness.period = "5s"  (healthd.toml:8)
liveness.timeout = "45s"  (label healthd.liveness.timeout)
liveness.success_threshold = 1  (default)
liveness.failure_threshold = 3  (default)
liveness.termination_grace_period = the spec's  (default)
backoff.initial = "10s"  (default)
backoff.max = "5m"  (default)
backoff.reset_after = "10m"  (default)
give_up = never  (default)
group.name = the Compose project and service, else the container alone  (default)
group.max_unavailable = 1  (default)
publish.drain = "0s"  (default)
publish.service = "web"  (default)
`
	if got.String() != want {
		t.Errorf("got:\n%swant:\n%s", got.String(), want)
	}
}

func TestGlob(t *testing.T) {
	tests := []struct {
		pattern, s string
		want       bool
	}{
		{"", "", true}, {"", "a", false}, {"*", "", true}, {"*", "a/b", true}, {"?", "", false},
		{"?", "é", true}, {"a*b", "ab", true}, {"a*b", "axxb/b", true}, {"a*b", "axxbc", false},
		{"*web*", "my-web-1", true}, {"web-?", "web-12", false}, {"[a]", "a", false}, {"[a]", "[a]", true},
		{`\*`, `\x`, true}, {"**?", "a", true}, {"a", "A", false},
		{strings.Repeat("*a", 20) + "b", strings.Repeat("a", 4000), false},
	}
	for _, tt := range tests {
		if got := glob(tt.pattern, tt.s); got != tt.want {
			t.Errorf("glob(%q, %q): got %v", tt.pattern, tt.s, got)
		}
	}
}
