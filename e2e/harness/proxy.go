package harness

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

// Proxy is between healthd and an engine's socket, and injects the faults that a test wants.
// It does not change what it passes on, including hijacked connections of execs. Only when its
// clock was set, it changes times.
type Proxy struct {
	t        *testing.T
	Path     string // of its own socket
	upstream *http.Transport
	forward  *httputil.ReverseProxy
	Clock    engineClock

	mu      sync.Mutex
	root    string       // the engine's directory; empty before it was needed
	server  *http.Server // nil while connections are refused
	faults  []fault
	calls   []string
	Allow   func(call string) bool     // says whether a request may pass; nil: all may
	Called  func(call string)          // called before each request is passed on
	lost    func(ev ProxiedEvent) bool // says whether a line of /events is dropped
	stalled chan struct{}              // closed when the event streams flow again; nil: they flow
}

// ProxiedEvent is a line of /events.
type ProxiedEvent struct {
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

// StartProxy starts a proxy without faults.
func StartProxy(t *testing.T, e *dockertest.Engine) *Proxy {
	t.Helper()
	dir, err := os.MkdirTemp("", "hd-px") // a socket's path has 107 bytes at most
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := strings.TrimPrefix(e.Endpoint, "unix://")
	p := &Proxy{t: t, Path: filepath.Join(dir, "d.sock")}
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
	p.Accept()
	t.Cleanup(func() {
		p.Refuse()
		p.upstream.CloseIdleConnections()
	})
	return p
}

func (p *Proxy) Endpoint() string { return "unix://" + p.Path }

// Refuse closes all connections and refuses new ones until accept.
func (p *Proxy) Refuse() {
	p.mu.Lock()
	server := p.server
	p.server = nil
	p.mu.Unlock()
	if server != nil {
		_ = server.Close()
	}
}

func (p *Proxy) Accept() {
	p.t.Helper()
	_ = os.Remove(p.Path)
	l, err := net.Listen("unix", p.Path)
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

// on makes act answer the matching requests until ClearFaults.
func (p *Proxy) On(call string, act http.HandlerFunc) { p.add(call, act, false) }

// OnceOn does so for the first matching request only.
func (p *Proxy) OnceOn(call string, act http.HandlerFunc) { p.add(call, act, true) }

func (p *Proxy) add(call string, act http.HandlerFunc, once bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = append(p.faults, fault{regexp.MustCompile(call), act, once})
}

// ClearFaults removes all faults. Requests that hang go on hanging.
func (p *Proxy) ClearFaults() {
	p.ResumeEvents()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults, p.lost = nil, nil
}

// DropEvents makes the event streams lose new events for which lost returns true. Events from
// the engine's history are not lost.
func (p *Proxy) DropEvents(lost func(ProxiedEvent) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lost = lost
}

// StallEvents stops the event streams, and new ones from their beginning, but keeps them open.
func (p *Proxy) StallEvents() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stalled == nil {
		p.stalled = make(chan struct{})
	}
}

// ResumeEvents undoes StallEvents. The held events come late.
func (p *Proxy) ResumeEvents() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stalled != nil {
		close(p.stalled)
		p.stalled = nil
	}
}

// Count returns how many matching requests came, whatever their answer.
func (p *Proxy) Count(call string) int {
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

func CallOf(r *http.Request) string {
	return r.Method + " " + apiVersion.ReplaceAllString(r.URL.Path, "")
}

func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w = &datedWriter{ResponseWriter: w, clock: &p.Clock}
	call := CallOf(r)
	if p.Allow != nil && !p.Allow(call) {
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
	p.PassOn(w, r)
}

// PassOn lets the engine answer.
func (p *Proxy) PassOn(w http.ResponseWriter, r *http.Request) {
	p.notify(r)
	p.forward.ServeHTTP(w, r)
}

// takeFault counts a call and returns its fault, if it has one. With each connection healthd asks for a container that
// cannot exist whether its calls are allowed: those are none of a test's.
func (p *Proxy) takeFault(call string) http.HandlerFunc {
	if strings.Contains(call, "/0000000000000000") {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !strings.HasPrefix(call, "GET /") { // there are many, and no test counts them
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

func (p *Proxy) notify(r *http.Request) {
	p.mu.Lock()
	called := p.Called
	p.mu.Unlock()
	if called != nil {
		called(CallOf(r))
	}
}

func (p *Proxy) waitForEventsResumed(ctx context.Context) bool {
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

func (p *Proxy) isDropped(line []byte, began time.Time) bool {
	p.mu.Lock()
	lost := p.lost
	p.mu.Unlock()
	var ev ProxiedEvent
	if lost == nil || json.Unmarshal(line, &ev) != nil {
		return false
	}
	return time.Unix(0, ev.TimeNano).After(began) && lost(ev)
}

// send sends the same request to the engine; it ends with r's context.
func (p *Proxy) send(r *http.Request) (*http.Response, error) {
	out := r.Clone(r.Context())
	out.URL.Scheme, out.URL.Host, out.RequestURI = "http", "docker", ""
	return p.upstream.RoundTrip(out)
}

func (p *Proxy) get(ctx context.Context, path string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://docker"+path, nil)
	if err != nil {
		return nil, err
	}
	return p.upstream.RoundTrip(r)
}

// Hang never answers, and does not pass the request on.
func Hang(_ http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	<-r.Context().Done()
}

// HangUntil is hang, but closes the connection at that moment.
func HangUntil(moment <-chan struct{}) http.HandlerFunc {
	return func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-moment:
		case <-r.Context().Done():
		}
		panic(http.ErrAbortHandler)
	}
}

// Respond answers with that, and does not pass the request on.
func Respond(status int, contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// Fails is the answer of a broken engine.
var Fails = Respond(http.StatusInternalServerError, "application/json", `{"message":"the engine is sick"}`)

// DropAnswer passes the request on and closes the connection instead of passing the answer back.
func (p *Proxy) DropAnswer(_ http.ResponseWriter, r *http.Request) {
	r = r.WithContext(context.WithoutCancel(r.Context()))
	p.notify(r)
	answer, err := p.send(r)
	if err == nil {
		_, err = io.Copy(io.Discard, answer.Body)
		err = errors.Join(err, answer.Body.Close())
	}
	if err != nil {
		p.t.Logf("the engine did not carry out %s: %v", CallOf(r), err)
	}
	panic(http.ErrAbortHandler)
}

// StartBehindProxy starts healthd with a proxy before its engine. It lists the containers
// every second, to find within a short test what no event reported.
func StartBehindProxy(t *testing.T, p *Proxy, specs string) *Daemon {
	t.Helper()
	d := NewBehindProxy(t, p, specs)
	d.Start()
	d.Eventually("be synced", d.Synced)
	return d
}

func NewBehindProxy(t *testing.T, p *Proxy, specs string) *Daemon {
	t.Helper()
	d := NewDaemon(t, p.Endpoint(), specs)
	d.Rewrite(func(text string) string { return strings.Replace(text, "[listen]", "relist = \"1s\"\n[listen]", 1) })
	return d
}
