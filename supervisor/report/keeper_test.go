package report

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"healthd/prober"
	"healthd/runtime"
	"healthd/supervisor"
	"healthd/supervisor/core"
	"healthd/supervisor/journal"
)

// host is a daemon with one container, whose readiness probe answers as the test says, every 2 s after 100 ms.
type host struct {
	t          *testing.T
	dir        string
	fails      atomic.Bool
	journal    *journal.Journal
	supervisor *supervisor.Supervisor
	keeper     *Keeper
	stop       func()
	started    time.Time // of the container
}

// Probe and Hook implement supervisor.Prober, Ask and Close prober.Probe.
func (h *host) Probe(prober.Handler, prober.Target) (prober.Probe, error) { return h, nil }

func (h *host) Hook(prober.LifecycleHandler, prober.Target) (prober.Hook, error) {
	return nil, errors.New("there are no hooks")
}

func (h *host) Ask(context.Context, time.Duration) prober.Result {
	const takes = 100 * time.Millisecond
	time.Sleep(takes)
	if h.fails.Load() {
		return prober.Result{Outcome: prober.Failure, Latency: takes}
	}
	return prober.Result{Outcome: prober.Success, Latency: takes}
}

func (h *host) Close() {}

func newHost(t *testing.T) *host {
	h := &host{t: t, dir: t.TempDir(), started: time.Now()}
	t.Cleanup(func() {
		if h.stop != nil {
			h.stop()
		}
	})
	return h
}

// run starts the daemon, which lists its container at once.
func (h *host) run() {
	h.t.Helper()
	var err error
	if h.journal, err = journal.Open(journal.Config{Dir: h.dir, Boot: "b"}); err != nil {
		h.t.Fatal(err)
	}
	spec := &core.Spec{Name: "web", RestartPolicy: core.Always, Publish: core.Publish{Service: "shop/web"}}
	spec.Probes[core.Readiness] = &core.ProbeSpec{Handler: prober.Handler{TCPSocket: &prober.TCPSocket{Port: 1}}, Period: 2 * time.Second, Timeout: time.Second, SuccessThreshold: 1, FailureThreshold: 3}
	h.supervisor = supervisor.New(supervisor.Config{
		Resolve:  func(runtime.Traits) (*core.Spec, error) { return spec, nil },
		Runtimes: map[string]supervisor.Restarter{"docker": nil}, Prober: h,
		Journal: h.journal, Store: h.journal, Memories: h.journal.Memories(),
	})
	h.keeper = Open(Config{Dir: h.dir, Board: h.supervisor.Board(), Journal: h.journal})
	ctx, cancel := context.WithCancel(h.t.Context())
	keeping, stopKeeping := context.WithCancel(h.t.Context())
	ended, kept := make(chan error, 2), make(chan error, 1)
	go func() { kept <- h.journal.Run(keeping) }()
	go func() { ended <- h.supervisor.Run(ctx) }()
	h.stop = func() {
		cancel()
		err := errors.Join(<-ended, <-ended)
		stopKeeping()
		if err = errors.Join(err, <-kept, h.journal.Close()); err != nil {
			h.t.Error(err)
		}
		h.stop = nil
	}
	h.list()
	h.deliver(runtime.Update{Kind: runtime.Synced, Runtime: "docker", Reason: runtime.RelistStart})
	synctest.Wait()
	go func() { ended <- h.keeper.Run(ctx) }()
	synctest.Wait()
}

var containerID = strings.Repeat("c", 64)

func (h *host) list() {
	h.deliver(runtime.Update{Kind: runtime.Observed, Runtime: "docker", ID: containerID, Container: &runtime.Container{
		Runtime: "docker", ID: containerID, Name: "shop-web-1", State: runtime.Running, StartedAt: h.started, RestartPolicy: "no",
		Labels: map[string]string{"com.docker.compose.project": "shop"},
	}})
}

func (h *host) deliver(u runtime.Update) {
	h.t.Helper()
	if err := h.supervisor.Deliver(h.t.Context(), u); err != nil {
		h.t.Error(err)
	}
}

// report returns what is told of the service in short.
func (h *host) report() string {
	h.t.Helper()
	r, err := h.keeper.Report("web", time.Now().Add(-time.Hour))
	if err != nil {
		return err.Error()
	}
	if len(r.Services) != 1 || r.Services[0].Name != "shop/web" || r.Services[0].Project != "shop" {
		h.t.Fatalf("got %+v", r)
	}
	return text(&r.Services[0].Summary)
}

func (h *host) reasons(reason string) (messages []string) {
	for _, ev := range h.journal.Events("", time.Time{}) {
		if ev.Reason == reason {
			messages = append(messages, ev.Message)
		}
	}
	return messages
}

// A container that fails its readiness probe is an outage from the verdict on, which took from the first failed probe
// to the third. It survives the daemon.
func TestOutageIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		h.run()
		time.Sleep(59*time.Second - time.Since(h.started))
		ready := h.ready()
		h.fails.Store(true)
		time.Sleep(20 * time.Second)
		lost := h.ready()
		h.fails.Store(false)
		time.Sleep(21 * time.Second) // until 1m40s
		back := h.ready()
		if ready.Status == false || lost.Status || !back.Status {
			t.Fatalf("ready %v, then %v, then %v", ready, lost, back)
		}
		synctest.Wait()
		observed := time.Since(h.started)
		outage := back.Since.Sub(lost.Since)
		up := observed - outage - ready.Since.Sub(h.started)
		const detection = 2*2*time.Second + 100*time.Millisecond
		want := fmt.Sprintf("observed %v ready %v outages 1 longest %v found 1 in %v at most %v", observed, up, outage, detection, detection)
		if got := h.report(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		h.stop()
		time.Sleep(10 * time.Minute)
		h.run()
		if got := h.report(); got != want {
			t.Errorf("after a restart\ngot  %s\nwant %s", got, want)
		}
	})
}

