package docs

import (
	"healthd/e2e/ports"

	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"healthd/e2e/harness"
	"healthd/runtime/docker/dockertest"
	"healthd/supervisor/fleet/etcdtest"
)

// observed is a healthd with containers that are well and ill, and the Prometheus that watches it.
type observed struct {
	t    *testing.T
	d    *harness.Daemon
	prom *prometheus
}

const observedProbe = `http_get = { port = 8080, path = "/healthz" }, period = "500ms", timeout = "30s"`

// observedSpecs are of Compose services in the project seen.
func observedSpecs(tlsPort int, socket, etcd string) string {
	specs := fmt.Sprintf("[haproxy]\nsockets = [%q]\n[fleet]\nendpoints = [%q]\nhost = \"h1\"\nadvertise = \"10.0.0.11\"\n[[notify]]\nname = \"oncall\"\ncommand = [\"true\"]\n", socket, etcd)
	for name, rest := range map[string]string{
		"web":   "readiness = { " + observedProbe + " }\nliveness = { exec = { command = [\"true\"] }, period = \"1s\", timeout = \"30s\" }\npublish = { port = 8080, haproxy = { backend = \"web\" } }",
		"lost":  "readiness = { " + observedProbe + " }\npublish = { port = 8080, haproxy = { backend = \"absent\" } }",
		"sick":  `readiness = { http_get = { port = 8080, path = "/no-such-page" }, period = "500ms", timeout = "30s" }`,
		"loop":  `backoff = { initial = "2s", max = "5s" }` + "\npublish = { port = 8080, haproxy = { backend = \"web\" } }", // HAProxy is told of each start
		"feed":  "give_up = { restarts = 1 }",
		"job":   `restart_policy = "Never"`,
		"blind": `readiness = { engine_health = {}, period = "200ms" }`,
		"secure": fmt.Sprintf(`readiness = { http_get = { host = "127.0.0.1", port = %d, scheme = "https" }, period = "500ms", timeout = "30s" }`,
			tlsPort),
	} {
		specs += fmt.Sprintf("[[spec]]\nname = %q\nmatch = { \"com.docker.compose.project\" = \"seen\", \"com.docker.compose.service\" = %[1]q }\n%s\n", name, rest)
	}
	return specs
}

func observe(t *testing.T) *observed {
	t.Helper()
	agent := ports.Address(t)
	h := harness.StartHAProxy(t, "push.cfg", "agent-port 8647", "agent-port "+harness.PortOf(agent))
	e := harness.Docker.Engine(t)
	d := harness.NewDaemon(t, e.Endpoint, observedSpecs(serveTLS(t, 48*time.Hour), h.Socket(), etcdtest.New(t, etcdtest.Options{Members: 1}).Endpoints[0]))
	d.AnswerAgents(agent)
	harness.StartedDaemon(d)
	fails := []string{"sh", "-c", "sleep 0.2; exit 1"}
	s := &stage{t: t, e: e, d: d}
	for service, o := range map[string]dockertest.RunOptions{
		"web": {}, "lost": {}, "sick": {}, "blind": {}, "secure": {},
		"loop": {Cmd: fails}, "feed": {Cmd: fails}, "job": {Cmd: fails}, "wrong": {Labels: map[string]string{"healthd.livness": "x"}},
	} {
		s.composeIn("seen", service, "1", o)
	}
	s.composeIn("seen", "web", "2", dockertest.RunOptions{})
	for _, name := range []string{"seen-web-1", "seen-web-2", "seen-secure-1"} {
		s.becomes(name, "ready", harness.Ready)
	}
	s.becomes("seen-feed-1", "given up", harness.WaitsFor("GaveUp"))
	if out, code := d.Run("hold", "seen-web-2"); code != 0 {
		t.Fatal(out)
	}
	return &observed{t: t, d: d, prom: startPrometheus(t, strings.TrimPrefix(d.URL, "http://"))}
}

