package faults

import (
	"healthd/e2e/patience"

	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	grpcstatus "google.golang.org/grpc/status"

	"healthd/e2e/harness"
	"healthd/runtime/docker/dockertest"
	"healthd/supervisor/core"
	"healthd/supervisor/journal"
)

const (
	noisyContainers = 4 // with two probes each
	historySpec     = `
[[spec]]
name = "noisy"
match = { e2e = "historyflood" }
readiness = { grpc = { port = %[1]d }, period = "100ms", timeout = "30s", failure_threshold = 100000 }
liveness = { grpc = { port = %[1]d }, period = "100ms", timeout = "30s", failure_threshold = 100000 }
[[spec]]
name = "beside"
match = { e2e = "beside-historyflood" }
readiness = { http_get = { port = 8080, path = "/healthz" }, period = "500ms", timeout = "30s" }
`
	// keptOfOne are the events of a container and a reason that are kept one by one, oneText is how
	// long a text of them is at most: docs/security.md.
	keptOfOne = 25
	oneText   = 1 << 10
	streams   = 64
	lists     = 16
)

func noisyName(i int) string { return fmt.Sprintf("historyflood-%d", i) }

// fillHistory makes the journal that an earlier healthd left: the very first event is of the container
// that will be beside the flood, all others are of one that is gone.
func fillHistory(t *testing.T, d *harness.Daemon) {
	t.Helper()
	j, err := journal.Open(journal.Config{Dir: filepath.Join(filepath.Dir(d.Config), "state")})
	if err != nil {
		t.Fatal(err)
	}
	j.Record(core.Event{Time: time.Now(), Container: "beside-historyflood", Reason: "Old", Message: "before the flood"})
	for i := range 2 * journal.Size { // no more than half of them are kept
		j.Record(core.Event{Time: time.Now(), Container: "former", Reason: fmt.Sprint("Old", i/keptOfOne), Message: strings.Repeat("x", oneText)})
	}
	ctx, end := context.WithCancel(t.Context())
	end() // Run writes what is there
	if err := errors.Join(j.Run(ctx), j.Close()); err != nil {
		t.Fatal(err)
	}
}

// journalSize returns how long the journal's file is.
func journalSize(d *harness.Daemon) int {
	d.T.Helper()
	info, err := os.Stat(filepath.Join(filepath.Dir(d.Config), "state", "journal.db"))
	if err != nil {
		d.T.Fatal(err)
	}
	return int(info.Size())
}

// Containers that fail ten times a second with long words fill neither the disk nor the memory,
// and push out the events of none but themselves.
func TestHistoryFlood(t *testing.T) {
	var answers atomic.Int64
	port := serveChecks(t, func(context.Context) (*healthpb.HealthCheckResponse, error) {
		return nil, grpcstatus.Error(codes.Internal, fmt.Sprint("fault ", answers.Add(1), " ", strings.Repeat("x", 5000)))
	})
	e := harness.Docker.Engine(t)
	d := plain(harness.NewDaemon(t, e.Endpoint, fmt.Sprintf(historySpec, port)))
	d.Rewrite(func(text string) string { return strings.Replace(text, `"debug"`, `"info"`, 1) })
	fillHistory(t, d)
	harness.StartedDaemon(d)
	e.Run(t, dockertest.RunOptions{Name: "beside-historyflood", Labels: map[string]string{"e2e": "beside-historyflood"}})
	d.Until("beside-historyflood", "ready", harness.Ready)
	file := journalSize(d)
	log := len(d.Log.String())
	for i := range noisyContainers {
		e.Run(t, dockertest.RunOptions{Name: noisyName(i), Network: "host", Labels: map[string]string{"e2e": "historyflood"}, Cmd: []string{"sleep", "1000"}})
	}
	begun := time.Now()
	checkSlowReaders(d, t)
	d.Eventually("be flooded", func() error {
		if n := answers.Load(); n < 600 {
			return fmt.Errorf("%d answers", n)
		}
		return nil
	})
	checkFolded(d, t, &answers, begun)
	checkBeside(d, t)

	// Each noisy container has few reasons; another two or three are of its start.
	const perContainer = 2 * keptOfOne * oneText
	t.Logf("after %d answers: file %d KiB, was %d; log %d KiB more", answers.Load(), journalSize(d)>>10, file>>10, (len(d.Log.String())-log)>>10)
	if grown := len(d.Log.String()) - log; grown > noisyContainers*perContainer {
		t.Errorf("the log has grown by %d bytes", grown)
	}
	if now := journalSize(d); now-file > noisyContainers*perContainer || now > 20<<20 { // 13 MB of events, and what is free
		t.Errorf("the journal has %d bytes, and %d before the flood", now, file)
	}
}

