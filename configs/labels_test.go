package configs

import (
	"fmt"
	"maps"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"healthd/prober"
	"healthd/runtime"
	"healthd/supervisor/core"
)

func TestBadLabels(t *testing.T) {
	const tcp = "healthd.liveness.tcp_socket.port=1"
	const gateRule = `must be NAME or DOMAIN/NAME such as "example.com/warmed-up" (NAME: at most 63 letters, digits, _, . and -, a letter or digit at both ends)`
	const groupRule = `must be NAME or NAME/NAME such as "shop/web" (letters, digits, _, . and -, a letter or digit first in each NAME, at most 253 characters)`
	const live = "healthd.liveness: must have exactly one of http_get, tcp_socket, exec, grpc and engine_health, has "
	tests := []struct {
		name   string
		labels map[string]string
		want   string // each after "label ", joined by "; "
	}{
		{"enable", labels("healthd.enable=ture"), `healthd.enable: must be true or false, is "ture"`},
		{"enable empty", labels("healthd.enable=", tcp), `healthd.enable: must be true or false, is ""`},
		{"spec", labels("healthd.spec=wbe"), `healthd.spec: there is no spec named "wbe", did you mean "web"?`},
		{"misspelt probe", labels("healthd.livness.tcp_socket.port=1"), `healthd.livness: unknown key, did you mean "liveness"?`},
		{"misspelt field", labels(tcp, "healthd.liveness.perod=1s"), `healthd.liveness.perod: unknown key, did you mean "period"?`},
		{"misspelt, nothing else", labels("healthd.restartpolicy=Never"), `healthd.restartpolicy: unknown key, did you mean "restart_policy"?`},
		{"no path", labels("healthd.=x"), `healthd."": unknown key`},
		{"name", labels("healthd.name=x"), "healthd.name: cannot be set by a label"},
		{"match", labels("healthd.spec=web", "healthd.match.a=x"), "healthd.match: cannot be set by a label"},
		{"host", labels("healthd.liveness.http_get.port=1", "healthd.liveness.http_get.host=x"), "healthd.liveness.http_get.host: cannot be set by a label"},
		{"no handler", labels("healthd.liveness.period=1s"), live + "none"},
		{"two handlers", labels(tcp, "healthd.liveness.grpc.port=1"), live + "tcp_socket and grpc"},
		{"two handlers over the file's", labels("com.docker.compose.service=web", "com.example.stage=x", tcp, "healthd.liveness.http_get.port=2"),
			"healthd.liveness.http_get.port: cannot be set by a label, because healthd.toml:7 sets headers; label " + live + "http_get and tcp_socket"},
		{"two handlers over the file's, further in", labels("healthd.spec=fixed", "healthd.readiness.http_get.scheme=https", "healthd.readiness.engine_health="),
			"healthd.readiness.http_get.scheme: cannot be set by a label, because healthd.toml:20 sets host; label " +
				strings.Replace(live, "liveness", "readiness", 1) + "http_get and engine_health"},
		{"duration", labels(tcp, "healthd.liveness.period=10"), `healthd.liveness.period: must be a duration such as "10s", is "10"`},
		{"negative", labels(tcp, "healthd.liveness.period=-1s", "healthd.liveness.success_threshold=2", "healthd.liveness.failure_threshold=x"),
			`healthd.liveness.period: must be at least 100ms, is "-1s"; ` +
				`label healthd.liveness.success_threshold: must be 1, is 2; label healthd.liveness.failure_threshold: must be an integer, is "x"`},
		{"readiness grace", labels("healthd.readiness.tcp_socket.port=1", "healthd.readiness.termination_grace_period=5s"),
			"healthd.readiness.termination_grace_period: must not be set on readiness: a failed readiness probe stops nothing"},
		{"port", labels("healthd.liveness.http_get.port=66666"), `healthd.liveness.http_get.port: must be 1 to 65535 or a port name, is "66666"`},
		{"port empty", labels("healthd.liveness.tcp_socket.port="), `healthd.liveness.tcp_socket.port: must be 1 to 65535 or a port name, is ""`},
		{"port name", labels("healthd.liveness.tcp_socket.port=not-found"), `healthd.liveness.tcp_socket.port: no port named "not-found" in ports`},
		{"grpc port name", labels("healthd.liveness.grpc.port=http", "healthd.ports.http=80"), `healthd.liveness.grpc.port: must be an integer, is "http"`},
		{"table", labels("healthd.liveness.exec=true"), `healthd.liveness.exec: takes no value, only keys below it, is "true"`},
		{"below a value", labels(tcp, "healthd.liveness.period=1s", "healthd.liveness.period.x=1"),
			"healthd.liveness.period.x: another label sets a part of this path: remove one of them"},
		{"below nothing", labels(tcp, "healthd.liveness.period.x=1"), `healthd.liveness.period: must be a duration such as "10s", is a table`},
		{"command quote", labels("healthd.liveness.exec.command=sh 'x"), "healthd.liveness.exec.command: has an open quote, or a backslash at its end"},
		{"command shell", labels("healthd.liveness.exec.command=curl -f localhost || exit 1"),
			`healthd.liveness.exec.command: no shell runs this, so || does nothing: use ["sh", "-c", "..."], or a JSON array to pass it as a word`},
		{"command JSON", labels(`healthd.liveness.exec.command=["a",]`), "healthd.liveness.exec.command: must be a JSON array: healthd cannot parse it"},
		{"command JSON end", labels(`healthd.liveness.exec.command=["a"] b`), "healthd.liveness.exec.command: must be a JSON array: there is text after it"},
		{"command JSON type", labels(`healthd.liveness.exec.command=["a",1]`), "healthd.liveness.exec.command[1]: must be a string, is 1 (an integer)"},
		{"command empty", labels("healthd.liveness.exec.command= "), "healthd.liveness.exec.command: must not be empty"},
		{"headers", labels("healthd.liveness.http_get.port=1", "healthd.liveness.http_get.headers=A: secret"),
			"healthd.liveness.http_get.headers: must be a JSON array: healthd cannot parse it"},
		{"header", labels("healthd.liveness.http_get.port=1", `healthd.liveness.http_get.headers=[{"name":"A","value":"x\r\nB: y"}]`),
			"healthd.liveness.http_get.headers[0].value: must not have control characters"},
		{"engine_health", labels("healthd.liveness.engine_health=false"), `healthd.liveness.engine_health: must be {}, is "false"`},
		{"backoff", labels("healthd.spec=any-web", "healthd.backoff.initial=2s", "healthd.backoff.max=1s"),
			`healthd.backoff.max: must be at least initial (2s), is "1s"`},
		{"backoff under the file's", labels("healthd.spec=hooks", "healthd.backoff.max=1s"), `healthd.backoff.max: must be at least initial (5s), is "1s"`},
		{"backoff over the file's", labels("healthd.spec=hooks", "healthd.backoff.initial=2m"), `healthd.backoff.initial: must be at most max (1m), is "2m"`},
		{"host and port", labels("healthd.spec=fixed", "healthd.readiness.http_get.port=22"),
			"healthd.readiness.http_get.port: cannot be set by a label, because healthd.toml:20 sets host"},
		{"host and path", labels("healthd.spec=fixed", "healthd.readiness.http_get.path=/x"),
			"healthd.readiness.http_get.path: cannot be set by a label, because healthd.toml:20 sets host"},
		{"host and named port", labels("healthd.spec=fixed", "healthd.ports.http=22"),
			"healthd.ports.http: cannot be set by a label, because healthd.toml:20 sets host"},
		{"host and tcp port", labels("healthd.spec=fixed", "healthd.liveness.tcp_socket.port=22"),
			"healthd.liveness.tcp_socket.port: cannot be set by a label, because healthd.toml:22 sets host"},
		{"rules", labels("healthd.restart_rules=In 42"), "healthd.restart_rules: must be a JSON array: healthd cannot parse it"},
		{"rules element", labels(`healthd.restart_rules=[42]`), "healthd.restart_rules[0]: must be a table, is 42 (an integer)"},
		{"rules below", labels("healthd.restart_rules.operator=In"), "healthd.restart_rules: must be an array, is a table"},
		{"rule", labels(`healthd.restart_rules=[{"exit_codes":["42",1.5],"operator":"in"}]`),
			`healthd.restart_rules[0].exit_codes[0]: must be an integer, is "42" (a string); ` +
				"label healthd.restart_rules[0].exit_codes[1]: must be an integer, is 1.5; " +
				`label healthd.restart_rules[0].operator: must be "In" or "NotIn", is "in": write "In"; label healthd.restart_rules[0].action: must be set`},
		{"gate", labels("healthd.readiness_gates=a /b"), `healthd.readiness_gates[1]: ` + gateRule + `, is "/b"`},
		{"gate JSON", labels(`healthd.readiness_gates=["a",1]`), "healthd.readiness_gates[1]: must be a string, is 1 (an integer)"},
		{"gate empty", labels(`healthd.readiness_gates=""`), `healthd.readiness_gates[0]: ` + gateRule + `, is ""`},
		{"gates", labels("healthd.readiness_gates=" + strings.Repeat("a ", 33)), "healthd.readiness_gates: must have at most 32 gates, has 33"},
		{"hooks", labels("healthd.lifecycle=true"), `healthd.lifecycle: takes no value, only keys below it, is "true"`},
		{"misspelt hook", labels("healthd.lifecycle.prestop.exec.command=x"), `healthd.lifecycle.prestop: unknown key, did you mean "pre_stop"?`},
		{"hook", labels("healthd.lifecycle.pre_stop=/drain.sh"), `healthd.lifecycle.pre_stop: takes no value, only keys below it, is "/drain.sh"`},
		{"two handlers of a hook", labels("healthd.spec=hooks", "healthd.lifecycle.pre_stop.exec.command=x", "healthd.lifecycle.pre_stop.tcp_socket.port=1"),
			"healthd.lifecycle.pre_stop: must have exactly one of http_get, tcp_socket, exec and sleep, has tcp_socket and exec"},
		{"host of a hook", labels("healthd.lifecycle.pre_stop.tcp_socket.port=1", "healthd.lifecycle.pre_stop.tcp_socket.host=x"),
			"healthd.lifecycle.pre_stop.tcp_socket.host: cannot be set by a label"},
		{"host and port of a hook", labels("healthd.spec=hooks", "healthd.lifecycle.post_start.http_get.port=22"),
			"healthd.lifecycle.post_start.http_get.port: cannot be set by a label, because healthd.toml:41 sets host"},
		{"host and named port of a hook", labels("healthd.spec=hooks", "healthd.ports.http=22"),
			"healthd.ports.http: cannot be set by a label, because healthd.toml:41 sets host"},
		{"sleep", labels("healthd.lifecycle.pre_stop.sleep=5s"), `healthd.lifecycle.pre_stop.sleep: takes no value, only keys below it, is "5s"`},
		{"post_start sleeps long", labels("healthd.lifecycle.post_start.sleep.duration=6m"), `healthd.lifecycle.post_start.sleep.duration: must be at most 5m, is "6m"`},
		{"pre_stop sleeps long", labels("healthd.spec=hooks", "healthd.lifecycle.pre_stop.sleep.duration=1m"),
			`healthd.lifecycle.pre_stop.sleep.duration: must be at most termination_grace_period (20s), is "1m"`},
		{"grace for the file's sleep", labels("healthd.spec=hooks", "healthd.termination_grace_period=5s"),
			`healthd.termination_grace_period: must be at least lifecycle.pre_stop.sleep.duration (10s), is "5s"`},
		{"grace and sleep", labels("healthd.spec=hooks", "healthd.termination_grace_period=5s", "healthd.lifecycle.pre_stop.sleep.duration=6s"),
			`healthd.lifecycle.pre_stop.sleep.duration: must be at most termination_grace_period (5s), is "6s"`},
		{"group", labels("healthd.group=web"), `healthd.group: takes no value, only keys below it, is "web"`},
		{"misspelt group key", labels("healthd.group.maxUnavailable=1", "healthd.group.nmae=x"),
			`healthd.group.maxUnavailable: unknown key, did you mean "max_unavailable"?; label healthd.group.nmae: unknown key, did you mean "name"?`},
		{"group name", labels("healthd.group.name=shop//web"), "healthd.group.name: " + groupRule + `, is "shop//web"`},
		{"group name empty", labels("healthd.group.name="), "healthd.group.name: " + groupRule + `, is ""`},
		{"unavailable", labels("healthd.group.max_unavailable=0"), "healthd.group.max_unavailable: must be 1 to 1000000, is 0"},
		{"unavailable word", labels("healthd.group.max_unavailable=all"),
			`healthd.group.max_unavailable: must be a number of members or a percentage such as "25%", is "all"`},
		{"unavailable per cent", labels("healthd.group.max_unavailable=101%"), `healthd.group.max_unavailable: must be "1%" to "100%", is "101%"`},
		{"unavailable below", labels("healthd.group.max_unavailable.x=1"),
			`healthd.group.max_unavailable: must be a number of members or a percentage such as "25%", is a table`},
		{"daemon", labels("healthd.guard.window=1s", "healthd.state.dir=/x"), "healthd.guard: unknown key; label healthd.state: unknown key"},
		{"control characters", labels(tcp, "healthd.x\x1b[2J=1", "healthd.restart_policy=\n\x00"),
			`healthd.restart_policy: must be "Always", "OnFailure" or "Never", is "\n\x00"; label healthd."x\x1b[2J": unknown key`},
		{"not UTF-8", labels(tcp, "healthd.liveness.exec.command=\xff"), "healthd.liveness.exec.command: must be UTF-8 text"},
		{"not UTF-8, as it is read from an engine", labels(tcp, "healthd.liveness.exec.command=cat \uFFFD", "healthd.startup.\uFFFD=1"),
			`healthd.liveness.exec.command: must be UTF-8 text; label healthd."startup.` + "\uFFFD" + `": must be UTF-8 text`},
		{"value too long", labels(tcp, "healthd.liveness.period="+strings.Repeat("1", 5000)), "healthd.liveness.period: must have at most 4096 bytes, has 5000"},
		{"long value", labels(tcp, "healthd.liveness.period="+strings.Repeat("1", 4000)),
			`healthd.liveness.period: must be a duration such as "10s", is "` + strings.Repeat("1", 64) + `"...`},
		{"key too long", labels("healthd." + strings.Repeat("a.", 200) + "=1"),
			`healthd."` + strings.Repeat("a.", 32) + `"...: the key must have at most 256 bytes, has 408`},
	}
	c := mustParse(t, webSpec+hookSpec)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			spec, err := c.Resolve(runtime.Traits{Name: "c", Labels: tt.labels})
			if err == nil {
				t.Fatalf("got %+v, want an error", spec)
			}
			if got, want := err.Error(), "label "+tt.want; got != want {
				t.Errorf("got:\n%s\nwant:\n%s", got, want)
			}
		})
	}
}