func (h *host) ready() core.Condition {
	h.t.Helper()
	v, err := h.supervisor.Board().Find("shop-web-1")
	if err != nil {
		h.t.Fatal(err)
	}
	return v.State.Conditions.Ready
}

// A kill of the daemon costs a minute at most.
func TestFileIsWrittenEachMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		h.run()
		time.Sleep(savePause + time.Millisecond)
		synctest.Wait()
		killed := Open(Config{Dir: h.dir, Board: supervisor.NewBoard(nil), Journal: h.journal})
		if s := killed.ledger.services["shop/web"]; s == nil || len(s.hours) != 1 || ticks(s.hours[0].observed).duration() < savePause-mostPause-leastPause {
			t.Errorf("after a kill %+v", s)
		}
	})
}

// A disk that takes nothing is told once, and again when it is back. The report goes on.
func TestFullDiskIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		h.run()
		if err := os.Mkdir(filepath.Join(h.dir, newName), 0o700); err != nil { // as good as a full disk for the one who writes there
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(h.dir, newName, "x"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3*savePause + time.Second)
		synctest.Wait()
		if got := h.reasons(EventReportFailed); len(got) != 1 || !strings.Contains(got[0], "cannot write the report in "+h.dir) || len(h.reasons(EventReportBack)) != 0 {
			t.Errorf("told %q", got)
		}
		if err := os.RemoveAll(filepath.Join(h.dir, newName)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * savePause)
		synctest.Wait()
		if failed, back := h.reasons(EventReportFailed), h.reasons(EventReportBack); len(failed) != 1 || len(back) != 1 {
			t.Errorf("told %q, %q", failed, back)
		}
		if got := h.report(); !strings.HasPrefix(got, "observed 5m") {
			t.Errorf("got %s", got)
		}
	})
}

// A file that this healthd cannot read is set aside, with one event; one that it may not read is left alone.
func TestOpenTellsOfItsFile(t *testing.T) {
	open := func(put func(path string) error) (*Keeper, []core.Event, string) {
		dir, j := t.TempDir(), journal.New()
		if err := put(filepath.Join(dir, fileName)); err != nil {
			t.Fatal(err)
		}
		k := Open(Config{Dir: dir, Board: supervisor.NewBoard(nil), Journal: j})
		k.save()
		return k, j.Events("", time.Time{}), dir
	}
	_, told, _ := open(func(path string) error { return os.WriteFile(path, []byte("hello"), 0o600) })
	if len(told) != 1 || told[0].Reason != EventReportDamaged {
		t.Errorf("damaged: told %v", told)
	}
	_, told, dir := open(func(path string) error { return os.Symlink(filepath.Base(path), path) })
	if len(told) != 1 || told[0].Reason != EventReportFailed {
		t.Errorf("unreadable: told %v", told)
	}
	if target, err := os.Readlink(filepath.Join(dir, fileName)); target != fileName {
		t.Errorf("the file is now %q, %v", target, err)
	}
	if k := Open(Config{Board: supervisor.NewBoard(nil), Journal: journal.New()}); k.dir != "" {
		t.Errorf("without a directory it writes to %q", k.dir)
	}
}

// A service without a container has no series.
func TestMetricsAreOfServicesThatAreThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		h.run()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		const want = `
# HELP healthd_service_outages_total How often the service lost its last ready container.
# TYPE healthd_service_outages_total counter
healthd_service_outages_total{project="shop",service="shop/web"} 0
# HELP healthd_service_observed_seconds_total Time for which healthd watched the service. Not that in which people had stopped all its containers.
# TYPE healthd_service_observed_seconds_total counter
healthd_service_observed_seconds_total{project="shop",service="shop/web"} 10
`
		if err := testutil.CollectAndCompare(h.keeper, strings.NewReader(want), "healthd_service_outages_total", "healthd_service_observed_seconds_total"); err != nil {
			t.Error(err)
		}
		if n := testutil.CollectAndCount(h.keeper); n != 3+numCauses-1+1 {
			t.Errorf("%d series", n)
		}
		h.deliver(runtime.Update{Kind: runtime.Removed, Runtime: "docker", ID: containerID})
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if n := testutil.CollectAndCount(h.keeper); n != 0 {
			t.Errorf("%d series of a service that is gone", n)
		}
		if got := h.report(); !strings.HasPrefix(got, "observed 10") && !strings.HasPrefix(got, "observed 11") { // gone within a second
			t.Errorf("the report of a service that is gone: %s", got)
		}
	})
}

func TestNamesOfServices(t *testing.T) {
	l := newLedger()
	for _, name := range []string{"shop/web", "blog/web", "shop/db", "solo"} {
		l.services[name] = &service{name: name}
	}
	for name, want := range map[string]string{"shop/web": "shop/web", "db": "shop/db", "solo": "solo"} {
		if got, err := l.find(name); got != want || err != nil {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if _, err := l.find("x"); !errors.Is(err, supervisor.ErrUnknownService) {
		t.Errorf("unknown: %v", err)
	}
	_, err := l.find("web")
	if several, ok := errors.AsType[*supervisor.AmbiguousServiceError](err); !ok || !slices.Equal(several.Candidates, []string{"blog/web", "shop/web"}) {
		t.Errorf("ambiguous: %v", err)
	}
}