// serveTLS serves over TLS, with a certificate that ends soon, and returns the port.
func serveTLS(t *testing.T, life time.Duration) int {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(life)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: private}}}
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.Listener.Addr().(*net.TCPAddr).Port
}

// Every query that is shipped is asked of a real Prometheus that watches a real healthd.
func TestObservability(t *testing.T) {
	t.Parallel()
	o := observe(t)
	o.metricsAreClean()
	o.rulesRun()
	o.alertsAreRaised()
	o.dashboardShowsAll()
	o.goneContainerLeavesNoSeries()
}

func (o *observed) metricsAreClean() {
	o.t.Helper()
	_, text, err := o.d.Get("/metrics")
	if err != nil {
		o.t.Fatal(err)
	}
	cmd := exec.CommandContext(o.t.Context(), harness.FindProgram(o.t, "promtool"), "check", "metrics")
	cmd.Stdin = strings.NewReader(text)
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		o.t.Errorf("promtool check metrics: %v\n%s", err, out)
	}
}

var metricName = regexp.MustCompile(`\b(?:healthd|process|go)_\w+|\bcontainer:\w+:\w+`)

// rulesRun waits until all rules were evaluated. All series that they ask for are there.
func (o *observed) rulesRun() {
	o.t.Helper()
	var all []rule
	o.d.Eventually("have its rules evaluated", func() (err error) {
		if all, err = o.prom.rules(); err != nil {
			return err
		}
		for _, r := range all {
			if r.Health != "ok" {
				return fmt.Errorf("%s is %s: %s", r.Name, r.Health, r.LastError)
			}
		}
		return nil
	})
	if len(all) < 20 {
		o.t.Errorf("only %d rules", len(all))
	}
	metrics := map[string]bool{}
	for _, r := range all {
		for _, name := range metricName.FindAllString(r.Query, -1) {
			metrics[name] = true
		}
		if r.Type == "alerting" {
			o.checkAlert(r)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(metrics)) {
		o.d.Eventually("show "+name+" to Prometheus", func() error { return o.prom.yields(name, false) })
	}
}

// checkAlert checks that an alert says what to do, and where to read on.
func (o *observed) checkAlert(r rule) {
	o.t.Helper()
	if !slices.Contains([]string{"critical", "warning", "info"}, r.Labels["severity"]) || r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
		o.t.Errorf("%s has no severity, summary or description: %v %v", r.Name, r.Labels, r.Annotations)
	}
	page, heading, _ := strings.Cut(strings.TrimPrefix(r.Annotations["runbook_url"], "file:///usr/share/doc/healthd/docs/"), "#")
	text, err := os.ReadFile(filepath.Join("../../docs", page))
	if err != nil {
		o.t.Fatalf("%s: its runbook_url: %v", r.Name, err)
	}
	for line := range strings.Lines(string(text)) {
		if title := strings.TrimSpace(strings.TrimLeft(line, "#")); strings.HasPrefix(line, "#") && anchor(title) == heading {
			return
		}
	}
	o.t.Errorf("%s: docs/%s has no heading %s", r.Name, page, heading)
}

// raised are alerts that the containers of this test raise. Most of them wait for their time to fire.
var raised = map[string]string{
	"HealthdServiceDown":       "service=seen/sick",
	"HealthdContainerNotReady": "container=seen-sick-1",
	"HealthdContainerFailed":   "container=seen-job-1",
	"HealthdCrashLoop":         "container=seen-loop-1",
	"HealthdGaveUp":            "container=seen-feed-1",
	"HealthdInvalidContainers": "severity=warning",
	"HealthdProbesUnknown":     "container=seen-blind-1",
	"HealthdCertificateEnds":   "container=seen-secure-1",
	"HealthdHAProxyProblems":   "severity=warning",
}

