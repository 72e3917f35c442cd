package configs

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const warnedSpecs = `
[[spec]]
name = "web"
match = { service = "web*" }
[spec.readiness]
http_get.port = "http"
[spec.liveness]
http_get.port = 8080
period = "1s"
[spec.ports]
http = 8080

[[spec]]
name = "canary"
match = { service = "web", stage = "canary" }
`

func TestWarnings(t *testing.T) {
	write(t, map[string]string{"1.toml": warnedSpecs, "2.toml": `[[spec]]
name = "late"
match = { service = "webshop" }
`})
	c, err := Load([]string{"1.toml", "2.toml"})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"1.toml:7: spec[web].liveness: runs the same check as readiness and fails after 3s (readiness after 30s): healthd restarts a busy container before it can shed load",
		"1.toml:7: spec[web].liveness: there is no startup probe: healthd stops a container that needs more than 2s to start",
		"1.toml:15: spec[canary].match: the spec at 1.toml:2 comes first and also matches all of these containers: only the label healthd.spec=canary selects this one",
		"2.toml:3: spec[late].match: the spec at 1.toml:2 comes first and also matches all of these containers: only the label healthd.spec=late selects this one",
	}
	if got := c.Warnings(); !slices.Equal(got, want) {
		t.Errorf("got:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// one returns the text of the only warning of a text that has no more, or "". It leaves out those that
// have one of the other texts.
func one(t *testing.T, text string, others ...string) string {
	t.Helper()
	warnings := slices.DeleteFunc(mustParse(t, text).Warnings(), func(w string) bool {
		return slices.ContainsFunc(others, func(other string) bool { return strings.Contains(w, other) })
	})
	if len(warnings) > 1 {
		t.Fatalf("got %q, want at most one", warnings)
	}
	return strings.Join(warnings, "")
}

func TestWarnsOfBusy(t *testing.T) {
	tests := []struct {
		name, liveness, readiness string
		warned                    bool
	}{
		{"the same", "", "", true},
		{"earlier", "failure_threshold = 2", "", true},
		{"later", "failure_threshold = 4", "", false},
		{"by period", `period = "11s"`, "", false},
		{"by a timeout of more than the period", `timeout = "11s"`, "", false}, // which is another warning
		{"timeouts that change nothing", `timeout = "10s"`, "", true},
		{"both slow", "period = \"3s\"\ntimeout = \"9s\"", "period = \"5s\"\ntimeout = \"6s\"\nfailure_threshold = 2", false},
		{"readiness quick", "", `period = "2s"`, false},
		{"another path", `http_get.path = "/live"`, "", false},
		{"endless", "period = \"8760h\"\nfailure_threshold = 1_000_000", "", false},
		{"both endless", "period = \"8760h\"\nfailure_threshold = 1_000_000", "period = \"8760h\"\nfailure_threshold = 1_000_000", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := one(t, "[[spec]]\nname = \"a\"\nstartup.tcp_socket.port = 1\n[spec.liveness]\nhttp_get.port = 80\n"+tt.liveness+
				"\n[spec.readiness]\nhttp_get.port = 80\n"+tt.readiness, "longer than the period")
			if (got != "") != tt.warned || tt.warned && !strings.HasPrefix(got, "healthd.toml:4: spec[a].liveness: runs the same check as readiness") {
				t.Errorf("got %q", got)
			}
		})
	}
}

func TestWarnsOfSlowStart(t *testing.T) {
	const quick = "liveness.tcp_socket.port = 1\nliveness.period = \"1s\"\n"
	tests := []struct {
		name, text string
		after      string // empty: not warned of
	}{
		{"no probe", "", ""},
		{"defaults", "liveness.tcp_socket.port = 1\n", ""},
		{"quick", quick, "2s"},
		{"at the first failure", "liveness.tcp_socket.port = 1\nliveness.failure_threshold = 1\n", "0s"},
		{"just enough", quick + "liveness.failure_threshold = 6\n", ""},
		{"not quite", quick + "liveness.failure_threshold = 5\n", "4s"},
		{"initial delay", quick + "liveness.initial_delay = \"3s\"\n", ""},
		{"short initial delay", quick + "liveness.initial_delay = \"2s\"\n", "4s"},
		{"long initial delay", quick + "liveness.initial_delay = \"8760h\"\nliveness.failure_threshold = 1_000_000\n", ""},
		{"endless", "liveness.tcp_socket.port = 1\nliveness.period = \"8760h\"\nliveness.failure_threshold = 1_000_000\n", ""},
		{"startup probe", quick + "startup.tcp_socket.port = 1\n", ""},
		{"post_start hook", quick + "lifecycle.post_start.exec.command = [\"/wait.sh\"]\n", ""},
		{"pre_stop hook", quick + "lifecycle.pre_stop.exec.command = [\"/drain.sh\"]\n", "2s"},
		{"the engine's start period", "liveness.engine_health = {}\nliveness.failure_threshold = 1\n", ""},
		{"readiness", "readiness.tcp_socket.port = 1\nreadiness.period = \"1s\"\n", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			want := ""
			if tt.after != "" {
				want = "healthd.toml:3: spec[a].liveness: there is no startup probe: healthd stops a container that needs more than " +
					tt.after + " to start"
			}
			if got := one(t, "[[spec]]\nname = \"a\"\n"+tt.text); got != want {
				t.Errorf("got  %q\nwant %q", got, want)
			}
		})
	}
}

