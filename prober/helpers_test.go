package prober

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// shortTimeout is for tests that wait until it is over, longTimeout for the others.
const (
	shortTimeout = 150 * time.Millisecond
	longTimeout  = 10 * time.Second
)

var loopback = Target{Runtime: "fake", ID: "c1", Address: "127.0.0.1"}

// covers says which of the kubelet's own cases t checks, by their numbers.
func covers(t *testing.T, kubelet string) {
	t.Helper()
	if kubelet != "" {
		t.Attr("kubelet", kubelet)
	}
}

func mustProbe(t *testing.T, c Config, h Handler, target Target) Probe {
	t.Helper()
	p, err := New(c).Probe(h, target)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// ask probes with longTimeout.
func ask(t *testing.T, h Handler) Result {
	t.Helper()
	return mustProbe(t, Config{UserAgent: "healthd/1.0"}, h, loopback).Ask(t.Context(), longTimeout)
}

func askBriefly(t *testing.T, h Handler) Result {
	t.Helper()
	start := time.Now()
	r := mustProbe(t, Config{}, h, loopback).Ask(t.Context(), shortTimeout)
	if took := time.Since(start); took > longTimeout/2 {
		t.Errorf("Ask took %v with a timeout of %v", took, shortTimeout)
	}
	return r
}

func wantResult(t *testing.T, r Result, outcome Outcome, cause Cause) {
	t.Helper()
	if r.Outcome != outcome || r.Cause != cause {
		t.Errorf("got %v %q (%q), want %v %q", r.Outcome, r.Cause, r.Output, outcome, cause)
	}
	if len(r.Output) > MaxOutput {
		t.Errorf("output has %d bytes", len(r.Output))
	}
}

func wantOutput(t *testing.T, r Result, part string) {
	t.Helper()
	if !strings.Contains(r.Output, part) {
		t.Errorf("output is %q, want %q in it", r.Output, part)
	}
}

// webServer returns the port of an HTTP server.
func webServer(t *testing.T, h http.HandlerFunc) int {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return portOf(t, s.URL)
}

func portOf(t *testing.T, address string) int {
	t.Helper()
	if u, err := url.Parse(address); err == nil && u.Host != "" {
		address = u.Host
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// rawServer serves each connection with handle, if request is set after reading a request's
// head. quit is closed at the end of the test, and handlers must return then.
func rawServer(t *testing.T, request bool, handle func(c net.Conn, quit <-chan struct{})) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	quit := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				if request {
					readHeadOf(c)
				}
				handle(c, quit)
			})
		}
	})
	t.Cleanup(func() {
		close(quit)
		_ = l.Close()
		wg.Wait()
	})
	return portOf(t, l.Addr().String())
}

func readHeadOf(c net.Conn) string {
	var head []byte
	b := make([]byte, 1024)
	for !bytes.Contains(head, []byte("\r\n\r\n")) {
		n, err := c.Read(b)
		if err != nil {
			break
		}
		head = append(head, b[:n]...)
	}
	return string(head)
}

// serveText returns the port of a server that sends text and closes the connection.
func serveText(t *testing.T, text string) int {
	t.Helper()
	return rawServer(t, true, func(c net.Conn, _ <-chan struct{}) { _, _ = c.Write([]byte(text)) })
}

// waitForNoGoroutine waits until no goroutine has any of the functions in its stack.
func waitForNoGoroutine(t *testing.T, functions ...string) {
	t.Helper()
	waitForStacks(t, fmt.Sprintf("no goroutine is in %q", functions), func(stacks []string) bool {
		return !slices.ContainsFunc(stacks, func(stack string) bool {
			return slices.ContainsFunc(functions, func(f string) bool { return strings.Contains(stack, f) })
		})
	})
}

// waitForGoroutine waits until a goroutine has all of the functions in its stack.
func waitForGoroutine(t *testing.T, functions ...string) {
	t.Helper()
	waitForStacks(t, fmt.Sprintf("a goroutine is in %q", functions), func(stacks []string) bool {
		return slices.ContainsFunc(stacks, func(stack string) bool {
			return !slices.ContainsFunc(functions, func(f string) bool { return !strings.Contains(stack, f) })
		})
	})
}

// waitForStacks waits until is returns true for the stacks of all goroutines.
func waitForStacks(t *testing.T, what string, is func(stacks []string) bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	deadline := time.NewTimer(longTimeout)
	defer deadline.Stop()
	for {
		var b bytes.Buffer
		if err := pprof.Lookup("goroutine").WriteTo(&b, 1); err != nil {
			t.Fatal(err)
		}
		if is(strings.Split(b.String(), "\n\n")) {
			return
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("want: %s:\n%s", what, b.String())
		}
	}
}

// countTimeWaits returns a function that counts the connections made to port since
// that are in TIME_WAIT on the client's side. Servers of earlier tests may have such
// ones with clients that had the same port.
func countTimeWaits(t *testing.T, port int) func() int {
	old := timeWaits(t, port)
	return func() int {
		t.Helper()
		n := 0
		for local := range timeWaits(t, port) {
			if !old[local] {
				n++
			}
		}
		return n
	}
}

// timeWaits returns the local ends of connections to port that are in TIME_WAIT.
func timeWaits(t *testing.T, port int) map[string]bool {
	t.Helper()
	b, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		t.Fatal(err)
	}
	locals := map[string]bool{}
	suffix := ":" + strings.ToUpper(leftPad(strconv.FormatInt(int64(port), 16)))
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) > 3 && strings.HasSuffix(f[2], suffix) && f[3] == "06" {
			locals[f[1]] = true
		}
	}
	return locals
}

func leftPad(hex string) string { return strings.Repeat("0", 4-len(hex)) + hex }
