package configs

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"healthd/prober"
	"healthd/runtime"
)

const hookSpec = `
[[spec]]
name = "hooks"
termination_grace_period = "20s"
readiness_gates = ["example.com/a"]

[[spec.restart_rules]]
exit_codes = [42]
operator = "In"
action = "Restart"

[spec.lifecycle]
pre_stop = { sleep = { duration = "10s" } }
post_start = { http_get = { port = "http", host = "lb.example.com" } }

[spec.ports]
http = 80

[spec.backoff]
initial = "5s"
max = "1m"
`

func TestHooks(t *testing.T) {
	http := func(h prober.HTTPGet) prober.LifecycleHandler { return prober.LifecycleHandler{HTTPGet: &h} }
	exec := func(words ...string) prober.LifecycleHandler {
		return prober.LifecycleHandler{Exec: &prober.Exec{Command: words}}
	}
	sleep := func(d time.Duration) prober.LifecycleHandler {
		return prober.LifecycleHandler{Sleep: &prober.Sleep{Duration: d}}
	}
	tests := []struct {
		text string
		want prober.LifecycleHandler
	}{
		{`exec.command = ["/drain.sh", "$(POD)"]`, exec("/drain.sh", "$(POD)")},
		{`http_get.port = "http"`, http(prober.HTTPGet{Scheme: "http", Port: 80, Path: "/"})},
		{`http_get = { port = 1, path = "warm?a=b", scheme = "HTTPS", host = "h", headers = [{ name = "A", value = "b" }] }`,
			http(prober.HTTPGet{Scheme: "https", Host: "h", Port: 1, Path: "/warm?a=b", Headers: []prober.Header{{Name: "A", Value: "b"}}})},
		{`tcp_socket = { port = 1, host = "h" }`, prober.LifecycleHandler{TCPSocket: &prober.TCPSocket{Port: 1, Host: "h"}}},
		{`sleep.duration = "0s"`, sleep(0)},
		{`sleep.duration = "5m"`, sleep(5 * time.Minute)},
	}
	for _, tt := range tests {
		t.Run(tt.text, func(t *testing.T) {
			for _, key := range hookKeys() {
				spec := resolveText(t, "ports.http = 80\n[spec.lifecycle."+key+"]\n"+tt.text)
				hook, other := spec.Lifecycle.PostStart, spec.Lifecycle.PreStop
				if key == preStop {
					hook, other = other, hook
				}
				if hook == nil || !reflect.DeepEqual(*hook, tt.want) {
					t.Errorf("%s: got %s, want %s", key, showHook(hook), showHook(&tt.want))
				}
				if other != nil {
					t.Errorf("%s: got the other too: %s", key, showHook(other))
				}
			}
		})
	}
}

func showHook(h *prober.LifecycleHandler) string {
	if h == nil {
		return "none"
	}
	return fmt.Sprintf("%+v %+v %+v %+v", h.HTTPGet, h.TCPSocket, h.Exec, h.Sleep)
}

// Without a grace period in the spec, the container's is the bound, which no file
// knows.
func TestPreStopSleepsLong(t *testing.T) {
	tests := []string{
		"",
		`termination_grace_period = "10m"` + "\n",
	}
	for _, text := range tests {
		spec := resolveText(t, text+`lifecycle.pre_stop.sleep.duration = "10m"`)
		if got := spec.Lifecycle.PreStop.Sleep.Duration; got != 10*time.Minute {
			t.Errorf("%s: got %v", text, got)
		}
	}
}

func TestHooksByLabel(t *testing.T) {
	c := mustParse(t, hookSpec)
	tests := []struct {
		name               string
		labels             []string // below healthd.lifecycle.
		postStart, preStop string
	}{
		{"none", nil, "&{Via: Scheme:http Host:lb.example.com Port:80 Method: Path:/ Headers:[] Expect:<nil> TLS:<nil> KeepAlive:false} <nil> <nil> <nil>", "<nil> <nil> <nil> &{Duration:10s}"},
		{"other handlers", []string{"post_start.exec.command=warm up", "pre_stop.tcp_socket.port=http"},
			"<nil> <nil> &{Command:[warm up] WarningExitCodes:[]} <nil>", "<nil> &{Via: Host: Port:80} <nil> <nil>"},
		{"the same handler", []string{"pre_stop.sleep.duration=20s"},
			"&{Via: Scheme:http Host:lb.example.com Port:80 Method: Path:/ Headers:[] Expect:<nil> TLS:<nil> KeepAlive:false} <nil> <nil> <nil>", "<nil> <nil> <nil> &{Duration:20s}"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := labels("healthd.spec=hooks")
			for _, pair := range tt.labels {
				key, value, _ := strings.Cut(pair, "=")
				m["healthd.lifecycle."+key] = value
			}
			spec, err := c.Resolve(runtime.Traits{Name: "c", Labels: m})
			if err != nil {
				t.Fatal(err)
			}
			if got := showHook(spec.Lifecycle.PostStart); got != tt.postStart {
				t.Errorf("post_start: got %s, want %s", got, tt.postStart)
			}
			if got := showHook(spec.Lifecycle.PreStop); got != tt.preStop {
				t.Errorf("pre_stop: got %s, want %s", got, tt.preStop)
			}
		})
	}
}