func TestWarnsOfMatch(t *testing.T) {
	tests := []struct {
		first, second string
		warned        bool
	}{
		{`a = "x"`, `a = "x"`, true},
		{`a = "x"`, `a = "y"`, false},
		{`a = "x"`, `b = "x"`, false},
		{`a = "x"`, `a = "x", b = "y"`, true},
		{`a = "x", b = "y"`, `a = "x"`, false},
		{`a = "x", b = "*"`, `b = "z", a = "x"`, true},
		{`a = "web*"`, `a = "web-api"`, true},
		{`a = "web*"`, `a = "web-*"`, true},
		{`a = "web-*"`, `a = "web*"`, false},
		{`a = "*"`, `a = "?"`, true},
		{`a = "?"`, `a = "é"`, true},
		{`a = "?"`, `a = "*"`, false},
		{`a = "?*"`, `a = "?*"`, true},
		{`a = "x?"`, `a = "x??"`, false},
	}
	for _, tt := range tests {
		got := one(t, "[[spec]]\nname = \"1\"\nmatch = { "+tt.first+" }\n[[spec]]\nname = \"2\"\nmatch = { "+tt.second+" }\n", "has no probe")
		if (got != "") != tt.warned {
			t.Errorf("%s before %s: got %q", tt.first, tt.second, got)
		}
	}
	if got := one(t, "[[spec]]\nname = \"1\"\n[[spec]]\nname = \"2\"\nmatch = { a = \"*\" }\n[[spec]]\nname = \"3\"\n", "has no probe"); got != "" {
		t.Errorf("specs without match: got %q", got)
	}
}

func TestWarnsOfSecretsForAll(t *testing.T) {
	for _, tt := range []struct {
		choose, header string
		warned         bool
	}{
		{`match = { a = "x" }`, "Authorization", true},
		{`match_name = "web"`, "Authorization", true},
		{`match = { a = "x" }`, "host", false},
		{`match_image = "shop/*"`, "Authorization", false},
		{"match = { a = \"x\" }\nmatch_image = \"shop/*\"", "Authorization", false},
		{"match = { a = \"x\" }\nclaimable = true", "Authorization", false},
		{"", "Authorization", false}, // only a label chooses it, and claimable is false
	} {
		got := one(t, "[[spec]]\nname = \"1\"\n"+tt.choose+"\nreadiness = { http_get = { port = 80, headers = [{ name = \""+tt.header+"\", value = \"s\" }] } }\n")
		if (got != "") != tt.warned || got != "" && !strings.Contains(got, "match_image") {
			t.Errorf("%s, %s: got %q, want one: %v", tt.choose, tt.header, got, tt.warned)
		}
	}
}

// TestWarnedFiles has what is valid but probably a mistake, with the exact warnings beside it.
func TestWarnedFiles(t *testing.T) {
	t.Chdir("testdata/warn")
	files, err := filepath.Glob("*.toml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	for _, file := range files {
		t.Run(file, func(t *testing.T) {
			c, err := Load([]string{file})
			if err != nil {
				t.Fatal(err)
			}
			compareGolden(t, file, strings.Join(c.Warnings(), "\n")+"\n")
		})
	}
}
