package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"healthd/configs"
	"healthd/prober"
	"healthd/runtime"
	"healthd/supervisor"
	"healthd/supervisor/core"
	"healthd/supervisor/dns"
	"healthd/supervisor/files"
	"healthd/supervisor/fleet"
	"healthd/supervisor/fleet/etcdtest"
	"healthd/supervisor/haproxy"
	"healthd/supervisor/journal"
	"healthd/supervisor/metrics"
	"healthd/supervisor/notify"
)

const metricsPage = "../../docs/metrics.md"

// metric is a row of docs/metrics.md.
type metric struct{ name, kind, unit, labels, help, since string }

func (m metric) row() string {
	return fmt.Sprintf("| `%s` | %s | %s | %s | %s | %s |\n", m.name, m.kind, m.unit, m.labels, m.help, m.since)
}

// docs/metrics.md has every metric, from the collectors that run registers. -update writes its tables; a metric
// that is new is there since the version in VERSION.
func TestMetricsPage(t *testing.T) {
	page, err := os.ReadFile(metricsPage)
	if err != nil {
		t.Fatal(err)
	}
	version, err := os.ReadFile("../../VERSION")
	if err != nil {
		t.Fatal(err)
	}
	since := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\|.*\\| ([0-9.]+) \\|$").FindAllStringSubmatch(string(page), -1) {
		since[row[1]] = row[2]
	}
	var rows string
	for _, m := range describedMetrics(t) {
		if m.since = since[m.name]; m.since == "" {
			m.since = strings.TrimSpace(string(version))
		}
		rows += m.row()
	}
	const begin, end = "<!-- metrics: written by a test -->\n", "<!-- end -->\n"
	before, rest, found := strings.Cut(string(page), begin)
	_, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		t.Fatalf("%s has no %s … %s", metricsPage, begin, end)
	}
	want := []byte(before + begin + "\n| name | type | unit | labels | what it says | since |\n|---|---|---|---|---|---|\n" + rows + "\n" + end + after)
	if bytes.Equal(page, want) {
		return
	}
	if !*update {
		t.Fatalf("%s is not what the code says: go test ./cmd/healthd -run TestMetricsPage -update", metricsPage)
	}
	if err := os.WriteFile(metricsPage, want, 0o600); err != nil {
		t.Fatal(err)
	}
}

var descText = regexp.MustCompile(`^Desc\{fqName: "([a-z_]+)", help: "(.*)", unit: "", constLabels: \{\}, variableLabels: \{(.*)\}\}$`)

// describedMetrics returns all metrics of healthd but those of Go and of its process, sorted by name. They have
// series in this test, which tell their types.
func describedMetrics(t *testing.T) []metric {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	collectors := append(documentedDaemon(t).collectors(), metrics.New(documentedBoard(), "1"))
	descs := make(chan *prometheus.Desc, 100)
	for _, c := range collectors {
		registry.MustRegister(c)
		c.Describe(descs)
	}
	close(descs)
	limited := prometheus.NewPedanticRegistry()
	limited.MustRegister(metrics.New(boardWithBudget(t), "1"))
	kinds := map[string]string{}
	for _, r := range []*prometheus.Registry{registry, limited} {
		families, err := r.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			kinds[f.GetName()] = strings.ToLower(f.GetType().String())
		}
	}
	var all []metric
	for d := range descs {
		found := descText.FindStringSubmatch(d.String())
		if found == nil {
			t.Fatalf("cannot read %s", d)
		}
		m := metric{name: found[1], kind: kinds[found[1]], unit: unitOf(found[1]), help: strings.ReplaceAll(found[2], "|", "\\|")}
		if m.kind == "" {
			t.Errorf("%s has no series in this test", m.name)
		}
		if found[3] != "" {
			m.labels = "`" + strings.ReplaceAll(found[3], ",", "`, `") + "`"
		}
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b metric) int { return strings.Compare(a.name, b.name) })
	return all
}

// unitOf follows from the name, by Prometheus' conventions.
func unitOf(name string) string {
	switch {
	case strings.HasSuffix(name, "_timestamp_seconds"), strings.HasSuffix(name, "_expiry_seconds"):
		return "Unix time"
	case strings.HasSuffix(name, "_seconds"):
		return "seconds"
	}
	return ""
}

// documentedDaemon has all collectors that there are.
func documentedDaemon(t *testing.T) *daemon {
	t.Helper()
	h, err := haproxy.New(haproxy.Config{Sockets: []string{"/run/haproxy/admin.sock"}, Agent: "127.0.0.1:8647"})
	if err != nil {
		t.Fatal(err)
	}
	n := notify.New(notify.Config{Receivers: []notify.Receiver{{Name: "oncall"}}})
	published := files.New(files.Config{Files: []files.File{{Path: "/etc/nginx/conf.d/healthd.conf", Reload: []string{"true"}}}})
	authority := etcdtest.NewTLS(t)
	cert, key := authority.Sign(t, "h1", time.Now().Add(time.Hour))
	joined, err := fleet.New(fleet.Config{Endpoints: []string{"https://127.0.0.1:2379"}, Prefix: "/healthd/", Host: "h1", CAFile: authority.CA, CertFile: cert, KeyFile: key})
	if err != nil {
		t.Fatal(err)
	}
	reload := metrics.NewReload()
	reload.Certificates(map[string]time.Time{"/etc/healthd/client.pem": time.Unix(1, 0)})
	return &daemon{logQueue: &logQueue{}, fleet: joined, publisher: published, notifications: n, dns: dns.New(supervisor.NewBoard(nil), nil), report: observedService(), haproxy: h, reloadMetrics: reload, journal: journal.New(), prober: prober.New(prober.Config{Engines: map[string]prober.Engine{"docker": nil}}), begun: &configs.Config{Listen: configs.Listen{DNS: "127.0.0.1:8653"}, State: configs.State{Dir: "/var/lib/healthd"}}}
}