// checkFolded checks that the history has the first failures of each noisy container, and one event
// for all others, or one a minute.
func checkFolded(d *harness.Daemon, t *testing.T, answers *atomic.Int64, begun time.Time) {
	t.Helper()
	told := 0
	for i := range noisyContainers {
		single, folded := 0, 0
		for _, ev := range d.Events(noisyName(i)) {
			if len(ev.Message) > oneText {
				t.Errorf("an event has %d bytes", len(ev.Message))
			}
			switch {
			case ev.Reason != "Unhealthy": // it is about the start
			case ev.Count == 0:
				single++
			default:
				folded++
				told += ev.Count
				if ev.First.IsZero() || !ev.First.Before(ev.Time) || !strings.HasPrefix(ev.Message, "(combined") {
					t.Errorf("%d events from %v to %v are %.60q", ev.Count, ev.First, ev.Time, ev.Message)
				}
			}
		}
		told += single
		if most := 1 + int(time.Since(begun)/time.Minute); single != keptOfOne || folded < 1 || folded > most {
			t.Errorf("%s has %d events of failures, and %d that stand for others; want %d and 1 to %d", noisyName(i), single, folded, keptOfOne, most)
		}
	}
	if all := int(answers.Load()); told > all || told < all*9/10 {
		t.Errorf("the history tells of %d failures of %d", told, all)
	}
}

// checkBeside checks that the container beside still has all its events, for every client.
func checkBeside(d *harness.Daemon, t *testing.T) {
	t.Helper()
	var reasons []string
	for _, ev := range d.Events("beside-historyflood") {
		reasons = append(reasons, ev.Reason)
	}
	if got := strings.Join(reasons, " "); !strings.HasPrefix(got, "Old ") || !strings.HasSuffix(got, "Ready") {
		t.Errorf("the events beside are %q", got)
	}
	if out, code := d.Run("events", "beside-historyflood"); code != 0 || !strings.Contains(out, "before the flood") {
		t.Errorf("healthd events: exit code %d\n%s", code, out)
	}
}

// checkSlowReaders has more clients than may be served ask for the whole history, and read no more
// than the first line of what comes.
func checkSlowReaders(d *harness.Daemon, t *testing.T) {
	t.Helper()
	const most = 128 << 20 // of growth: on a busy host the collector comes later. Without a bound it is 13 MB for each.
	before, b := memoryOf(d, "VmRSS"), &brake{}
	brakeAt(d, b, before+2*most)
	for _, kind := range []struct {
		header string
		served int
	}{{"Accept: application/json", lists}, {"Accept: text/event-stream", streams}} {
		resetPeak(d)
		var clients []net.Conn
		for i := range kind.served + 1 {
			c, line := ask(d, t, "GET /v1/events?since=1h HTTP/1.1\r\nHost: healthd\r\n"+kind.header+"\r\n\r\n")
			clients = append(clients, c)
			// The last one may have the place of one that has not read for a second.
			if served := strings.Contains(line, " 200 "); !served && (i < kind.served || !strings.Contains(line, " 503 ")) {
				t.Errorf("%s: client %d gets %q", kind.header, i+1, line)
			}
			if b.pulled.Load() {
				break
			}
		}
		grewAtMost(d, t, before, most, fmt.Sprint("with ", len(clients), " readers, ", kind.header))
		for _, c := range clients {
			c.Close()
		}
	}
}

// ask sends a request and reads the first line of the answer.
func ask(d *harness.Daemon, t *testing.T, request string) (net.Conn, string) {
	t.Helper()
	c, err := net.DialTimeout("tcp", strings.TrimPrefix(d.URL, "http://"), patience.Limit)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(patience.Limit))
	_ = c.(*net.TCPConn).SetReadBuffer(4 << 10)
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReaderSize(c, 16).ReadString('\n')
	if err != nil {
		t.Fatalf("after %q: %v", line, err)
	}
	return c, strings.TrimSpace(line)
}
