package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"healthd/runtime/docker/dockertest"
)

// proxy is between healthd and an engine's socket, and injects the faults that a test wants.
// It does not change what it passes on, including hijacked connections of execs. Only when its
// clock was set, it changes times.
type proxy struct {
	t        *testing.T
	path     string // of its own socket
	upstream *http.Transport
	forward  *httputil.ReverseProxy
	clock    engineClock

	mu      sync.Mutex
	root    string       // the engine's directory; empty before it was needed
	server  *http.Server // nil while connections are refused
	faults  []fault
	calls   []string
	allow   func(call string) bool     // says whether a request may pass; nil: all may
	called  func(call string)          // called before each request is passed on
	lost    func(ev proxiedEvent) bool // says whether a line of /events is dropped
	stalled chan struct{}              // closed when the event streams flow again; nil: they flow
}

// proxiedEvent is a line of /events.
type proxiedEvent struct {
	Action   string
	Actor    struct{ ID string }
	TimeNano int64
}

// fault is what happens to requests whose "METHOD /path", without the API version, matches.
type fault struct {
	match *regexp.Regexp
	act   http.HandlerFunc
	once  bool // it happens to the first of them only
}

// startProxy starts a proxy without faults.
func startProxy(t *testing.T, e *dockertest.Engine) *proxy {
	t.Helper()
	dir, err := os.MkdirTemp("", "hd-px") // a socket's path has 107 bytes at most
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := strings.TrimPrefix(e.Endpoint, "unix://")
	p := &proxy{t: t, path: filepath.Join(dir, "d.sock")}
	p.upstream = &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
		// The engine's restarts are not to be seen through connections kept from before.
		DisableKeepAlives: true,
	}
	p.forward = &httputil.ReverseProxy{
		Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: "http", Host: "docker"}) },
		Transport:      p.upstream,
		FlushInterval:  -1,
		ModifyResponse: p.shiftAnswer,
		ErrorHandler:   func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	p.accept()
	t.Cleanup(func() {
		p.refuse()
		p.upstream.CloseIdleConnections()
	})
	return p
}

func (p *proxy) endpoint() string { return "unix://" + p.path }

// refuse closes all connections and refuses new ones until accept.
func (p *proxy) refuse() {
	p.mu.Lock()
	server := p.server
	p.server = nil
	p.mu.Unlock()
	if server != nil {
		_ = server.Close()
	}
}

func (p *proxy) accept() {
	p.t.Helper()
	_ = os.Remove(p.path)
	l, err := net.Listen("unix", p.path)
	if err != nil {
		p.t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false) // refused, not absent
	server := &http.Server{Handler: p, ReadHeaderTimeout: time.Minute}
	p.mu.Lock()
	p.server = server
	p.mu.Unlock()
	go func() { _ = server.Serve(l) }()
}

// on makes act answer the matching requests until clearFaults.
func (p *proxy) on(call string, act http.HandlerFunc) { p.add(call, act, false) }

// onceOn does so for the first matching request only.
func (p *proxy) onceOn(call string, act http.HandlerFunc) { p.add(call, act, true) }

func (p *proxy) add(call string, act http.HandlerFunc, once bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = append(p.faults, fault{regexp.MustCompile(call), act, once})
}

// clearFaults removes all faults. Requests that hang go on hanging.
func (p *proxy) clearFaults() {
	p.resumeEvents()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults, p.lost = nil, nil
}

// dropEvents makes the event streams lose new events for which lost returns true. Events from
// the engine's history are not lost.
func (p *proxy) dropEvents(lost func(proxiedEvent) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lost = lost
}

// stallEvents stops the event streams, and new ones from their beginning, but keeps them open.
func (p *proxy) stallEvents() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stalled == nil {
		p.stalled = make(chan struct{})
	}
}

// resumeEvents undoes stallEvents. The held events come late.
func (p *proxy) resumeEvents() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stalled != nil {
		close(p.stalled)
		p.stalled = nil
	}
}

