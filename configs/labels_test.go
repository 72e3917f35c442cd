package configs

import (
	"fmt"
	"maps"
	"os"
	"strconv"
	"strings"
	"testing"
)

// TestBadLabels has kubelet 62, 64, 66, 68-71, 76, 247, 249-254 and 256-261 again,
// as labels.
func TestBadLabels(t *testing.T) {
	const tcp = "healthd.liveness.tcp_socket.port=1"
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
		{"later key", labels("healthd.group.name=x"), `healthd.group: unknown key`},
		{"name", labels("healthd.name=x"), "healthd.name: cannot be set by a label"},
		{"match", labels("healthd.spec=web", "healthd.match.a=x"), "healthd.match: cannot be set by a label"},
		{"host", labels("healthd.liveness.http_get.port=1", "healthd.liveness.http_get.host=x"), "healthd.liveness.http_get.host: cannot be set by a label"},
		{"no handler", labels("healthd.liveness.period=1s"), live + "none"},
		{"two handlers", labels(tcp, "healthd.liveness.grpc.port=1"), live + "tcp_socket and grpc"},
		{"duration", labels(tcp, "healthd.liveness.period=10"), `healthd.liveness.period: must be a duration such as "10s", is "10"`},
		{"negative", labels(tcp, "healthd.liveness.period=-1s", "healthd.liveness.success_threshold=2", "healthd.liveness.failure_threshold=x"),
			`healthd.liveness.period: must be at least 100ms, is "-1s"; ` +
				`label healthd.liveness.success_threshold: must be 1, is 2; label healthd.liveness.failure_threshold: must be an integer, is "x"`},
		{"readiness grace", labels("healthd.readiness.tcp_socket.port=1", "healthd.readiness.termination_grace_period=5s"),
			"healthd.readiness.termination_grace_period: must not be set on readiness, whose failure stops nothing"},
		{"port", labels("healthd.liveness.http_get.port=66666"), `healthd.liveness.http_get.port: must be 1 to 65535 or a port name, is "66666"`},
		{"port empty", labels("healthd.liveness.tcp_socket.port="), `healthd.liveness.tcp_socket.port: must be 1 to 65535 or a port name, is ""`},
		{"port name", labels("healthd.liveness.tcp_socket.port=not-found"), `healthd.liveness.tcp_socket.port: no port named "not-found" in ports`},
		{"grpc port name", labels("healthd.liveness.grpc.port=http", "healthd.ports.http=80"), `healthd.liveness.grpc.port: must be an integer, is "http"`},
		{"table", labels("healthd.liveness.exec=true"), `healthd.liveness.exec: has keys below it and no value of its own, is "true"`},
		{"below a value", labels(tcp, "healthd.liveness.period=1s", "healthd.liveness.period.x=1"),
			"healthd.liveness.period.x: a label of a part of this path has a value too: only one of them can hold"},
		{"below nothing", labels(tcp, "healthd.liveness.period.x=1"), `healthd.liveness.period: must be a duration such as "10s", is a table`},
		{"command quote", labels("healthd.liveness.exec.command=sh 'x"), "healthd.liveness.exec.command: has a quote or a backslash that nothing ends"},
		{"command shell", labels("healthd.liveness.exec.command=curl -f localhost || exit 1"),
			`healthd.liveness.exec.command: there is no shell to run ||: use ["sh", "-c", "..."], or a JSON array if it is meant as a word`},
		{"command JSON", labels(`healthd.liveness.exec.command=["a",]`), "healthd.liveness.exec.command: must be a JSON array: it cannot be read as one"},
		{"command JSON end", labels(`healthd.liveness.exec.command=["a"] b`), "healthd.liveness.exec.command: must be a JSON array: something follows it"},
		{"command JSON type", labels(`healthd.liveness.exec.command=["a",1]`), "healthd.liveness.exec.command[1]: must be a string, is 1 (an integer)"},
		{"command empty", labels("healthd.liveness.exec.command= "), "healthd.liveness.exec.command: must not be empty"},
		{"headers", labels("healthd.liveness.http_get.port=1", "healthd.liveness.http_get.headers=A: secret"),
			"healthd.liveness.http_get.headers: must be a JSON array: it cannot be read as one"},
		{"header", labels("healthd.liveness.http_get.port=1", `healthd.liveness.http_get.headers=[{"name":"A","value":"x\r\nB: y"}]`),
			"healthd.liveness.http_get.headers[0].value: must not have control characters"},
		{"engine_health", labels("healthd.liveness.engine_health=false"), `healthd.liveness.engine_health: must be {}, is "false"`},
		{"backoff", labels("healthd.spec=bare", "healthd.backoff.max=1s"), `healthd.backoff.max: must be at least initial, 10s, is "1s"`},
		{"host and port", labels("healthd.spec=fixed", "healthd.readiness.http_get.port=22"),
			"healthd.readiness.http_get.port: cannot be set by a label, because healthd.toml:20 sets host"},
		{"host and path", labels("healthd.spec=fixed", "healthd.readiness.http_get.path=/x"),
			"healthd.readiness.http_get.path: cannot be set by a label, because healthd.toml:20 sets host"},
		{"host and named port", labels("healthd.spec=fixed", "healthd.ports.http=22"),
			"healthd.ports.http: cannot be set by a label, because healthd.toml:20 sets host"},
		{"host and tcp port", labels("healthd.spec=fixed", "healthd.liveness.tcp_socket.port=22"),
			"healthd.liveness.tcp_socket.port: cannot be set by a label, because healthd.toml:22 sets host"},
		{"control characters", labels(tcp, "healthd.x\x1b[2J=1", "healthd.restart_policy=\n\x00"),
			`healthd.restart_policy: must be "Always", "OnFailure" or "Never", is "\n\x00"; label healthd."x\x1b[2J": unknown key`},
		{"not UTF-8", labels(tcp, "healthd.liveness.exec.command=\xff"), "healthd.liveness.exec.command: must be UTF-8 text"},
		{"value too long", labels(tcp, "healthd.liveness.period="+strings.Repeat("1", 5000)), "healthd.liveness.period: must have at most 4096 bytes, has 5000"},
		{"long value", labels(tcp, "healthd.liveness.period="+strings.Repeat("1", 4000)),
			`healthd.liveness.period: must be a duration such as "10s", is "` + strings.Repeat("1", 64) + `"...`},
		{"key too long", labels("healthd." + strings.Repeat("a.", 200) + "=1"),
			`healthd."` + strings.Repeat("a.", 32) + `"...: the key must have at most 256 bytes, has 408`},
	}
	c := mustParse(t, webSpec)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			spec, err := c.Resolve("c", tt.labels)
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
	_, err := c.Resolve("c", many)
	if want := "label healthd.*: at most 64 labels are allowed, there are 1000"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	_, err = c.Resolve("c", most)
	if err == nil || !strings.HasSuffix(err.Error(), "; and 54 more") {
		t.Errorf("got %v, want 54 more", err)
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
	} {
		f.Add(seed[0], seed[1], seed[2], seed[3])
	}
	c, err := Parse("healthd.toml", []byte(webSpec))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, key1, value1, key2, value2 string) {
		set := map[string]string{key1: value1, key2: value2}
		for _, name := range []string{"", "web", "fixed"} {
			m := maps.Clone(set)
			if name != "" {
				m[specLabel] = name
			}
			checkResolved(t, c, m)
		}
	})
}

func checkResolved(t *testing.T, c *Config, labels map[string]string) {
	t.Helper()
	spec, err := c.Resolve("c", labels)
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
		if h := p.Handler.HTTPGet; h != nil && (h.Host != "" && h.Host != "lb.example.com" || h.Port < 1 || h.Port > 65535) {
			t.Errorf("labels chose whom to ask: %+v", h)
		}
	}
	for _, v := range spec.Values {
		if strings.Contains(fmt.Sprint(v), "secret") {
			t.Errorf("a header's value is shown: %v", v)
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
	if spec, err := mustParse(t, "").Resolve("c", m); err != nil || spec == nil {
		t.Errorf("got %v, %v", spec, err)
	}
}
