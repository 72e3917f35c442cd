package importer

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"

	"healthd/configs"
	"healthd/prober"
	"healthd/runtime"
	"healthd/supervisor/core"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// golden compares a document with a file of testdata, and checks what holds for all.
func golden(t *testing.T, name string, doc *Document) *configs.Config {
	t.Helper()
	c := checked(t, doc)
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(doc.Text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if doc.Text != string(want) {
		t.Errorf("%s:\ngot:\n%s\nwant:\n%s", name, doc.Text, want)
	}
	return c
}

// checked parses a document: its counts are right, it hides nothing from a terminal, and what it suggests is valid.
func checked(t *testing.T, doc *Document) *configs.Config {
	t.Helper()
	c, err := configs.Parse("import", []byte(doc.Text))
	if err != nil {
		t.Fatalf("%v:\n%s", err, doc.Text)
	}
	if got := len(c.SpecNames()); got != doc.Specs {
		t.Errorf("%d specs, said %d", got, doc.Specs)
	}
	if got := strings.Count(doc.Text, "# "+lostMark); got != doc.Lost {
		t.Errorf("%d comments of losses, said %d:\n%s", got, doc.Lost, doc.Text)
	}
	if i := strings.IndexFunc(doc.Text, func(r rune) bool {
		return r != '\n' && (r < ' ' || r >= 0x7f && r < 0xa0 || r == 0x202e || r == 0x2028)
	}); i >= 0 {
		t.Errorf("a control character in %q", doc.Text[max(0, i-20):i+1])
	}
	return c
}

// suggestion is a line of TOML in a comment. Its own comments stand behind a second #.
var suggestion = regexp.MustCompile(`(?m)^#  ([a-z\[].*)$`)

// What a comment suggests in place of settings is valid, too.
func TestSuggestions(t *testing.T) {
	doc, err := Docker(someContainers(), nil)
	if err != nil {
		t.Fatal(err)
	}
	taken := 0
	lines := strings.Split(doc.Text, "\n")
	for i, l := range lines {
		if !suggestion.MatchString(l) {
			continue
		}
		taken++
		lines[i] = suggestion.ReplaceAllString(l, "$1")
		if key, _, _ := strings.Cut(lines[i], " "); !strings.HasPrefix(key, "[") {
			for j := i - 1; j >= 0 && !strings.HasPrefix(lines[j], "["); j-- { // what it replaces
				if strings.HasPrefix(lines[j], key+" ") || strings.HasPrefix(lines[j], "engine_health ") {
					lines[j] = ""
				}
			}
		}
	}
	if _, err := configs.Parse("import", []byte(strings.Join(lines, "\n"))); err != nil || taken < 8 {
		t.Errorf("%d lines, %v:\n%s", taken, err, strings.Join(lines, "\n"))
	}
}

func TestGoldensOfFiles(t *testing.T) {
	for source, do := range map[string]func([]File) (*Document, error){"kubernetes": Kubernetes, "nomad": Nomad, "compose": composeFiles(t)} {
		files, err := filepath.Glob(filepath.Join("testdata", source, "*"))
		if err != nil {
			t.Fatal(err)
		}
		read := 0
		for _, file := range files {
			if strings.HasSuffix(file, ".toml") {
				continue
			}
			read++
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			doc, err := do([]File{{filepath.Base(file), data}})
			if err != nil {
				t.Errorf("%s: %v", file, err)
				continue
			}
			golden(t, filepath.Join(source, strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))+".toml"), doc)
			for _, secret := range []string{"secret-token", "s3cret"} {
				if strings.Contains(doc.Text, secret) {
					t.Errorf("%s: %s is shown", file, secret)
				}
			}
		}
		if read < 2 {
			t.Errorf("%s: %d files", source, read)
		}
	}
}

// composeFiles is Compose of files that are read here.
func composeFiles(t *testing.T) func([]File) (*Document, error) {
	return func(files []File) (*Document, error) {
		var projects []*types.Project
		for _, f := range files {
			projects = append(projects, composeProject(t, string(f.Data)))
		}
		return Compose(projects)
	}
}

