package metrics

import (
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"healthd/prober"
	engine "healthd/runtime"
	"healthd/supervisor"
	"healthd/supervisor/core"
)

func web(name, id string) *core.View {
	v := &core.View{
		Container: &engine.Container{ID: id, Name: name, State: engine.Running},
		Spec: &core.Spec{
			Name: "web", Publish: core.Publish{Service: "shop"},
			Backoff: core.Backoff{ResetAfter: time.Hour},
		},
		Service: "shop",
		State:   core.State{Kept: &core.Kept{Engine: core.Engine{State: engine.Running}, Run: core.Run{BeganAt: time.Now()}, Conditions: core.Conditions{Started: core.Condition{Status: true}, ContainerReady: core.Condition{Status: true}, Ready: core.Condition{Status: true}}, Lasting: core.Lasting{Backoff: core.BackoffState{Active: true, Delay: 20 * time.Second}}}},
	}
	v.Spec.Probes[core.Liveness] = &core.ProbeSpec{}
	totals := &v.State.Totals
	for _, latency := range []time.Duration{5 * time.Millisecond, 5 * time.Millisecond, 40 * time.Millisecond, 12450 * time.Millisecond} {
		totals.Count(core.Liveness, prober.Result{Outcome: prober.Success, Latency: latency})
	}
	for _, outcome := range []prober.Outcome{prober.Unknown, prober.Failure, prober.Failure} {
		totals.Count(core.Liveness, prober.Result{Outcome: outcome})
	}
	v.State.Lasting.Restarts[core.ByLiveness], v.State.Lasting.Restarts[core.ByOperator], v.State.Lasting.Restarts[core.ByPostStart] = 3, 1, 2
	return v
}

func board(views ...*core.View) *supervisor.Board {
	return supervisor.NewBoard([]supervisor.RuntimeView{
		{Name: "docker", Up: true, Lag: 250 * time.Millisecond, Relists: map[string]int{"start": 1, "interval": 5}},
		{Name: "docker-2", Relists: map[string]int{"start": 2}},
	}, views...)
}

