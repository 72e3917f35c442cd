package api

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"healthd/prober"
	"healthd/supervisor"
	"healthd/supervisor/core"
)

// serveControl serves a's control socket and returns a client for it.
func serveControl(t *testing.T, a *API) *http.Client {
	t.Helper()
	path := filepath.Join(t.TempDir(), "made", "control.sock")
	ln, err := ListenControl(path)
	if err != nil {
		t.Fatal(err)
	}
	serve(t, ln, a.Control())
	return &http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		return net.Dial("unix", path)
	}}}
}

func TestControlRoutes(t *testing.T) {
	a, _, c := newAPI(readyContainer("web-1"), invalidContainer("wrong"))
	var restarted, asked string
	c.restart = func(name string) error { restarted = name; return nil }
	c.ask = func(name string, p core.ProbeType) (prober.Result, error) {
		asked = name + " " + p.String()
		return prober.Result{Outcome: prober.Failure, Cause: prober.Refused, Output: "refused", Latency: time.Millisecond}, nil
	}
	client := serveControl(t, a)
	for _, tt := range []struct {
		method, path string
		status       int
		body         string // part of it
	}{
		{"POST", "/v1/containers/web-1/restart", 202, `"name":"web-1"`},
		{"GET", "/v1/containers/web-1/restart", 405, `"error":"method not allowed: use POST`},
		{"POST", "/v1/containers/nope/restart", 404, `no supervised container has that name or ID: \"nope\"`},
		{"POST", "/v1/containers/web-1/probe", 200, `{"type":"liveness","outcome":"Failure","cause":"refused","warning":false,"output":"refused","latencySeconds":0.001}`},
		{"POST", "/v1/containers/web-1/probe?type=liveness", 200, `"outcome":"Failure"`},
		{"POST", "/v1/containers/web-1/probe?type=startup", 404, "no such probe: startup"},
		{"POST", "/v1/containers/web-1/probe?type=x", 400, `it is \"x\"`},
		{"POST", "/v1/containers/wrong/probe", 404, "no such probe: its labels are wrong: "},
		{"POST", "/v1/containers", 405, "error"},
		{"POST", "/v1/containers/web-1", 405, "error"},
		{"POST", "/v1/containers/web-1/nope", 404, "no such path"},
		{"POST", "/v1/containers/web-1/restart/now", 404, "no such path"},
		{"POST", "/nope", 404, "no such path"},
		{"GET", "/v1/containers/web-1", 200, `"name":"web-1"`},
		{"GET", "/v1/ready/web-1", 200, "ready\n"},
		{"GET", "/v1/containers/nope/explain", 404, "error"},
	} {
		answer, body := ask(t, client, tt.method, "http://healthd"+tt.path)
		if answer.StatusCode != tt.status || !strings.Contains(body, tt.body) {
			t.Errorf("%s %s: %d %s, want %d %s", tt.method, tt.path, answer.StatusCode, body, tt.status, tt.body)
		}
	}
	id := readyContainer("web-1").Container.ID
	if restarted != id || asked != id+" liveness" {
		t.Errorf("restarted %q, asked %q", restarted, asked)
	}
}

func TestControlErrors(t *testing.T) {
	a, _, c := newAPI(readyContainer("web-1"))
	client := serveControl(t, a)
	for _, tt := range []struct {
		err  error
		want int
	}{
		{supervisor.ErrUnknownContainer, 404},
		{supervisor.ErrStopping, 503},
		{fmt.Errorf("%w: it is paused", supervisor.ErrNotRunning), 409},
		{context.DeadlineExceeded, 504},
		{errors.New("something else"), 409},
	} {
		c.restart = func(string) error { return tt.err }
		answer, body := ask(t, client, http.MethodPost, "http://healthd/v1/containers/web-1/restart")
		if answer.StatusCode != tt.want || !strings.HasPrefix(body, `{"error":"`) {
			t.Errorf("%v: %d %s, want %d", tt.err, answer.StatusCode, body, tt.want)
		}
	}
}

func TestExplain(t *testing.T) {
	v := unreadyContainer("web-1")
	v.Container.RestartPolicy = "always"
	a, j, _ := newAPI(v)
	for n := range 12 {
		j.Record(event("web-1", fmt.Sprint("R", n), at(n)))
	}
	_, body := ask(t, serveControl(t, a), http.MethodGet, "http://healthd/v1/containers/web-1/explain")
	golden(t, "explain.json", indented(t, []byte(body)))
}

func TestControlSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run", "control.sock")
	ln, err := ListenControl(path)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Mode().Perm(); got != 0o660 {
		t.Errorf("mode %o, want 660", got)
	}
	if _, err := ListenControl(path); err == nil || !strings.Contains(err.Error(), "another healthd answers on "+path) {
		t.Errorf("second listener: %v", err)
	}
	ln.(*net.UnixListener).SetUnlinkOnClose(false) // as if killed
	ln.Close()
	again, err := ListenControl(path)
	if err != nil {
		t.Fatalf("over a stale socket: %v", err)
	}
	again.Close()
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket was left behind: %v", err)
	}
}

func TestControlSocketOverAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "control.sock")
	if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ListenControl(path); err == nil || !strings.Contains(err.Error(), "is not a socket") {
		t.Errorf("got %v", err)
	}
	if data, err := os.ReadFile(path); err != nil || string(data) != "precious" {
		t.Errorf("the file is %q, %v", data, err)
	}
}