func TestTooManyLabels(t *testing.T) {
	many, most := map[string]string{}, map[string]string{}
	for i := range 1000 {
		many["healthd.x"+strconv.Itoa(i)] = "1"
	}
	for i := range maxLabels {
		most["healthd.x"+strconv.Itoa(i)] = "1"
	}
	c := mustParse(t, "")
	_, err := c.Resolve(runtime.Traits{Name: "c", Labels: many})
	if want := "label healthd.*: at most 64 labels are allowed, there are 1000"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	_, err = c.Resolve(runtime.Traits{Name: "c", Labels: most})
	if err == nil || !strings.HasSuffix(err.Error(), "; and 54 more") {
		t.Errorf("got %v, want 54 more", err)
	}
}

// A label that says enable=false may be among those that healthd has not read.
func TestLabelsTooLarge(t *testing.T) {
	c := mustParse(t, webSpec)
	for name, l := range map[string]map[string]string{
		"of a spec": labels("com.docker.compose.service=web"), "by label": labels("healthd.enable=true"), "disabled": labels("healthd.enable=false"), "foreign": labels("a=b"),
	} {
		l[runtime.LabelsClipped] = ""
		spec, err := c.Resolve(runtime.Traits{Name: "c", Labels: l})
		invalid := name == "of a spec" || name == "by label"
		if want := "label healthd.*: the container's labels are too large: healthd reads 256 KiB of them"; spec != nil || (err != nil) != invalid || invalid && err.Error() != want {
			t.Errorf("%s: got %v, %v, want %s: %v", name, spec, err, want, invalid)
		}
	}
}

