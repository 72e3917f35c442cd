package configs

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"healthd/runtime"
	"healthd/supervisor/core"
)

const layered = `
[defaults]
termination_grace_period = "20s"
[defaults.readiness]
period = "3s"
[defaults.liveness]
period = "7s"

[[spec]]
name = "base"
restart_policy = "OnFailure"
ports = { http = 8080 }
liveness = { failure_threshold = 5 }
readiness = { exec.command = ["true"], timeout = "2s" }

[[spec]]
name = "api"
extends = "base"
match = { role = "api" }
termination_grace_period = "5s"
[spec.readiness]
http_get = { port = "http" }

[[spec]]
name = "api-v2"
extends = "api"
match = { role = "api2" }
[spec.liveness]
tcp_socket = { port = "http" }
`

func resolved(t *testing.T, c *Config, pairs ...string) *core.Spec {
	t.Helper()
	spec, err := c.Resolve(runtime.Traits{Name: "c", Labels: labels(pairs...)})
	if err != nil || spec == nil {
		t.Fatalf("got %v, %v", spec, err)
	}
	return spec
}

func origin(spec *core.Spec, path string) string {
	for _, v := range spec.Settings() {
		if v.Path == path {
			return v.Value + " " + v.Origin
		}
	}
	return "none"
}

func TestLayers(t *testing.T) {
	c := mustParse(t, layered)
	api := resolved(t, c, "role=api")
	for path, want := range map[string]string{
		"restart_policy":              `"OnFailure" healthd.toml:11`,
		"termination_grace_period":    `"5s" healthd.toml:20`,
		"readiness.period":            `"3s" healthd.toml:5`,
		"readiness.timeout":           `"2s" healthd.toml:14`,
		"readiness.http_get.port":     `"http" healthd.toml:22`,
		"readiness.failure_threshold": "3 default",
		"readiness.exec.command":      "none",
	} {
		if got := origin(api, path); got != want {
			t.Errorf("%s: got %s, want %s", path, got, want)
		}
	}
	if api.Probes[core.Liveness] != nil {
		t.Error("layers below say how often to probe, which is no probe")
	}
	if p := api.Probes[core.Readiness]; p.Handler.Exec != nil || p.Handler.HTTPGet.Port != 8080 {
		t.Errorf("got %+v", p.Handler)
	}

	v2 := resolved(t, c, "role=api2")
	if p := v2.Probes[core.Liveness]; p.Period != 7*time.Second || p.FailureThreshold != 5 || p.Handler.TCPSocket.Port != 8080 {
		t.Errorf("got %+v", p)
	}
	if v2.Name != "api-v2" || v2.TerminationGracePeriod != 5*time.Second || v2.Probes[core.Readiness] == nil {
		t.Errorf("got %+v", v2)
	}
}

// A base that matches nothing is there for others; one that matches something is a spec like any.
func TestOwnSpecNames(t *testing.T) {
	c := mustParse(t, `
[[spec]]
name = "base"
[[spec]]
name = "matching"
match_name = "a-*"
[[spec]]
name = "b"
extends = "base"
[[spec]]
name = "c"
extends = "matching"
match_name = "c-*"
[[spec]]
name = "by-label"
restart_policy = "Never"
`)
	if got := strings.Join(c.OwnSpecNames(), " "); got != "matching b c by-label" {
		t.Errorf("got %s", got)
	}
}

func TestLayersOfLabels(t *testing.T) {
	c := mustParse(t, layered)
	alone := resolved(t, c, "healthd.liveness.tcp_socket.port=80")
	if p := alone.Probes[core.Liveness]; p.Period != 7*time.Second || alone.TerminationGracePeriod != 20*time.Second || alone.Probes[core.Readiness] != nil {
		t.Errorf("got %+v %+v", alone, p)
	}
	if got := origin(alone, "liveness.period"); got != `"7s" healthd.toml:7` {
		t.Errorf("got %s", got)
	}
	over := resolved(t, c, "role=api", "healthd.readiness.tcp_socket.port=http", "healthd.readiness.period=1s")
	if p := over.Probes[core.Readiness]; p.Period != time.Second || p.Handler.HTTPGet != nil || p.Handler.TCPSocket.Port != 8080 {
		t.Errorf("got %+v", p)
	}
	// A label that sets a probe means one.
	_, err := c.Resolve(runtime.Traits{Name: "c", Labels: labels("healthd.liveness.period=1s")})
	if err == nil || !strings.Contains(err.Error(), "liveness: must have exactly one of") {
		t.Errorf("got %v", err)
	}
	// A base is no spec to be chosen before it is complete.
	base := mustParse(t, "[[spec]]\nname = \"base\"\n[spec.readiness]\nhttp_get.path = \"/up\"\n[[spec]]\nname = \"web\"\nextends = \"base\"\n[spec.readiness]\nhttp_get.port = 80\n")
	if _, err := base.Resolve(runtime.Traits{Name: "c", Labels: labels("healthd.spec=base")}); err == nil || !strings.Contains(err.Error(), "healthd.toml:4: spec[base].readiness.http_get.port: must be set") {
		t.Errorf("got %v", err)
	}
}