// A spec without hooks gets one by label.
func TestHookByLabelOnly(t *testing.T) {
	const key = "healthd.lifecycle.pre_stop.sleep.duration"
	if spec := resolveText(t, "", key+"=1s"); spec.Lifecycle.PreStop.Sleep.Duration != time.Second {
		t.Errorf("got %s", showHook(spec.Lifecycle.PreStop))
	}
}

func TestHookValues(t *testing.T) {
	spec := resolveText(t, `
[spec.lifecycle]
pre_stop = { sleep = { duration = "90s" } }
[spec.lifecycle.post_start.http_get]
port = 80
headers = [{ name = "X-Token", value = "secret" }]
`, `healthd.lifecycle.pre_stop.exec.command=/drain.sh "a b"`)
	const want = `lifecycle.post_start.http_get.port = 80  (healthd.toml:7)
lifecycle.post_start.http_get.path = "/"  (default)
lifecycle.post_start.http_get.scheme = "http"  (default)
lifecycle.post_start.http_get.host = ""  (default)
lifecycle.post_start.http_get.via = "host"; without an address "container"  (default)
lifecycle.post_start.http_get.headers = [{ name = "X-Token", value = "***" }]  (healthd.toml:8)
lifecycle.pre_stop.exec.command = ["/drain.sh", "a b"]  (label healthd.lifecycle.pre_stop.exec.command)
`
	if got := showValues(valuesBelow(spec, "lifecycle")); got != want {
		t.Errorf("got:\n%swant:\n%s", got, want)
	}
	spec = resolveText(t, "\nlifecycle.pre_stop.sleep.duration = \"90s\"\n")
	if got := showValues(valuesBelow(spec, "lifecycle")); got != "lifecycle.pre_stop.sleep.duration = \"1m30s\"  (healthd.toml:4)\n" {
		t.Errorf("got %s", got)
	}
}

func TestGates(t *testing.T) {
	var most []string
	for i := range maxGates {
		most = append(most, fmt.Sprintf("gate-%d", i))
	}
	long := strings.Repeat("a", 63)
	tests := []struct {
		name, text, label string
		want              []string
	}{
		{"none", "", "", nil},
		{"empty", "[]", "", []string{}},
		{"file", `["example.com/warmed-up", "b"]`, "", []string{"example.com/warmed-up", "b"}},
		{"odd", `["A._-9", "ready", "a-b.0/Ready", "` + long + "/" + long + `"]`, "", []string{"A._-9", "ready", "a-b.0/Ready", long + "/" + long}},
		{"most", showWords(most), "", most},
		{"JSON over file", `["a"]`, `["example.com/b","c"]`, []string{"example.com/b", "c"}},
		{"words", "", "example.com/b  c", []string{"example.com/b", "c"}},
		{"none over file", `["a"]`, "[]", []string{}},
	}
	const key = "healthd.readiness_gates"
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			text, origin := "", "healthd.toml:3"
			if tt.text != "" {
				text = "readiness_gates = " + tt.text
			}
			var pairs []string
			if tt.label != "" {
				pairs, origin = append(pairs, key+"="+tt.label), "label "+key
			}
			spec := resolveText(t, text, pairs...)
			if !reflect.DeepEqual(spec.ReadinessGates, tt.want) {
				t.Errorf("got %q, want %q", spec.ReadinessGates, tt.want)
			}
			want := "readiness_gates = " + showWords(tt.want) + "  (" + origin + ")\n"
			if tt.want == nil {
				want = ""
			}
			if got := showValues(valuesBelow(spec, "readiness_gates")); got != want {
				t.Errorf("got %swant %s", got, want)
			}
		})
	}
}