const golden = `
# HELP healthd_build_info Always 1. The labels have the versions of healthd and Go.
# TYPE healthd_build_info gauge
healthd_build_info{goversion="GOVERSION",version="v1"} 1
# HELP healthd_container_backoff_seconds Back-off before the container's last restart; 0 once the container has run for backoff.reset_after.
# TYPE healthd_container_backoff_seconds gauge
healthd_container_backoff_seconds{container="web-1"} 20
# HELP healthd_container_held 1 if somebody holds the container, so that healthd does not restart it, else 0.
# TYPE healthd_container_held gauge
healthd_container_held{container="web-1",project="",service="shop"} 0
healthd_container_held{container="wrong",project="",service=""} 0
# HELP healthd_container_ready 1 if healthd publishes the container as ready, else 0.
# TYPE healthd_container_ready gauge
healthd_container_ready{container="web-1",project="",service="shop"} 1
healthd_container_ready{container="wrong",project="",service=""} 0
# HELP healthd_container_restarts_total Restarts of the container, by what caused them. Includes restarts by the engine's own restart policy.
# TYPE healthd_container_restarts_total counter
healthd_container_restarts_total{container="web-1",reason="exit"} 0
healthd_container_restarts_total{container="web-1",reason="liveness"} 3
healthd_container_restarts_total{container="web-1",reason="network"} 0
healthd_container_restarts_total{container="web-1",reason="operator"} 1
healthd_container_restarts_total{container="web-1",reason="post_start"} 2
healthd_container_restarts_total{container="web-1",reason="startup"} 0
healthd_container_restarts_total{container="wrong",reason="exit"} 0
healthd_container_restarts_total{container="wrong",reason="liveness"} 0
healthd_container_restarts_total{container="wrong",reason="network"} 0
healthd_container_restarts_total{container="wrong",reason="operator"} 0
healthd_container_restarts_total{container="wrong",reason="post_start"} 0
healthd_container_restarts_total{container="wrong",reason="startup"} 0
# HELP healthd_container_started 1 if the container runs and its post_start hook and startup probe have succeeded, else 0.
# TYPE healthd_container_started gauge
healthd_container_started{container="web-1",project="",service="shop"} 1
healthd_container_started{container="wrong",project="",service=""} 0
# HELP healthd_invalid_containers Containers that healthd does not supervise because their labels are wrong.
# TYPE healthd_invalid_containers gauge
healthd_invalid_containers 1
# HELP healthd_lifecycle_http_fallbacks_total Lifecycle hooks that healthd repeated over http, because the server answered https in plain HTTP.
# TYPE healthd_lifecycle_http_fallbacks_total counter
healthd_lifecycle_http_fallbacks_total{container="web-1"} 5
# HELP healthd_probe_duration_seconds How long successful probes of the service's containers took.
# TYPE healthd_probe_duration_seconds histogram
healthd_probe_duration_seconds_bucket{probe_type="Liveness",project="",service="shop",le="0.005"} 2
healthd_probe_duration_seconds_bucket{probe_type="Liveness",project="",service="shop",le="0.01"} 2
healthd_probe_duration_seconds_bucket{probe_type="Liveness",project="",service="shop",le="0.025"} 2
healthd_probe_duration_seconds_bucket{probe_type="Liveness",project="",service="shop",le="0.05"} 3
healthd_probe_duration_seconds_bucket{probe_type="Liveness",project="",service="shop",le="0.1"} 3
healthd_probe_duration_seconds_bucket{probe_type="Liveness",project="",service="shop",le="0.25"} 3
healthd_probe_duration_seconds_bucket{probe_type="Liveness",project="",service="shop",le="0.5"} 3
healthd_probe_duration_seconds_bucket{probe_type="Liveness",project="",service="shop",le="1"} 3
healthd_probe_duration_seconds_bucket{probe_type="Liveness",project="",service="shop",le="2.5"} 3
healthd_probe_duration_seconds_bucket{probe_type="Liveness",project="",service="shop",le="5"} 3
healthd_probe_duration_seconds_bucket{probe_type="Liveness",project="",service="shop",le="10"} 3
healthd_probe_duration_seconds_bucket{probe_type="Liveness",project="",service="shop",le="+Inf"} 4
healthd_probe_duration_seconds_sum{probe_type="Liveness",project="",service="shop"} 12.5
healthd_probe_duration_seconds_count{probe_type="Liveness",project="",service="shop"} 4
# HELP healthd_probe_lateness_seconds Time from when a probe was due until it started.
# TYPE healthd_probe_lateness_seconds histogram
healthd_probe_lateness_seconds_bucket{le="0.0005"} 0
healthd_probe_lateness_seconds_bucket{le="0.001"} 0
healthd_probe_lateness_seconds_bucket{le="0.0025"} 0
healthd_probe_lateness_seconds_bucket{le="0.005"} 0
healthd_probe_lateness_seconds_bucket{le="0.01"} 0
healthd_probe_lateness_seconds_bucket{le="0.02"} 0
healthd_probe_lateness_seconds_bucket{le="0.05"} 0
healthd_probe_lateness_seconds_bucket{le="0.1"} 0
healthd_probe_lateness_seconds_bucket{le="0.25"} 0
healthd_probe_lateness_seconds_bucket{le="0.5"} 0
healthd_probe_lateness_seconds_bucket{le="1"} 0
healthd_probe_lateness_seconds_bucket{le="2.5"} 0
healthd_probe_lateness_seconds_bucket{le="+Inf"} 0
healthd_probe_lateness_seconds_sum 0
healthd_probe_lateness_seconds_count 0
# HELP healthd_probe_total Probes of the container, by result. An unknown result does not count towards a threshold.
# TYPE healthd_probe_total counter
healthd_probe_total{container="web-1",probe_type="Liveness",project="",result="failed",service="shop"} 2
healthd_probe_total{container="web-1",probe_type="Liveness",project="",result="successful",service="shop"} 4
healthd_probe_total{container="web-1",probe_type="Liveness",project="",result="unknown",service="shop"} 1
# HELP healthd_runtime_event_lag_seconds Time from the runtime's newest event until healthd read it.
# TYPE healthd_runtime_event_lag_seconds gauge
healthd_runtime_event_lag_seconds{runtime="docker"} 0.25
healthd_runtime_event_lag_seconds{runtime="docker-2"} 0
# HELP healthd_runtime_relists_total Full lists of containers that healthd read from the runtimes, by reason.
# TYPE healthd_runtime_relists_total counter
healthd_runtime_relists_total{reason="interval"} 5
healthd_runtime_relists_total{reason="start"} 3
# HELP healthd_runtime_up 1 if healthd can reach the runtime, else 0.
# TYPE healthd_runtime_up gauge
healthd_runtime_up{runtime="docker"} 1
healthd_runtime_up{runtime="docker-2"} 0
# HELP prober_probe_duration_seconds How long successful probes of the container took, under the kubelet's name.
# TYPE prober_probe_duration_seconds histogram
prober_probe_duration_seconds_bucket{container="web-1",probe_type="Liveness",le="0.005"} 2
prober_probe_duration_seconds_bucket{container="web-1",probe_type="Liveness",le="0.01"} 2
prober_probe_duration_seconds_bucket{container="web-1",probe_type="Liveness",le="0.025"} 2
prober_probe_duration_seconds_bucket{container="web-1",probe_type="Liveness",le="0.05"} 3
prober_probe_duration_seconds_bucket{container="web-1",probe_type="Liveness",le="0.1"} 3
prober_probe_duration_seconds_bucket{container="web-1",probe_type="Liveness",le="0.25"} 3
prober_probe_duration_seconds_bucket{container="web-1",probe_type="Liveness",le="0.5"} 3
prober_probe_duration_seconds_bucket{container="web-1",probe_type="Liveness",le="1"} 3
prober_probe_duration_seconds_bucket{container="web-1",probe_type="Liveness",le="2.5"} 3
prober_probe_duration_seconds_bucket{container="web-1",probe_type="Liveness",le="5"} 3
prober_probe_duration_seconds_bucket{container="web-1",probe_type="Liveness",le="10"} 3
prober_probe_duration_seconds_bucket{container="web-1",probe_type="Liveness",le="+Inf"} 4
prober_probe_duration_seconds_sum{container="web-1",probe_type="Liveness"} 12.5
prober_probe_duration_seconds_count{container="web-1",probe_type="Liveness"} 4
# HELP prober_probe_total The same as healthd_probe_total, under the kubelet's name.
# TYPE prober_probe_total counter
prober_probe_total{container="web-1",probe_type="Liveness",project="",result="failed",service="shop"} 2
prober_probe_total{container="web-1",probe_type="Liveness",project="",result="successful",service="shop"} 4
prober_probe_total{container="web-1",probe_type="Liveness",project="",result="unknown",service="shop"} 1
`