// A spec is the same whether it is written at once or in layers.
func TestExtendsIsTheSame(t *testing.T) {
	flat := mustParse(t, "[[spec]]\nname = \"web\"\nmatch = { a = \"1\" }\nrestart_policy = \"Never\"\nliveness = { period = \"2s\", exec.command = [\"true\"] }\n")
	in := mustParse(t, "[[spec]]\nname = \"x\"\nrestart_policy = \"Never\"\nliveness = { period = \"3s\", tcp_socket.port = 1 }\n"+
		"[[spec]]\nname = \"web\"\nextends = \"x\"\nmatch = { a = \"1\" }\nliveness = { period = \"2s\", exec.command = [\"true\"] }\n")
	if a, b := resolved(t, flat, "a=1"), resolved(t, in, "a=1"); !core.SameSpec(a, b) {
		t.Errorf("got %+v and %+v", a, b)
	}
}

func TestSecretsOfLayers(t *testing.T) {
	const secret = `readiness.http_get = { port = 80, headers = [{ name = "Authorization", value = "x" }] }`
	for _, tt := range []struct {
		what, file string
		claimed    bool
	}{
		{"a base's", "[[spec]]\nname = \"base\"\n" + secret + "\n[[spec]]\nname = \"web\"\nextends = \"base\"\n", false},
		{"a base's, allowed", "[[spec]]\nname = \"base\"\n" + secret + "\n[[spec]]\nname = \"web\"\nextends = \"base\"\nclaimable = true\n", true},
		{"a base that is claimable does not make others so", "[[spec]]\nname = \"base\"\nclaimable = true\n" + secret + "\n[[spec]]\nname = \"web\"\nextends = \"base\"\n", false},
		{"of defaults for all", "[defaults]\nclaimable = true\n" + secret + "\n[[spec]]\nname = \"web\"\n", true},
	} {
		_, err := mustParse(t, tt.file).Resolve(runtime.Traits{Name: "c", Labels: labels("healthd.spec=web")})
		if (err == nil) != tt.claimed {
			t.Errorf("%s: got %v", tt.what, err)
		}
	}
	if _, err := Parse("healthd.toml", []byte("[defaults]\n"+secret)); err == nil {
		t.Error("labels alone get the secret")
	}
}

// What is wrong in a layer is told once, and where it was written.
func TestProblemsOfLayers(t *testing.T) {
	_, err := Parse("healthd.toml", []byte(`[defaults]
liveness.period = "x"
[[spec]]
name = "web"
extends = "base"
match = { a = "1" }
[[spec]]
name = "base"
readiness = { timeout = "1h1", http_get.port = "http" }
`))
	problems, _ := errors.AsType[Problems](err)
	want := strings.Join([]string{
		`healthd.toml:2: defaults.liveness.period: must be a duration such as "10s", is "x" (a string)`,
		`healthd.toml:9: spec[base].readiness.timeout: must be a duration such as "10s", is "1h1" (a string)`,
		`healthd.toml:9: spec[web].readiness.http_get.port: no port named "http" in ports`,
	}, "\n")
	if problems.Error() != want {
		t.Errorf("got:\n%s\nwant:\n%s", problems, want)
	}
}

// A layer of the wrong type is told, and does not stop the daemon that reads it.
func TestLayersOfWrongTypes(t *testing.T) {
	for _, tt := range []struct{ below, over, want string }{
		{"liveness = 5", `liveness.tcp_socket.port = 80`, "liveness: must be a table, is 5 (an integer)"},
		{"liveness = [{}]", `liveness.tcp_socket.port = 80`, "liveness: must be a table, is an array"},
		{"lifecycle = 5", `lifecycle.pre_stop.sleep.duration = "1s"`, "lifecycle: must be a table, is 5 (an integer)"},
		{"lifecycle.pre_stop = 5", `lifecycle.pre_stop.sleep.duration = "1s"`, "lifecycle.pre_stop: must be a table, is 5 (an integer)"},
		{"lifecycle.pre_stop = 5", `lifecycle = true`, "lifecycle.pre_stop: must be a table, is 5 (an integer)"},
		{"publish = 5", `publish.haproxy.backend = "b"`, "publish: must be a table, is 5 (an integer)"},
		{"ports = 1979-05-27", `ports = { http = 80 }`, "ports: must be a table, is 1979-05-27"},
	} {
		over := "\n" + tt.over + "\n"
		for where, file := range map[string]string{
			"defaults.":  "[defaults]\n" + tt.below + "\n[[spec]]\nname = \"web\"" + over,
			"spec[low].": "[[spec]]\nname = \"low\"\n" + tt.below + "\n[[spec]]\nname = \"web\"\nextends = \"low\"" + over,
		} {
			_, err := Parse("f", []byte(file))
			if err == nil || !strings.Contains(err.Error(), where+tt.want) {
				t.Errorf("%s: got %v", file, err)
			}
		}
	}
}