func (o *observed) alertsAreRaised() {
	o.t.Helper()
	o.d.Eventually("raise its alerts", func() error {
		all, err := o.prom.rules()
		if err != nil {
			return err
		}
		missing := maps.Clone(raised)
		for _, r := range all {
			label, value, _ := strings.Cut(raised[r.Name], "=")
			for _, alert := range r.Alerts {
				text := fmt.Sprint(alert.Annotations)
				if strings.Contains(text, "no value") || strings.Contains(text, "error expanding") {
					return fmt.Errorf("%s says %s", r.Name, text)
				}
				if label != "" && alert.Labels[label] == value {
					delete(missing, r.Name)
				}
				if alert.Labels["container"] == "seen-web-1" {
					return fmt.Errorf("%s is raised for a container that is well", r.Name)
				}
			}
		}
		if len(missing) > 0 {
			return fmt.Errorf("missing: %v", missing)
		}
		return nil
	})
}

// empty are queries of the dashboard that yield nothing here, and why.
var empty = map[string]string{
	"healthd started": "healthd does not restart in this test",
}

func (o *observed) dashboardShowsAll() {
	o.t.Helper()
	d := readDashboard(o.t)
	here := strings.NewReplacer("$__rate_interval", "10s", "$instance", ".*", "$service", ".*", "$container", ".*")
	queries := 0
	check := func(title, expression string, over bool) {
		queries++
		o.d.Eventually("have "+title+" on the dashboard: "+expression, func() error {
			if empty[title] != "" {
				_, err := o.prom.query(here.Replace(expression), over)
				return err
			}
			return o.prom.yields(here.Replace(expression), over)
		})
	}
	for _, p := range d.Panels {
		for _, q := range p.Targets {
			if p.Type == "table" && !strings.Contains(q.Expr, "by (") {
				o.t.Errorf("%s: a table of all labels: %s", p.Title, q.Expr)
			}
			check(p.Title, q.Expr, q.Range)
		}
	}
	for _, a := range d.Annotations.List {
		if a.Expr != "" {
			check(a.Name, a.Expr, true)
		}
	}
	for _, v := range d.Templating.List {
		if v.Type == "query" {
			o.checkVariable(v, here)
		}
	}
	if queries < 30 {
		o.t.Errorf("found only %d queries", queries)
	}
}

var labelValues = regexp.MustCompile(`^label_values\((.+), (\w+)\)$`)

func (o *observed) checkVariable(v variable, here *strings.Replacer) {
	o.t.Helper()
	found := labelValues.FindStringSubmatch(v.Query)
	if found == nil {
		o.t.Fatalf("variable %s: cannot read %s", v.Name, v.Query)
	}
	var values []string
	err := o.prom.ask("/api/v1/label/"+found[2]+"/values", url.Values{"match[]": {here.Replace(found[1])}}, &values)
	if err != nil || len(values) == 0 {
		o.t.Errorf("variable %s: %s: %v, %v", v.Name, v.Query, values, err)
	}
}

func (o *observed) goneContainerLeavesNoSeries() {
	o.t.Helper()
	harness.Docker.Engine(o.t).Remove(o.t, "seen-web-1")
	o.d.Eventually("leave no series of a container that is gone", func() error {
		all, err := o.prom.query(`{container="seen-web-1", __name__!~"ALERTS.*"}`, false)
		if err == nil && len(all) > 0 {
			err = fmt.Errorf("%v", all)
		}
		return err
	})
	// The service goes on, and what it has counted never shrinks.
	all, err := o.prom.query(`resets(healthd_probe_duration_seconds_count{service="seen/web"}[1m])`, false)
	if err == nil && len(all) == 0 {
		err = errors.New("the service is gone, too")
	}
	for _, f := range all {
		if n := f.numbers(); len(n) != 1 || n[0] != 0 {
			err = fmt.Errorf("%v", all)
		}
	}
	if err != nil {
		o.t.Error(err)
	}
}