func composeProject(t *testing.T, text string) *types.Project {
	t.Helper()
	file := filepath.Join(t.TempDir(), "compose.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	options, err := cli.NewProjectOptions([]string{file}, cli.WithProfiles([]string{"*"}), cli.WithoutEnvironmentResolution)
	if err != nil {
		t.Fatal(err)
	}
	project, err := options.LoadProject(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return project
}

func composeLabels(project, service string, more ...string) map[string]string {
	labels := map[string]string{core.ComposeProject: project, core.ComposeService: service, core.ComposeNumber: "1"}
	for i := 0; i+1 < len(more); i += 2 {
		labels[more[i]] = more[i+1]
	}
	return labels
}

// someContainers are those of a host that autoheal and deunhealth look after.
func someContainers() []Container {
	check := &runtime.Healthcheck{Test: []string{"CMD-SHELL", `curl -f "http://localhost/$(hostname)" || kill $$`}, Interval: 10 * time.Second, StartPeriod: time.Minute, Retries: 5}
	simple := &runtime.Healthcheck{Test: []string{"CMD", "pg_isready", "-q"}}
	of := func(name, image, policy string, labels map[string]string, made runtime.Creation) Container {
		return Container{Container: &runtime.Container{ID: name + "-id", Runtime: "docker", Name: name, Image: image, RestartPolicy: policy, Labels: labels, StopTimeout: -1}, Creation: made}
	}
	all := []Container{
		of("heal", "docker.io/willfarrell/autoheal:latest", "always", nil, runtime.Creation{Healthcheck: simple}),
		of("deunhealth", "qmcgaw/deunhealth", "always", nil, runtime.Creation{}),
		of("shop-web-2", "web", "unless-stopped", composeLabels("shop", "web", "autoheal", "true"), runtime.Creation{Healthcheck: check, Ports: []int{8080}}),
		of("shop-web-1", "web", "unless-stopped", composeLabels("shop", "web", "autoheal", "true"), runtime.Creation{Healthcheck: check, Ports: []int{8080}}),
		of("shop-run", "web", "no", composeLabels("shop", "web", "com.docker.compose.oneoff", "True"), runtime.Creation{Healthcheck: check}),
		of("db", "postgres", "on-failure", map[string]string{"deunhealth.restart.on.unhealthy": "true"}, runtime.Creation{Healthcheck: simple, RestartMax: 5, Ports: []int{5432, 8000}}),
		of("plain", "plain", "always", nil, runtime.Creation{Healthcheck: simple}),
		of("never", "plain", "no", map[string]string{"autoheal": "true", "autoheal.stop.timeout": "x\n[y]"}, runtime.Creation{Healthcheck: simple}),
		of("removed", "plain", "no", nil, runtime.Creation{Healthcheck: simple}),
		of("silent", "silent", "always", nil, runtime.Creation{}),
		of("unchecked", "silent", "always", map[string]string{"autoheal": "true"}, runtime.Creation{}),
		of("healthd", "healthd", "always", nil, runtime.Creation{Healthcheck: simple}),
		of("odd*\"]\x1b", "odd", "always", map[string]string{"autoheal": "true"}, runtime.Creation{Healthcheck: &runtime.Healthcheck{Test: []string{"CMD", "a\xff"}}}),
	}
	all[0].Env = []string{"AUTOHEAL_INTERVAL=3s", "AUTOHEAL_DEFAULT_STOP_TIMEOUT=10", "WEBHOOK_URL=https://secret-token", "OTHER=s3cret"}
	all[5].StopTimeout, all[5].ConfiguredBy = 2*time.Minute, "db, by match_name db (/etc/healthd/healthd.toml:3)"
	all[6].NetworkOwner = "db-id"
	all[8].AutoRemove = true
	return all
}

func TestGoldenOfDocker(t *testing.T) {
	doc, err := Docker(someContainers(), nil)
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "docker.toml", doc)
	all := someContainers()
	if doc, err = Docker(all, all[9:10]); err != nil { // whoever asks for it by name gets a beginning
		t.Fatal(err)
	}
	golden(t, "docker-one.toml", doc)
}

// Each container has the spec that was made for it, with what the container says.
func TestDockerMeansTheSame(t *testing.T) {
	doc, err := Docker(someContainers(), nil)
	if err != nil {
		t.Fatal(err)
	}
	c := checked(t, doc)
	for _, want := range []struct {
		name, spec string
		policy     core.RestartPolicy
		period     time.Duration // of liveness; 0: none
		grace      time.Duration
	}{
		{"shop-web-1", "shop-web", core.Always, 3 * time.Second, 0},
		{"shop-web-2", "shop-web", core.Always, 3 * time.Second, 0},
		{"db", "db", core.OnFailure, 5 * time.Second, 2 * time.Minute},
		{"plain", "plain", core.Always, 0, 0},
		{"never", "never", core.OnFailure, 3 * time.Second, 0},
		{"removed", "removed", core.Never, 0, 0},
		{"odd*\"]\x1b", "odd", core.Always, 3 * time.Second, 0},
	} {
		i := 0
		all := someContainers()
		for all[i].Name != want.name {
			i++
		}
		spec, err := c.Resolve(all[i].Traits())
		if err != nil || spec == nil || spec.Name != want.spec {
			t.Errorf("%s: %+v, %v", want.name, spec, err)
			continue
		}
		live, ready := spec.Probes[core.Liveness], spec.Probes[core.Readiness]
		if spec.RestartPolicy != want.policy || spec.TerminationGracePeriod != want.grace || (live != nil) != (want.period > 0) ||
			live != nil && (live.Period != want.period || live.Handler.EngineHealth == nil || live.FailureThreshold != 2) || ready == nil || ready.Handler.EngineHealth == nil || ready.FailureThreshold != 1 {
			t.Errorf("%s: %+v, live %+v, ready %+v", want.name, spec, live, ready)
		}
	}
	later := runtime.Traits{Name: "later", Image: "x", Labels: map[string]string{"autoheal": "true"}}
	if spec, err := c.Resolve(later); err != nil || spec == nil || spec.Name != "autoheal" {
		t.Errorf("a later container: %+v, %v", spec, err)
	}
	if spec, err := c.Resolve(runtime.Traits{Name: "silent", Image: "silent"}); err != nil || spec != nil {
		t.Errorf("a silent container: %+v, %v", spec, err)
	}
}

// resolved returns the spec of the container of a Compose service, after an import of a file of testdata.
func resolved(t *testing.T, do func([]File) (*Document, error), file string) func(project, service string) *core.Spec {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	of, _ := resolvedText(t, do, string(data))
	return of
}

// resolvedText is resolved of a file's text. It returns also what came of it, with each comment on one line.
func resolvedText(t *testing.T, do func([]File) (*Document, error), file string) (of func(project, service string) *core.Spec, text string) {
	t.Helper()
	doc, err := do([]File{{"f", []byte(file)}})
	if err != nil {
		t.Fatal(err)
	}
	c := checked(t, doc)
	return func(project, service string) *core.Spec {
		t.Helper()
		labels := composeLabels(project, service)
		if project == "" {
			delete(labels, core.ComposeProject)
		}
		spec, err := c.Resolve(runtime.Traits{Name: "any", Image: "any", Labels: labels})
		if err != nil || spec == nil {
			t.Fatalf("%s: %v, %v", service, spec, err)
		}
		return spec
	}, strings.ReplaceAll(doc.Text, "\n#   ", " ")
}

func TestKubernetesMeansTheSame(t *testing.T) {
	spec := resolved(t, Kubernetes, "kubernetes/web.yaml")("", "web-nginx")
	byDefault := core.ProbeSpec{Period: 10 * time.Second, Timeout: time.Second, SuccessThreshold: 1, FailureThreshold: 3}
	startup, live, ready := byDefault, byDefault, byDefault
	startup.Handler = prober.Handler{HTTPGet: &prober.HTTPGet{Port: 8080, Path: "/healthz", Scheme: "http"}}
	startup.FailureThreshold = 30
	live.Handler = prober.Handler{HTTPGet: &prober.HTTPGet{Port: 8080, Path: "/healthz", Scheme: "https", Host: "127.0.0.1", Headers: []prober.Header{{Name: "X-Probe", Value: `a "b"`}}}}
	live.InitialDelay, live.Timeout, live.TerminationGracePeriod = 3*time.Second, 2*time.Second, 5*time.Second
	ready.Handler = prober.Handler{Exec: &prober.Exec{Command: []string{"/bin/ready", "$(POD)"}}}
	ready.Period, ready.SuccessThreshold = 2*time.Second, 2
	for which, want := range map[core.ProbeType]core.ProbeSpec{core.Startup: startup, core.Liveness: live, core.Readiness: ready} {
		if got := spec.Probes[which]; got == nil || !reflect.DeepEqual(*got, want) {
			t.Errorf("%s: got %+v, want %+v", which, got, want)
		}
	}
	l := spec.Lifecycle
	if spec.RestartPolicy != core.Always || spec.TerminationGracePeriod != 45*time.Second || !slices.Equal(spec.ReadinessGates, []string{"example.com/warmed-up"}) ||
		l.PreStop.Sleep.Duration != 5*time.Second || l.PostStart.HTTPGet.Port != 9090 || spec.Publish.Service != "front" || spec.Publish.Port != 8080 || spec.Group.MaxUnavailable.Number != 1 {
		t.Errorf("%+v", spec)
	}
	rpc := resolved(t, Kubernetes, "kubernetes/web.yaml")("", "web-rpc")
	if rpc.RestartPolicy != core.OnFailure || len(rpc.RestartRules) != 1 || !slices.Equal(rpc.RestartRules[0].ExitCodes, []int{42, 43}) || rpc.RestartRules[0].Operator != core.In ||
		rpc.Probes[core.Liveness].Handler.GRPC.Service != "live" || rpc.Probes[core.Startup] != nil || rpc.Publish.Port != 0 {
		t.Errorf("%+v", rpc)
	}
}

func TestNomadMeansTheSame(t *testing.T) {
	of := resolved(t, Nomad, "nomad/web.nomad.hcl")
	spec := of("", "front-server")
	live, ready := spec.Probes[core.Liveness], spec.Probes[core.Readiness]
	if live.FailureThreshold != 5 || live.InitialDelay != 90*time.Second || live.Handler.HTTPGet.Port != 8080 || ready.SuccessThreshold != 2 || ready.FailureThreshold != 3 || ready.Timeout != 2*time.Second {
		t.Errorf("%+v, %+v", live, ready)
	}
	for _, tt := range []struct {
		probe  *core.ProbeSpec
		status int
		want   bool
	}{{live, 200, true}, {live, 429, false}, {live, 302, false}, {ready, 429, true}, {ready, 500, false}} {
		if got := slices.ContainsFunc(tt.probe.Handler.HTTPGet.Expect.Status, func(r prober.StatusRange) bool { return r.First <= tt.status && tt.status <= r.Last }); got != tt.want {
			t.Errorf("%d: %v", tt.status, got)
		}
	}
	if spec.GiveUp.Restarts != 5 || spec.GiveUp.Within != 10*time.Minute || spec.Backoff.Initial != 20*time.Second || spec.Backoff.Max != 20*time.Second ||
		spec.TerminationGracePeriod != 30*time.Second || spec.Publish.Drain != 7*time.Second || spec.Publish.Service != "shop-front" || spec.Group.MaxUnavailable.Number != 2 {
		t.Errorf("%+v", spec)
	}
	rpc := of("", "rpc")
	script := rpc.Probes[core.Liveness].Handler.Exec
	if !slices.Equal(script.Command, []string{"/bin/check", "--name", "$$$$x $$(y)"}) || !slices.Equal(script.WarningExitCodes, []int{1}) || rpc.Probes[core.Readiness].Handler.GRPC.TLS == nil {
		t.Errorf("%+v, %+v", script, rpc.Probes[core.Readiness].Handler.GRPC)
	}
	if batch := resolved(t, Nomad, "nomad/batch.json")("", "nightly"); batch.RestartPolicy != core.OnFailure || batch.GiveUp.Restarts != 3 || batch.GiveUp.Within != 24*time.Hour || batch.TerminationGracePeriod != 0 {
		t.Errorf("it ends as with Nomad, and what is Nomad's default otherwise is not set: %+v", batch)
	}
}

func TestComposeMeansTheSame(t *testing.T) {
	of := resolved(t, composeFiles(t), "compose/guardian.yaml")
	for name, want := range map[string]struct {
		action core.FailureAction
		giveUp int
		live   bool
	}{"web": {core.RestartFailed, 7, true}, "quarantine": {core.StopFailed, 0, true}, "told": {core.TellFailed, 0, true}, "left": {core.RestartFailed, 0, false}} {
		spec := of("guarded", name)
		live := spec.Probes[core.Liveness]
		if spec.OnFailure != want.action || spec.GiveUp.Restarts != want.giveUp || (live != nil) != want.live || live != nil && (live.FailureThreshold != 4 || spec.Backoff.Max != 2*time.Minute) {
			t.Errorf("%s: %+v, %+v", name, spec, live)
		}
	}
	web := resolved(t, composeFiles(t), "compose/shop.yaml")("shop", "web")
	if web.Publish.Port != 80 || web.TerminationGracePeriod != 20*time.Second || web.Group.MaxUnavailable.Number != 2 || !slices.Equal(web.Lifecycle.PreStop.Exec.Command, []string{"/drain.sh"}) {
		t.Errorf("%+v", web)
	}
}

func TestRefused(t *testing.T) {
	deep := "job \"a\" {\n  x = " + strings.Repeat("(", 1000) + "1" + strings.Repeat(")", 1000) + "\n}\n"
	for _, tt := range []struct {
		do         func([]File) (*Document, error)
		text, want string
	}{
		{Kubernetes, "a: [1\nb: 2", "f:1: did not find expected ',' or ']'"},
		{Kubernetes, "kind: Pod\nspec: 3\n", "f:1: the Pod  has no containers"},
		{Kubernetes, "kind: ConfigMap\n---\nkind: Secret\n", "f: has no Pod, Deployment"},
		{Kubernetes, "a: b", "f:1: is no Kubernetes object: it has no kind"},
		{Kubernetes, "", "f: has no Pod"},
		{Kubernetes, "{{ if }}\nkind: Pod", "(a template must be rendered first: helm template)"},
		{Kubernetes, "kind: List\nitems:\n- kind: List\n  items: []\n- 3\n", "f:5: is no Kubernetes object"},
		{Kubernetes, "kind: Pod\nspec:\n  containers:\n  - livenessProbe: {exec: {command: [" + strings.Repeat("a,", maxItems) + "a]}}\n", "f:4: has more than 5000 elements: import it in parts"},
		{Kubernetes, "kind: List\nitems: {" + strings.Repeat("a: b,", maxItems+1) + "}\n", "f:2: has more than 5000 elements"},
		{Nomad, "job \"a\" {\n  group = \n}\n", "f:2: "},
		{Nomad, "variable \"a\" {}\n", "f: has no job"},
		{Nomad, deep, "f:2: is too deep or too long for a job"},
		{Nomad, "x = " + strings.Repeat("!", 30_000) + "a\n", "f:1: is too deep or too long"},
		{Nomad, "x = a" + strings.Repeat("+a", 30_000) + "\n", "f:1: is too deep or too long"},
		{Nomad, strings.Repeat("#\n", 600_000), "f: is longer than 1 MiB"},
		{Nomad, "{\n\"Job\": {]", "f:2: invalid character"},
		{Nomad, "{}", "f: is no job of Nomad's API: it has no TaskGroups"},
		{Nomad, `{"Job": {"TaskGroups": [{"Count": "x"}]}}`, "f: json: cannot unmarshal string"},
	} {
		doc, err := tt.do([]File{{"f", []byte(tt.text)}})
		if err == nil || !strings.Contains(err.Error(), tt.want) || doc != nil {
			t.Errorf("%.40q: %v, want %s", tt.text, err, tt.want)
		}
	}
}

// An import has a bound.
func TestTooMany(t *testing.T) {
	var b strings.Builder
	b.WriteString("kind: Pod\nmetadata: {name: a}\nspec:\n  containers:\n")
	for range maxDrafts + 1 {
		b.WriteString("  - {name: a}\n")
	}
	if _, err := Kubernetes([]File{{"f", []byte(b.String())}}); err == nil || err.Error() != "there are more than 2000 containers: import them in parts" {
		t.Errorf("got %v", err)
	}
	b.Reset()
	b.WriteString("kind: Pod\nmetadata: {name: a}\nspec:\n  containers:\n  - &a\n    name: a\n    livenessProbe:\n      tcpSocket: {port: 80}\n")
	for i := range 1000 {
		fmt.Fprintf(&b, "      unknown%d: x\n", i)
	}
	b.WriteString(strings.Repeat("  - *a\n", 1000))
	if _, err := Kubernetes([]File{{"f", []byte(b.String())}}); err == nil || err.Error() != "more than 4 MiB would come of it: import it in parts" {
		t.Errorf("got %v", err)
	}
	b.Reset()
	b.WriteString("locals {\n  a0 = \"xxxxxxxxxxxxxxxx\"\n")
	for i := range 40 {
		fmt.Fprintf(&b, "  a%d = \"${local.a%d}${local.a%d}\"\n", i+1, i, i)
	}
	b.WriteString("}\njob \"a\" {\n  group \"g\" {\n    task \"t\" {\n      driver      = \"docker\"\n      kill_signal = local.a40\n    }\n  }\n}\n")
	doc, err := Nomad([]File{{"f", []byte(b.String())}})
	if err != nil || doc.Lost != 1 || !strings.Contains(doc.Text, "task.kill_signal = local.a40 (f:48): the file alone does not tell") {
		t.Errorf("%v, %+v", err, doc)
	}
}

// All of a file that nobody can carry over is still valid, and tells why.
func TestBrokenDrafts(t *testing.T) {
	d := newDocument("a test")
	s, err := d.add("web")
	if err != nil {
		t.Fatal(err)
	}
	s.own.set("match", `{ a = 1 }`)
	s.table("readiness").set("exec", `{ command = ["true"] }`)
	odd, err := d.add("odd")
	if err != nil {
		t.Fatal(err)
	}
	odd.own.set("match_name", `"odd"`)
	odd.table("liveness").set("tcp_socket", `{ port = 0 }`)
	odd.table("liveness").set("period", `"1s"`)
	odd.table("nothing").set("x", "1")
	odd.table("group").set("max_unavailable", "0")
	odd.table("group").text("name", "a\xffb")
	malformed, err := d.add("malformed") // which no draft is
	if err != nil {
		t.Fatal(err)
	}
	malformed.own.set("match_name", `"x`)
	malformed.table("liveness").set("tcp_socket", `{ port = 80 `)
	doc, err := d.finish()
	if err != nil {
		t.Fatal(err)
	}
	checked(t, doc)
	for _, want := range []string{"Not carried over: all of malformed: ", "Not carried over: liveness.tcp_socket.port = { port = 0 }: must be 1 to 65535", "Not carried over: all of web: match", "Not carried over: spec.readiness: it belongs to web", "spec.nothing: unknown key", "max_unavailable = 0: must be", "name: it is not UTF-8 text"} {
		if !strings.Contains(strings.Join(strings.Fields(strings.ReplaceAll(doc.Text, "\n#", "")), " "), want) {
			t.Errorf("no %q in:\n%s", want, doc.Text)
		}
	}
	if doc.Specs != 1 {
		t.Errorf("%d specs", doc.Specs)
	}
}
