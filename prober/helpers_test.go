package prober

import (
	"bytes"
	"errors"
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

	"healthd/e2e/patience"
)

// shortTimeout is for tests that wait until it is over, longTimeout for those that want an answer, however busy
// the machine is.
const (
	shortTimeout = 150 * time.Millisecond
	longTimeout  = time.Minute
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

// often returns how often a test does the same again: with -short less often than make test-engines.
func often(all, short int) int {
	if testing.Short() {
		return short
	}
	return all
}

// briefly calls try with shortTimeout, and with longer ones while it fails: a busy machine may not get as far within
// a short one as try wants to see.
func briefly(t *testing.T, try func(timeout time.Duration) error) {
	t.Helper()
	var err error
	for timeout := shortTimeout; timeout < longTimeout; timeout *= 4 {
		if err = try(timeout); err == nil {
			return
		}
	}
	t.Error(err)
}

// wantBriefly probes briefly. In output, shortTimeout stands for the timeout.
func wantBriefly(t *testing.T, h Handler, outcome Outcome, cause Cause, output string) {
	t.Helper()
	p := mustProbe(t, Config{}, h, loopback)
	briefly(t, func(timeout time.Duration) error {
		return differs(p.Ask(t.Context(), timeout), outcome, cause, withTimeout(output, timeout))
	})
}

// withTimeout returns the output that is wanted where the timeout was not shortTimeout.
func withTimeout(output string, timeout time.Duration) string {
	return strings.ReplaceAll(output, shortTimeout.String(), timeout.String())
}

// differs returns how a result differs from what is wanted: with that output in its own.
func differs(r Result, outcome Outcome, cause Cause, output string) error {
	if r.Outcome != outcome || r.Cause != cause || !strings.Contains(r.Output, output) {
		return fmt.Errorf("got %v %q %q, want %v %q, and %q in the output", r.Outcome, r.Cause, r.Output, outcome, cause, output)
	}
	if len(r.Output) > MaxOutput {
		return fmt.Errorf("output has %d bytes", len(r.Output))
	}
	return nil
}

func wantResult(t *testing.T, r Result, outcome Outcome, cause Cause) {
	t.Helper()
	if err := differs(r, outcome, cause, ""); err != nil {
		t.Error(err)
	}
}

func wantOutput(t *testing.T, r Result, part string) {
	t.Helper()
	if err := differs(r, r.Outcome, r.Cause, part); err != nil {
		t.Error(err)
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
	patience.Until(t, what, func() error {
		var b bytes.Buffer
		if err := pprof.Lookup("goroutine").WriteTo(&b, 1); err != nil {
			return err
		}
		if !is(strings.Split(b.String(), "\n\n")) {
			return errors.New(b.String())
		}
		return nil
	})
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