func TestCollect(t *testing.T) {
	wrong := &core.View{
		Container: &engine.Container{ID: "b", Name: "wrong"}, Invalid: "label healthd.x: unknown key", State: core.NewState(),
	}
	hooked := web("web-1", "a")
	hooked.Spec.Lifecycle.PreStop = &prober.LifecycleHandler{}
	hooked.State.Totals.HTTPFallbacks = 5
	c := New(board(hooked, wrong), "v1")
	want := strings.ReplaceAll(golden, "GOVERSION", runtime.Version())
	if err := testutil.CollectAndCompare(c, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
	problems, err := testutil.CollectAndLint(c)
	if err != nil || len(problems) > 0 {
		t.Errorf("lint: %v %v", problems, err)
	}
}

func TestGoneContainerLeavesNothing(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(New(board(), "v1"))
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == "container" {
					t.Errorf("%s has container %q", f.GetName(), l.GetValue())
				}
			}
		}
	}
}

func TestDuplicateContainerName(t *testing.T) {
	old, hostile := web("web-1", "a"), web("x\xff", "c")
	hostile.Service = "a\"b\n\xfe"
	c := New(board(old, web("web-1", "b"), hostile), "v1")
	if err := testutil.CollectAndCompare(c, strings.NewReader(`
# HELP healthd_container_ready 1 if healthd publishes the container as ready, else 0.
# TYPE healthd_container_ready gauge
healthd_container_ready{container="web-1",project="",service="shop"} 1
healthd_container_ready{container="x`+"\uFFFD"+`",project="",service="a\"b\n`+"\uFFFD"+`"} 1
`), "healthd_container_ready"); err != nil {
		t.Error(err)
	}
}