// count returns how many matching requests came, whatever their answer.
func (p *proxy) count(call string) int {
	match, n := regexp.MustCompile(call), 0
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.calls {
		if match.MatchString(c) {
			n++
		}
	}
	return n
}

var apiVersion = regexp.MustCompile(`^/v[0-9.]+`)

func callOf(r *http.Request) string {
	return r.Method + " " + apiVersion.ReplaceAllString(r.URL.Path, "")
}

func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w = &datedWriter{ResponseWriter: w, clock: &p.clock}
	call := callOf(r)
	if p.allow != nil && !p.allow(call) {
		http.Error(w, `{"message":"forbidden"}`, http.StatusForbidden)
		return
	}
	if act := p.takeFault(call); act != nil {
		act(w, r)
		return
	}
	if call == "GET /events" {
		p.events(w, r)
		return
	}
	p.passOn(w, r)
}

// passOn lets the engine answer.
func (p *proxy) passOn(w http.ResponseWriter, r *http.Request) {
	p.notify(r)
	p.forward.ServeHTTP(w, r)
}

// takeFault counts a call and returns its fault, if it has one.
func (p *proxy) takeFault(call string) http.HandlerFunc {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !strings.HasPrefix(call, "GET /") { // there are many, and nobody counts them
		p.calls = append(p.calls, call)
	}
	for i, f := range p.faults {
		if !f.match.MatchString(call) {
			continue
		}
		if f.once {
			p.faults = append(p.faults[:i:i], p.faults[i+1:]...)
		}
		return f.act
	}
	return nil
}

func (p *proxy) notify(r *http.Request) {
	p.mu.Lock()
	called := p.called
	p.mu.Unlock()
	if called != nil {
		called(callOf(r))
	}
}

func (p *proxy) waitForEventsResumed(ctx context.Context) bool {
	p.mu.Lock()
	stalled := p.stalled
	p.mu.Unlock()
	if stalled == nil {
		return true
	}
	select {
	case <-stalled:
		return true
	case <-ctx.Done():
		return false
	}
}

func (p *proxy) isDropped(line []byte, began time.Time) bool {
	p.mu.Lock()
	lost := p.lost
	p.mu.Unlock()
	var ev proxiedEvent
	if lost == nil || json.Unmarshal(line, &ev) != nil {
		return false
	}
	return time.Unix(0, ev.TimeNano).After(began) && lost(ev)
}

// send sends the same request to the engine; it ends with r's context.
func (p *proxy) send(r *http.Request) (*http.Response, error) {
	out := r.Clone(r.Context())
	out.URL.Scheme, out.URL.Host, out.RequestURI = "http", "docker", ""
	return p.upstream.RoundTrip(out)
}

func (p *proxy) get(ctx context.Context, path string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://docker"+path, nil)
	if err != nil {
		return nil, err
	}
	return p.upstream.RoundTrip(r)
}

// hang never answers, and does not pass the request on.
func hang(_ http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	<-r.Context().Done()
}

// hangUntil is hang, but closes the connection at that moment.
func hangUntil(moment <-chan struct{}) http.HandlerFunc {
	return func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-moment:
		case <-r.Context().Done():
		}
		panic(http.ErrAbortHandler)
	}
}

// respond answers with that, and does not pass the request on.
func respond(status int, contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// fails is the answer of a broken engine.
var fails = respond(http.StatusInternalServerError, "application/json", `{"message":"the engine is sick"}`)

// dropAnswer passes the request on and closes the connection instead of passing the answer back.
func (p *proxy) dropAnswer(_ http.ResponseWriter, r *http.Request) {
	r = r.WithContext(context.WithoutCancel(r.Context()))
	p.notify(r)
	answer, err := p.send(r)
	if err == nil {
		_, err = io.Copy(io.Discard, answer.Body)
		err = errors.Join(err, answer.Body.Close())
	}
	if err != nil {
		p.t.Logf("the engine did not carry out %s: %v", callOf(r), err)
	}
	panic(http.ErrAbortHandler)
}