// FuzzLabels sets two labels of any text, over a spec and over none.
func FuzzLabels(f *testing.F) {
	for _, seed := range [][4]string{
		{"healthd.liveness.exec.command", `["a"]`, "healthd.liveness.period", "1s"},
		{"healthd.liveness.exec.command", `sh -c 'x "$a"' \`, "healthd.enable", "tru"},
		{"healthd.liveness.http_get.port", "http", "healthd.liveness.http_get.headers", `[{"name":"A","value":"b"},[],{"x":{"y":1e9}}]`},
		{"healthd.ports.http", "1", "healthd.readiness.tcp_socket", "{}"},
		{"healthd.spec", "fixed", "healthd.backoff.max", "9999999h"},
		{"healthd.match", "x", "healthd..a..b", "\x00"},
		{"healthd.restart_rules", `[{"exit_codes":[42],"operator":"In","action":"Restart"}]`, "healthd.readiness_gates", `["example.com/a"]`},
		{"healthd.restart_rules", "[null]", "healthd.readiness_gates", "example.com/a b"},
		{"healthd.lifecycle.pre_stop.sleep.duration", "15s", "healthd.termination_grace_period", "12s"},
		{"healthd.lifecycle.post_start.exec.command", "/warm.sh", "healthd.lifecycle.pre_stop.http_get.port", "http"},
		{"healthd.lifecycle.post_start.http_get.host", "x", "healthd.lifecycle", "{}"},
		{"healthd.group.name", "shop/web", "healthd.group.max_unavailable", "25%"},
		{"healthd.group.scope", "fleet", "healthd.group.unreachable", "wait"},
		{"healthd.publish.address", "container", "healthd.publish.port", "80"},
		{"healthd.group.name", "/", "healthd.group.max_unavailable", "99999999999999999999%"},
		{"healthd.publish.port", "http", "healthd.publish.haproxy.backend", "web"},
		{"healthd.publish.haproxy", "{}", "healthd.publish.haproxy.backend", "web/s1; help"},
		{"healthd.readiness.http_get.expect.json", "a == 'b'", "healthd.readiness.http_get.expect.status", `200 "300-399"`},
		{"healthd.readiness.http_get.tls.verify", "true", "healthd.readiness.http_get.tls.ca_file", "/etc/passwd"},
		{"healthd.liveness.exec.warning_exit_codes", "[1, 2]", "healthd.liveness.http_get.method", "HEAD"},
		{"healthd.extends", "web", "healthd.match_image", "*"},
	} {
		f.Add(seed[0], seed[1], seed[2], seed[3])
	}
	c, err := Parse("healthd.toml", []byte(webSpec+hookSpec+haproxySpec+layered+guardedSpec))
	if err != nil {
		f.Fatal(err)
	}
	guarded, err := c.Resolve(runtime.Traits{Name: "c", Labels: map[string]string{specLabel: "guarded"}})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, key1, value1, key2, value2 string) {
		set := map[string]string{key1: value1, key2: value2}
		for _, name := range []string{"", "web", "fixed", "hooks", "balanced", "api", "api-v2", "guarded"} {
			m := maps.Clone(set)
			if name != "" {
				m[specLabel] = name
			}
			checkResolved(t, c, m)
			checkGuarded(t, c, m, guarded)
		}
	})
}

func checkResolved(t *testing.T, c *Config, labels map[string]string) {
	t.Helper()
	traits := runtime.Traits{Name: "c", Image: "x", Labels: labels}
	spec, err := c.Resolve(traits)
	if may := c.MaySupervise(traits); may != (spec != nil || err != nil) {
		t.Errorf("it may be supervised: %v; the spec %v, the error %v", may, spec, err)
	}
	if err != nil {
		if text := err.Error(); len(text) > 10_000 || !strings.Contains(text, "label healthd.") ||
			strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			t.Errorf("bad message %q", text)
		}
		return
	}
	if spec == nil {
		return
	}
	for _, p := range spec.Probes {
		if p == nil {
			continue
		}
		if p.Period <= 0 || p.Timeout <= 0 || p.FailureThreshold < 1 || p.SuccessThreshold < 1 {
			t.Errorf("not complete: %+v", p)
		}
		checkAsked(t, p.Handler.HTTPGet)
	}
	for _, hook := range []*prober.LifecycleHandler{spec.Lifecycle.PostStart, spec.Lifecycle.PreStop} {
		if hook == nil {
			continue
		}
		checkAsked(t, hook.HTTPGet)
		if hook.Sleep != nil && (hook.Sleep.Duration < 0 || hook.HTTPGet != nil || hook.TCPSocket != nil || hook.Exec != nil) {
			t.Errorf("not one handler: %s", showHook(hook))
		}
	}
	checkRestarts(t, spec)
	checkPushed(t, spec.Publish)
	for _, v := range spec.Settings() {
		if strings.Contains(fmt.Sprint(v), "secret") {
			t.Errorf("a header's value is shown: %v", v)
		}
	}
}

// guardedSpec has what labels must not redirect, in a layer of its own.
const guardedSpec = `
[[spec]]
name = "guarded-base"
[spec.ports]
https = 443
[spec.readiness]
http_get = { port = "https", scheme = "https", headers = [{ name = "Authorization", value = "secret" }] }
[[spec]]
name = "guarded"
extends = "guarded-base"
claimable = true
[spec.readiness.http_get]
method = "GET"
expect = { status = [200], json = "up" }
tls = { verify = true, server_name = "api" }
`

// checkGuarded says that labels leave a handler with a secret as it is, or replace all of it.
func checkGuarded(t *testing.T, c *Config, labels map[string]string, guarded *core.Spec) {
	t.Helper()
	spec, err := c.Resolve(runtime.Traits{Name: "c", Labels: labels})
	if err != nil || spec == nil || spec.Name != "guarded" || spec.Probes[core.Readiness].Handler.HTTPGet == nil {
		return
	}
	if got, want := spec.Probes[core.Readiness].Handler, guarded.Probes[core.Readiness].Handler; !reflect.DeepEqual(got, want) {
		t.Errorf("labels changed what is asked with a secret: %+v", got.HTTPGet)
	}
}

func checkAsked(t *testing.T, h *prober.HTTPGet) {
	t.Helper()
	if h != nil && (h.Host != "" && h.Host != "lb.example.com" || h.Port < 1 || h.Port > 65535) {
		t.Errorf("labels chose whom to ask: %+v", h)
	}
}

func checkPushed(t *testing.T, p core.Publish) {
	t.Helper()
	if name := p.HAProxy.Backend; name != "" && (p.Port == 0 || len(name) > 128 || strings.ContainsAny(name, "/;#@|\\ \t\r\n\"'\x00")) {
		t.Errorf("nothing to put into a command: %+v", p)
	}
}

func checkRestarts(t *testing.T, spec *core.Spec) {
	t.Helper()
	if b := spec.Backoff; b.Initial <= 0 || b.Max < b.Initial {
		t.Errorf("no such back-off: %+v", b)
	}
	if s := spec.Group.MaxUnavailable; s.Percent < 0 || s.Percent > 100 || s.Number < 0 || (s.Percent > 0) == (s.Number > 0) {
		t.Errorf("no such share: %+v", s)
	}
	if len(spec.ReadinessGates) > maxGates || len(spec.RestartRules) > maxRestartRules {
		t.Errorf("too many: %d gates, %d rules", len(spec.ReadinessGates), len(spec.RestartRules))
	}
	for _, rule := range spec.RestartRules {
		if rule.Operator != core.In && rule.Operator != core.NotIn || len(rule.ExitCodes) < 1 || len(rule.ExitCodes) > maxExitCodes {
			t.Errorf("not complete: %+v", rule)
		}
	}
}

// TestBenignLabels keeps the limits above what people write.
func TestBenignLabels(t *testing.T) {
	text, err := os.ReadFile("healthd.toml")
	if err != nil {
		t.Fatal(err)
	}
	m := labels("healthd.liveness.tcp_socket.port=1", "org.example.big="+strings.Repeat(string(text), 10))
	for i := range 500 {
		m["com.example."+strconv.Itoa(i)] = "x"
	}
	if spec, err := mustParse(t, "").Resolve(runtime.Traits{Name: "c", Labels: m}); err != nil || spec == nil {
		t.Errorf("got %v, %v", spec, err)
	}
}