// A container without hooks has no such series; one that has ended is not started.
// Two runtimes may each have a container of the same name.
func TestNamesakesOfTwoRuntimes(t *testing.T) {
	docker, containerd := web("web", "d0c0"), web("web", "c0de")
	docker.Container.Runtime, containerd.Container.Runtime = "docker", "containerd"
	docker.Container.Labels = map[string]string{core.ComposeProject: "eu"}
	want := `
# HELP healthd_container_ready 1 if healthd publishes the container as ready, else 0.
# TYPE healthd_container_ready gauge
healthd_container_ready{container="containerd:web",project="",service="shop"} 1
healthd_container_ready{container="docker:web",project="eu",service="shop"} 1
`
	if err := testutil.CollectAndCompare(New(board(docker, containerd), "v1"), strings.NewReader(want), "healthd_container_ready"); err != nil {
		t.Error(err)
	}
}

func TestHooksAndEnds(t *testing.T) {
	plain, hooked, ended := web("plain", "a"), web("hooked", "b"), web("ended", "c")
	hooked.Spec.Lifecycle.PostStart = &prober.LifecycleHandler{}
	ended.State.Engine.State, ended.State.Conditions.ContainerReady.Status, ended.State.Conditions.Ready.Status = engine.Exited, false, false
	c := New(board(plain, hooked, ended), "v1")
	if err := testutil.CollectAndCompare(c, strings.NewReader(`
# HELP healthd_container_started 1 if the container runs and its post_start hook and startup probe have succeeded, else 0.
# TYPE healthd_container_started gauge
healthd_container_started{container="ended",project="",service="shop"} 0
healthd_container_started{container="hooked",project="",service="shop"} 1
healthd_container_started{container="plain",project="",service="shop"} 1
# HELP healthd_lifecycle_http_fallbacks_total Lifecycle hooks that healthd repeated over http, because the server answered https in plain HTTP.
# TYPE healthd_lifecycle_http_fallbacks_total counter
healthd_lifecycle_http_fallbacks_total{container="hooked"} 0
`), "healthd_lifecycle_http_fallbacks_total", "healthd_container_started"); err != nil {
		t.Error(err)
	}
}

func TestBackoffIsForgotten(t *testing.T) {
	v := web("web-1", "a")
	if got := backoff(v, v.State.Run.BeganAt.Add(59*time.Minute)); got != 20*time.Second {
		t.Errorf("before: %v", got)
	}
	if got := backoff(v, v.State.Run.BeganAt.Add(61*time.Minute)); got != 0 {
		t.Errorf("after: %v", got)
	}
}

func TestHandler(t *testing.T) {
	body := scrape(t, board(web("web-1", "a")))
	for _, want := range []string{"go_goroutines ", "process_start_time_seconds ", `healthd_build_info{`, `healthd_container_ready{container="web-1"`} {
		if !strings.Contains(body, want) {
			t.Errorf("no %s", want)
		}
	}
}

func scrape(t *testing.T, b *supervisor.Board) string {
	t.Helper()
	s := httptest.NewServer(Handler(b, "v1", nil))
	defer s.Close()
	answer, err := http.Get(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// A probe that has seen no certificate has no such series, nor does one that the spec no longer has.
func TestCertificates(t *testing.T) {
	secure, plain := web("secure", "a"), web("plain", "b")
	secure.State.Certificates[core.Liveness] = &core.Certificate{NotAfter: time.Unix(1_800_000_000, 0)}
	secure.State.Certificates[core.Readiness] = &core.Certificate{NotAfter: time.Unix(1_900_000_000, 0)}
	secure.Container.Labels = map[string]string{core.ComposeProject: "eu"}
	if err := testutil.CollectAndCompare(New(board(secure, plain), "v1"), strings.NewReader(`
# HELP healthd_tls_certificate_expiry_seconds Unix time at which the certificate of the server that the probe asks ends.
# TYPE healthd_tls_certificate_expiry_seconds gauge
healthd_tls_certificate_expiry_seconds{container="secure",probe_type="Liveness",project="eu",service="shop"} 1.8e+09
`), "healthd_tls_certificate_expiry_seconds"); err != nil {
		t.Error(err)
	}
}
