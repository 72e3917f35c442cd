package docker_test

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/events"
	"github.com/docker/docker/api/types/filters"

	"healthd/runtime/docker"
	"healthd/runtime/docker/dockertest"
	"healthd/runtime/enginetest"
)

// BenchmarkExec also says how many requests a command takes.
func BenchmarkExec(b *testing.B) {
	private := dockertest.Start(b)
	id := private.Run(b, dockertest.RunOptions{Cmd: []string{"sleep", "1000"}})
	e := connect(b, private)
	report := enginetest.ReportCPU(b, private.Endpoint)
	n := 0
	for b.Loop() {
		n++
		runTrue(b, e, id)
	}
	report(n)
	counted, calls := countCalls(b, private)
	runTrue(b, counted, id) // negotiates the version, too
	calls.Store(0)
	const times = 20
	for range times {
		runTrue(b, counted, id)
	}
	b.ReportMetric(float64(calls.Load())/times, "calls/op")
}

func runTrue(b *testing.B, e *docker.Engine, id string) {
	b.Helper()
	if _, code, _, err := e.Exec(b.Context(), id, []string{"true"}, time.Minute, 100, nil); err != nil || code != 0 {
		b.Fatal(code, err)
	}
}

// countCalls returns a client whose requests pass a proxy that counts them.
func countCalls(b *testing.B, private *dockertest.Engine) (*docker.Engine, *atomic.Int64) {
	b.Helper()
	var calls atomic.Int64
	upstream := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", strings.TrimPrefix(private.Endpoint, "unix://"))
	}}
	forward := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			calls.Add(1)
			r.SetURL(&url.URL{Scheme: "http", Host: "docker"})
		},
		Transport: upstream, FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0), // of what ends early
	}
	path := filepath.Join(b.TempDir(), "s")
	ln, err := net.Listen("unix", path)
	if err != nil {
		b.Fatal(err)
	}
	server := &http.Server{Handler: forward}
	served := make(chan error, 1)
	go func() { served <- server.Serve(ln) }()
	b.Cleanup(func() {
		_ = server.Close()
		<-served
		upstream.CloseIdleConnections()
	})
	e, err := docker.New(docker.Config{Endpoint: "unix://" + path})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = e.Close() })
	return e, &calls
}

// BenchmarkExecBesideHealthcheck compares commands that healthd runs with Docker's own HEALTHCHECK: the same
// command in as many containers, a second after the one before, in turns on one engine. It reports the CPU time
// of one command: that of the engine with all that it starts, and of this process where it asks.
func BenchmarkExecBesideHealthcheck(b *testing.B) {
	private := dockertest.Start(b)
	e := connect(b, private)
	var byDocker, byHealthd, ofHealthd time.Duration
	n := time.Duration(0)
	for b.Loop() {
		_, spent := checkByDocker(b, private)
		byDocker += spent
		own, spent := checkByHealthd(b, private, e)
		ofHealthd, byHealthd = ofHealthd+own, byHealthd+own+spent
		n += comparedChecks
	}
	milliseconds := func(d time.Duration) float64 { return float64((d / n).Microseconds()) / 1e3 }
	b.ReportMetric(milliseconds(byDocker), "healthcheck-ms")
	b.ReportMetric(milliseconds(byHealthd), "exec-ms")
	b.ReportMetric(milliseconds(ofHealthd), "client-ms")
	b.ReportMetric(float64(byHealthd)/float64(byDocker), "exec/healthcheck")
}

const (
	comparedContainers = 10
	comparedChecks     = 5 * comparedContainers
	comparedPause      = time.Second
)

// checkByDocker has Docker check some containers, and returns the CPU time spent on comparedChecks.
func checkByDocker(b *testing.B, private *dockertest.Engine) (own, engine time.Duration) {
	b.Helper()
	_, remove := runSleepers(b, private, &container.HealthConfig{Test: []string{"CMD", "true"}, Interval: comparedPause, Timeout: time.Minute})
	defer remove()
	return spentOn(b, private)
}

// checkByHealthd is checkByDocker with commands of healthd. healthd hears of their ends, too.
func checkByHealthd(b *testing.B, private *dockertest.Engine, e *docker.Engine) (own, engine time.Duration) {
	b.Helper()
	ids, remove := runSleepers(b, private, nil)
	defer remove()
	ctx, cancel := context.WithCancel(b.Context())
	var asking sync.WaitGroup
	defer asking.Wait()
	defer cancel()
	for i, id := range ids {
		asking.Go(func() {
			next := time.After(time.Duration(i) * comparedPause / comparedContainers)
			for {
				select {
				case <-ctx.Done():
					return
				case <-next:
				}
				if _, code, _, err := e.Exec(ctx, id, []string{"true"}, time.Minute, 100, nil); ctx.Err() == nil && (err != nil || code != 0) {
					b.Error(code, err)
				}
				next = time.After(comparedPause)
			}
		})
	}
	return spentOn(b, private)
}

// runSleepers runs the containers to compare with, and returns what removes them.
func runSleepers(b *testing.B, private *dockertest.Engine, health *container.HealthConfig) (ids []string, remove func()) {
	b.Helper()
	for range comparedContainers {
		ids = append(ids, private.Run(b, dockertest.RunOptions{Cmd: []string{"sleep", "1000"}, Network: "none", Health: health}))
	}
	return ids, func() { private.RemoveAll(b, ids...) }
}

// spentOn returns the CPU time spent while comparedChecks end, after a first one of each container.
func spentOn(b *testing.B, private *dockertest.Engine) (own, engine time.Duration) {
	b.Helper()
	ended := execEnds(b, private) // not before: those that ended meanwhile would count
	for range comparedContainers {
		ended()
	}
	before := enginetest.CPUOf(private.Endpoint)
	for range comparedChecks {
		ended()
	}
	after := enginetest.CPUOf(private.Endpoint)
	return after.Own - before.Own, after.Engine - before.Engine
}

// execEnds returns what waits for the end of one more command of a container.
func execEnds(b *testing.B, private *dockertest.Engine) (wait func()) {
	b.Helper()
	ctx, cancel := context.WithCancel(b.Context())
	b.Cleanup(cancel)
	messages, errs := private.Client().Events(ctx, events.ListOptions{
		Filters: filters.NewArgs(filters.Arg("type", "container"), filters.Arg("event", "exec_die")),
	})
	return func() {
		b.Helper()
		select {
		case <-messages:
		case err := <-errs:
			b.Fatal(err)
		}
	}
}
