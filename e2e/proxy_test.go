package e2e

import (
	"bufio"
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

// proxy stands between healthd and an engine's socket and makes the engine look as
// sick as a test wants it. What it passes on it does not change; commands inside
// containers, whose connections are taken over, go through as well.
type proxy struct {
	t        *testing.T
	path     string // of its own socket
	upstream *http.Transport
	forward  *httputil.ReverseProxy

	mu      sync.Mutex
	server  *http.Server // nil while connections are refused
	faults  []fault
	calls   []string
	called  func(call string)          // told of each request that reaches the engine, before it does
	lost    func(ev proxiedEvent) bool // says whether a line of /events is dropped
	stalled chan struct{}              // closed when the event streams flow again; nil: they flow
}

// proxiedEvent is a line of /events.
type proxiedEvent struct {
	Action   string
	Actor    struct{ ID string }
	TimeNano int64
}

// fault is what happens to the requests whose "METHOD /path", without the version of
// the API, matches.
type fault struct {
	match *regexp.Regexp
	act   http.HandlerFunc
	once  bool // it happens to the first of them only
}

// startProxy starts a proxy that passes everything on.
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
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: "http", Host: "docker"}) },
		Transport:     p.upstream,
		FlushInterval: -1,
		ErrorHandler:  func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	p.accept()
	t.Cleanup(func() {
		p.refuse()
		p.upstream.CloseIdleConnections()
	})
	return p
}

func (p *proxy) endpoint() string { return "unix://" + p.path }

// refuse cuts all connections, and new ones are refused until accept.
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

// on makes the matching requests fail in the way given, until pass.
func (p *proxy) on(call string, act http.HandlerFunc) { p.add(call, act, false) }

// onceOn does so for the first matching request only.
func (p *proxy) onceOn(call string, act http.HandlerFunc) { p.add(call, act, true) }

func (p *proxy) add(call string, act http.HandlerFunc, once bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = append(p.faults, fault{regexp.MustCompile(call), act, once})
}

// pass makes the engine healthy again. What hangs goes on hanging.
func (p *proxy) pass() {
	p.flow()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults, p.lost = nil, nil
}

// drop makes the event streams lose the new events that lost chooses. What an engine
// tells from its memory is not lost.
func (p *proxy) drop(lost func(proxiedEvent) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lost = lost
}

// stall stops the event streams, and new ones from their beginning, but leaves them
// open.
func (p *proxy) stall() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stalled == nil {
		p.stalled = make(chan struct{})
	}
}

// flow undoes stall. What was held back comes late.
func (p *proxy) flow() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stalled != nil {
		close(p.stalled)
		p.stalled = nil
	}
}

// count returns how many requests were made that match, whatever became of them.
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
	call := callOf(r)
	if act := p.note(call); act != nil {
		act(w, r)
		return
	}
	if call == "GET /events" && !r.URL.Query().Has("until") {
		p.events(w, r)
		return
	}
	p.passOn(w, r)
}

// passOn lets the engine answer.
func (p *proxy) passOn(w http.ResponseWriter, r *http.Request) {
	p.tell(r)
	p.forward.ServeHTTP(w, r)
}

// note counts a call and returns its fault, if it has one.
func (p *proxy) note(call string) http.HandlerFunc {
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

func (p *proxy) tell(r *http.Request) {
	p.mu.Lock()
	called := p.called
	p.mu.Unlock()
	if called != nil {
		called(callOf(r))
	}
}

// events passes a stream on line by line.
func (p *proxy) events(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	answer, err := p.send(r)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer answer.Body.Close()
	w.Header().Set("Content-Type", answer.Header.Get("Content-Type"))
	w.WriteHeader(answer.StatusCode)
	flush := http.NewResponseController(w)
	_ = flush.Flush()
	for lines := bufio.NewReader(answer.Body); ; {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			panic(http.ErrAbortHandler) // as an engine that has gone
		}
		if !p.awaitFlow(r.Context()) {
			return
		}
		if p.loses(line, began) {
			continue
		}
		_, _ = w.Write(line)
		_ = flush.Flush()
	}
}

func (p *proxy) awaitFlow(ctx context.Context) bool {
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

func (p *proxy) loses(line []byte, began time.Time) bool {
	p.mu.Lock()
	lost := p.lost
	p.mu.Unlock()
	var ev proxiedEvent
	if lost == nil || json.Unmarshal(line, &ev) != nil {
		return false
	}
	return time.Unix(0, ev.TimeNano).After(began) && lost(ev)
}

// send makes the same request to the engine, and lives no longer than it.
func (p *proxy) send(r *http.Request) (*http.Response, error) {
	out := r.Clone(r.Context())
	out.URL.Scheme, out.URL.Host, out.RequestURI = "http", "docker", ""
	return p.upstream.RoundTrip(out)
}

// hang never answers, and the engine never hears of it.
func hang(_ http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	<-r.Context().Done()
}

// hangUntil is hang, but cuts the connection at that moment.
func hangUntil(moment <-chan struct{}) http.HandlerFunc {
	return func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-moment:
		case <-r.Context().Done():
		}
		panic(http.ErrAbortHandler)
	}
}

// says answers that, and the engine never hears of the request.
func says(status int, contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// fails is what a broken engine answers.
var fails = says(http.StatusInternalServerError, "application/json", `{"message":"the engine is sick"}`)

// losesAnswer lets the engine do what it is asked for and cuts the connection instead
// of passing the answer on.
func (p *proxy) losesAnswer(_ http.ResponseWriter, r *http.Request) {
	r = r.WithContext(context.WithoutCancel(r.Context()))
	p.tell(r)
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