// chain is so many specs, each of which extends the one before. The first one has a secret.
func chain(length int) string {
	var b strings.Builder
	for i := range length {
		fmt.Fprintf(&b, "[[spec]]\nname = \"s%d\"\nmatch = { role = \"r%d\" }\n", i, i)
		if i == 0 {
			b.WriteString("readiness.http_get = { port = 80, headers = [{ name = \"Authorization\", value = \"x\" }] }\n")
		} else {
			fmt.Fprintf(&b, "extends = \"s%d\"\n", i-1)
		}
	}
	return b.String()
}

func TestLongChain(t *testing.T) {
	const length = 200
	c := mustParse(t, chain(length))
	last := fmt.Sprintf("s%d", length-1)
	if _, err := c.Resolve(runtime.Traits{Name: "c", Labels: labels("healthd.spec=" + last)}); err == nil || !strings.Contains(err.Error(), "cannot be chosen by a label") {
		t.Errorf("a label chooses a spec with a secret: %v", err)
	}
	if spec := resolved(t, c, fmt.Sprintf("role=r%d", length-1)); len(spec.Probes[core.Readiness].Handler.HTTPGet.Headers) != 1 {
		t.Errorf("got %+v", spec)
	}
}

// A spec is built once, however many extend it.
func TestLongChainIsReadInLinearTime(t *testing.T) {
	work := func(length int) float64 {
		text := []byte(chain(length))
		return testing.AllocsPerRun(1, func() {
			c, err := Parse("f", text)
			if err != nil {
				t.Fatal(err)
			}
			c.Warnings()
		})
	}
	if short, long := work(40), work(400); long > 15*short {
		t.Errorf("a chain of 400 takes %.0f allocations, one of 40 takes %.0f", long, short)
	}
}

func TestCircles(t *testing.T) {
	const rest = "match = { role = \"%s\" }\nreadiness.tcp_socket.port = 80\n"
	file := ""
	for _, pair := range []string{"a b", "b c", "c a", "into a", "self self"} {
		name, base, _ := strings.Cut(pair, " ")
		file += fmt.Sprintf("[[spec]]\nname = %q\nextends = %q\n"+rest, name, base, name)
	}
	_, err := Parse("f", []byte(file))
	want := "f:3: spec[a].extends: must not lead back to the spec itself\nf:8: spec[b].extends: must not lead back to the spec itself\n" +
		"f:13: spec[c].extends: must not lead back to the spec itself\nf:23: spec[self].extends: must not lead back to the spec itself"
	if err == nil || err.Error() != want {
		t.Errorf("got:\n%v\nwant:\n%s", err, want)
	}
}

// fuzzedLayers are files with layers of all shapes, right and wrong.
func fuzzedLayers() []string {
	return []string{
		"[defaults]\nclaimable = true\nnetwork = \"n\"\nports = { http = 80 }\nliveness = { period = \"1s\", http_get = { port = \"http\", headers = [{ name = \"A\", value = \"b\" }] } }\n" +
			"lifecycle.pre_stop.sleep.duration = \"1s\"\n[[spec]]\nname = \"a\"\nmatch = [{ a = \"1\" }, { b = \"*\", c = \"?\" }]\nlifecycle.pre_stop.exec.command = [\"x\"]\n",
		"[[spec]]\nname = \"a\"\nextends = \"b\"\nmatch_name = \"x-*\"\n[[spec]]\nname = \"b\"\nextends = \"c\"\nmatch_image = \"i:*\"\nliveness = 5\n[[spec]]\nname = \"c\"\nextends = \"a\"\nliveness.tcp_socket.port = 1\n",
		"[[spec]]\nname = \"a\"\nextends = \"b\"\nreadiness.http_get = { scheme = \"https\", method = \"HEAD\", expect = { status = [200, \"300-302\"], body = \"ok\", json = \"a[0].'b c' == 1e9 && d\", warning_header = \"X-W\" }, tls = { verify = true, server_name = \"s\" } }\n" +
			"[[spec]]\nname = \"b\"\nreadiness = { http_get = { port = 1, tls = { ca_file = \"/nonexistent\", cert_file = \"/nonexistent\" } }, exec.warning_exit_codes = [1] }\n",
		"[defaults]\nliveness = []\nreadiness = { grpc = { port = 1, tls = {} }, engine_health = {} }\npublish = { service = \"s\", port = 1 }\ngive_up = { restarts = 1 }\n[[spec]]\nname = \"a\"\nextends = \"a\"\nliveness.grpc.tls = 5\npublish.haproxy = { }\n",
	}
}
