package configs

import (
	"strings"
	"testing"

	"healthd/runtime"
)

// Labels are written by whoever may start containers. What one sets must not harm the others.
func TestLabelRules(t *testing.T) {
	const secret = "[[spec]]\nname = \"pay\"\nmatch = { app = \"pay\" }\n[spec.readiness]\nhttp_get = { port = \"http\", headers = [{ name = \"X-Token\", value = \"s3cret\" }] }\n[spec.ports]\nhttp = 80\n"
	const tcp = "healthd.liveness.tcp_socket.port=1"
	none := func(key string) string { return "[labels]\n" + key + " = []\n" }
	for _, tt := range []struct {
		name, file string
		labels     map[string]string
		want       string // what is wrong; "": nothing
	}{
		{"timeout", "", labels(tcp, "healthd.liveness.timeout=1m"), ""},
		{"timeout of a year", "", labels(tcp, "healthd.liveness.timeout=8760h"), `healthd.liveness.timeout: must be at most 1m in a label ([labels] max_timeout), is "8760h"`},
		{"timeout that is endless", "", labels(tcp, "healthd.liveness.timeout=99999999h"), `healthd.liveness.timeout: must be at most 1m in a label ([labels] max_timeout), is "99999999h"`},
		{"timeout as the file says", "[labels]\nmax_timeout = \"2m\"\n", labels(tcp, "healthd.liveness.timeout=2m"), ""},
		{"timeout of the file", "[[spec]]\nname = \"a\"\nclaimable = true\nliveness = { tcp_socket = { port = 1 }, timeout = \"5m\" }\n", labels("healthd.spec=a", "healthd.liveness.period=1s"), ""},
		{"drain", "", labels(tcp, "healthd.publish.drain=8760h"), `healthd.publish.drain: must be at most 10m in a label ([labels] max_wait), is "8760h"`},
		{"grace", "", labels(tcp, "healthd.termination_grace_period=11m"), `healthd.termination_grace_period: must be at most 10m in a label ([labels] max_wait), is "11m"`},
		{"grace of a probe", "", labels(tcp, "healthd.liveness.termination_grace_period=11m"), `healthd.liveness.termination_grace_period: must be at most 10m in a label ([labels] max_wait), is "11m"`},
		{"sleep", "", labels(tcp, "healthd.lifecycle.pre_stop.sleep.duration=11m"), `healthd.lifecycle.pre_stop.sleep.duration: must be at most 10m in a label ([labels] max_wait), is "11m"`},
		{"back-off", "", labels(tcp, "healthd.backoff.initial=1ms"), `healthd.backoff.initial: must be at least 1s in a label ([labels] min_backoff), is "1ms"`},
		{"reset of the back-off", "", labels(tcp, "healthd.backoff.reset_after=1ms"), `healthd.backoff.reset_after: must be at least 1s in a label ([labels] min_backoff), is "1ms"`},
		{"back-off as the file says", "[labels]\nmin_backoff = \"1ms\"\n", labels(tcp, "healthd.backoff.initial=1ms"), ""},

		{"a path that is not allowed", "[labels]\nallow = [\"liveness.*\"]\n", labels(tcp, "healthd.restart_policy=Never"), "healthd.restart_policy: cannot be set by a label: [labels] allow does not have it"},
		{"a path that is", "[labels]\nallow = [\"liveness.*\"]\n", labels(tcp), ""},
		{"no path is", none("allow"), labels(tcp), "healthd.liveness.tcp_socket.port: cannot be set by a label: [labels] allow does not have it"},
		{"enable is no path", none("allow"), labels("healthd.enable=false"), ""},
		{"service", none("services"), labels(tcp, "healthd.publish.service=web"), `healthd.publish.service: "web" cannot be set by a label: [labels] services does not have it`},
		{"service as the file says", "[labels]\nservices = [\"shop-*\"]\n", labels(tcp, "healthd.publish.service=shop-web"), ""},
		{"a stranger's service", "", labels(tcp, "healthd.publish.service=other/web", "com.docker.compose.project=shop"),
			`healthd.publish.service: "other/web" cannot be set by a label other than PROJECT/NAME of its own Compose project: [labels] services does not have it`},
		{"a project's service, from outside", "", labels(tcp, "healthd.publish.service=shop/web"),
			`healthd.publish.service: "shop/web" cannot be set by a label other than PROJECT/NAME of its own Compose project: [labels] services does not have it`},
		{"a stranger's service that the file allows", "[labels]\nservices = [\"other/*\"]\n", labels(tcp, "healthd.publish.service=other/web", "com.docker.compose.project=shop"), ""},
		{"a service of its own project", "", labels(tcp, "healthd.publish.service=shop/web", "com.docker.compose.project=shop"), ""},
		{"a service of its own project, as the file says", "[labels]\nservices = [\"shop/*\"]\n", labels(tcp, "healthd.publish.service=web", "com.docker.compose.project=shop"), ""},
		{"no service of its own project, either", none("services"), labels(tcp, "healthd.publish.service=shop/web", "com.docker.compose.project=shop"),
			`healthd.publish.service: "shop/web" cannot be set by a label: [labels] services does not have it`},

		{"a stranger's group", "", labels(tcp, "healthd.group.name=other/web", "com.docker.compose.project=shop"),
			`healthd.group.name: "other/web" cannot be set by a label other than PROJECT/NAME of its own Compose project: [labels] groups does not have it`},
		{"a group of another project that begins alike", "", labels(tcp, "healthd.group.name=shop2/web", "com.docker.compose.project=shop"),
			`healthd.group.name: "shop2/web" cannot be set by a label other than PROJECT/NAME of its own Compose project: [labels] groups does not have it`},
		{"a group without a project", "", labels(tcp, "healthd.group.name=/web"), `healthd.group.name: must be NAME or NAME/NAME such as "shop/web" (letters, digits, _, . and -, a letter or digit first in each NAME, at most 253 characters), is "/web"`},
		{"a group of its own project", "", labels(tcp, "healthd.group.name=shop/web", "com.docker.compose.project=shop"), ""},
		{"a group that the file allows", "[labels]\ngroups = [\"batch\"]\n", labels(tcp, "healthd.group.name=batch"), ""},

		{"a spec with secrets", secret, labels("healthd.spec=pay"), `healthd.spec: "pay" cannot be chosen by a label: its claimable is false, as by default where a spec has headers or certificates`},
		{"a spec with secrets that is meant", secret, labels("healthd.spec=pay", "app=pay"), ""},
		{"secrets to another port", secret, labels("app=pay", "healthd.readiness.http_get.port=81"), `healthd.readiness.http_get.port: cannot be set by a label, because healthd.toml:5 sets headers`},
		{"secrets to a named port", secret, labels("app=pay", "healthd.ports.http=81"), `healthd.ports.http: cannot be set by a label, because healthd.toml:5 sets headers`},
		{"its own headers instead", secret, labels("app=pay", "healthd.readiness.http_get.port=81", `healthd.readiness.http_get.headers=[{"name":"A","value":"b"}]`), ""},
		{"a spec that does not want it", "[[spec]]\nname = \"a\"\nclaimable = false\n", labels("healthd.spec=a"), `healthd.spec: "a" cannot be chosen by a label: its claimable is false, as by default where a spec has headers or certificates`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := mustParse(t, tt.file).Resolve(runtime.Traits{Name: "c", Labels: tt.labels})
			got := ""
			if err != nil {
				got = strings.TrimPrefix(err.Error(), "label ")
			}
			if got != tt.want {
				t.Errorf("got:\n%s\nwant:\n%s", got, tt.want)
			}
		})
	}
}