// documentedBoard has a container for each metric that not all of them have.
func documentedBoard() *supervisor.Board {
	view := func(name string, change func(*core.View)) *core.View {
		v := &core.View{
			Container: &runtime.Container{ID: name, Name: name, State: runtime.Running}, Spec: &core.Spec{Name: name}, Service: name,
			State: core.State{Kept: &core.Kept{Engine: core.Engine{State: runtime.Running}}},
		}
		change(v)
		return v
	}
	return supervisor.NewBoard([]supervisor.RuntimeView{{Name: "docker", Relists: map[string]int{"start": 1}}},
		view("asked", func(v *core.View) {
			v.Spec.Probes[core.Readiness], v.Spec.Lifecycle.PreStop = &core.ProbeSpec{}, &prober.LifecycleHandler{}
			v.State.Certificates[core.Readiness] = &core.Certificate{NotAfter: time.Unix(1, 0)}
		}),
		view("waits", func(v *core.View) { v.State.Action.Restart = core.ByExit }),
		view("ended", func(v *core.View) {
			v.State.Engine.State, v.State.Run.ID, v.State.Run.Exit.Reason = runtime.Exited, runtime.Run{ID: "ended"}, core.ReasonError
		}))
}

// boardWithBudget returns the board of a supervisor: no other one has a restart budget.
func boardWithBudget(t *testing.T) *supervisor.Board {
	t.Helper()
	s := supervisor.New(supervisor.Config{
		Journal: journal.New(), Resolve: func(runtime.Traits) (*core.Spec, error) { return nil, nil },
	})
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		end()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	if err := s.Ping(ctx); err != nil {
		t.Fatal(err)
	}
	return s.Board()
}

// The page explains each label, and has the values of those that have few.
func TestMetricsPageHasLabels(t *testing.T) {
	text, err := os.ReadFile(metricsPage)
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z_]+)`(?: of `([a-z_]+)`)? \\| ([^|]+) \\|$").FindAllStringSubmatch(string(text), -1) {
		rows[strings.TrimSpace(row[1]+" "+row[2])] = row[3]
	}
	for _, m := range describedMetrics(t) {
		for label := range strings.SplitSeq(strings.ReplaceAll(m.labels, "`", ""), ", ") {
			if label != "" && rows[label] == "" && rows[label+" "+m.name] == "" {
				t.Errorf("the label %s of %s is not explained", label, m.name)
			}
		}
	}
	for label, values := range labelValues() {
		for _, value := range values {
			if !strings.Contains(rows[label], "`"+value+"`") {
				t.Errorf("%s may be %s, and the page does not say so", label, value)
			}
		}
	}
}

func labelValues() map[string][]string {
	all := map[string][]string{
		"result prober_probe_total":                 {"successful", "failed", "unknown"},
		"result healthd_probe_total":                {"successful", "failed", "unknown"},
		"result healthd_notifications_total":        {"delivered", "failed", "dropped"},
		"result healthd_fleet_lease_renewals_total": {"ok", "failed", "lost"},
		"kind":                               {"probes", "hooks"},
		"reason healthd_fleet_relists_total": {"start", "break", "compacted", "back", "big", "regular"},
		"state":                              {string(fleet.HostLive), string(fleet.HostLost), string(fleet.HostLeft), "ready", "draining", "down"},
		"reason healthd_container_waiting": {core.WaitCrashLoop, core.WaitDraining, core.WaitRuntimeUnknown, core.WaitRestarting, core.WaitCreated, core.WaitStartError,
			core.WaitGroupLimit, core.WaitRestartBudget, core.WaitHeld, core.WaitObserved, core.WaitGaveUp, core.WaitNetwork},
		"reason healthd_container_terminated": {core.ReasonCompleted, core.ReasonError, core.ReasonOOMKilled,
			core.ReasonStoppedByOperator, core.ReasonLivenessFailed, core.ReasonStartupFailed, core.ReasonManagedElsewhere},
		"reason healthd_runtime_relists_total": {runtime.RelistStart, runtime.RelistReconnect, runtime.RelistInterval, runtime.RelistLossy, runtime.RelistRefresh},
	}
	for probe := range core.ProbeType(core.NumProbes) {
		all["probe_type"] = append(all["probe_type"], probe.Title())
	}
	var lasting core.Lasting
	for i := range lasting.Restarts {
		if cause := core.Cause(i); cause != core.NoCause {
			all["reason healthd_container_restarts_total"] = append(all["reason healthd_container_restarts_total"], cause.String())
		}
	}
	return all
}
