package prober

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

// askLikeKubelet asks as pkg/probe/http of Kubernetes v1.36 does. Unknown is a result that
// the kubelet drops.
func askLikeKubelet(t *testing.T, address string, timeout time.Duration) (o Outcome, output string) {
	t.Helper()
	client := &http.Client{
		Timeout: timeout,
		Transport: &http.Transport{
			TLSClientConfig:    &tls.Config{InsecureSkipVerify: true},
			DisableKeepAlives:  true,
			DisableCompression: true,
		},
		CheckRedirect: func(req *http.Request, via []*http.Request) error {
			if req.URL.Hostname() != via[0].URL.Hostname() {
				return http.ErrUseLastResponse
			}
			if len(via) >= 10 {
				return errors.New("stopped after 10 redirects")
			}
			return nil
		},
	}
	resp, err := client.Get(address)
	if err != nil {
		return Failure, ""
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, MaxOutput))
	switch {
	case err != nil:
		return Unknown, ""
	case resp.StatusCode < 200 || resp.StatusCode >= 400:
		return Failure, fmt.Sprintf("HTTP probe failed with statuscode: %d", resp.StatusCode)
	case resp.StatusCode >= 300:
		return Success, clean("Probe terminated redirects, Response body: " + string(body))
	}
	return Success, clean(string(body))
}

// numbered returns a listener's handler that replies to a request for /N with replies[N].
func numbered(replies []string) func(net.Conn, <-chan struct{}) {
	return func(c net.Conn, _ <-chan struct{}) {
		path, _, _ := strings.Cut(strings.TrimPrefix(readHeadOf(c), "GET /"), " ")
		if n, err := strconv.Atoi(path); err == nil && n < len(replies) {
			_, _ = io.WriteString(c, replies[n])
		}
	}
}

// overTLS makes handle talk through TLS.
func overTLS(t *testing.T, handle func(net.Conn, <-chan struct{})) func(net.Conn, <-chan struct{}) {
	t.Helper()
	s := httptest.NewTLSServer(http.NotFoundHandler())
	s.Close()
	config := &tls.Config{Certificates: s.TLS.Certificates}
	return func(c net.Conn, quit <-chan struct{}) {
		secure := tls.Server(c, config)
		handle(secure, quit)
		_ = secure.Close()
	}
}

func TestHTTPLikeTheKubelet(t *testing.T) {
	replies := oddReplies(often(700, 150))
	plain := rawServer(t, false, numbered(replies))
	secure := rawServer(t, false, overTLS(t, numbered(replies)))
	for _, tt := range []struct {
		scheme, host string
		port         int
		replies      []string
	}{
		{"http", "127.0.0.1", plain, replies},
		{"http", "localhost", plain, replies},
		{"https", "127.0.0.1", secure, handWritten}, // handshakes take long
	} {
		for n, reply := range tt.replies {
			h := &HTTPGet{Scheme: tt.scheme, Host: tt.host, Port: tt.port, Path: "/" + strconv.Itoa(n)}
			r := ask(t, Handler{HTTPGet: h})
			want, output := askLikeKubelet(t, fmt.Sprintf("%s://%s:%d/%d", tt.scheme, tt.host, tt.port, n), longTimeout)
			if want == Unknown {
				want = Failure // as TestHTTPDiffersFromTheKubelet says
			}
			if code, ok := strings.CutPrefix(output, "HTTP probe failed with statuscode: "); ok { // healthd says of what
				output = fmt.Sprintf("GET %s://%s:%d/%d: status %s, wanted 200-399", tt.scheme, tt.host, tt.port, n, code)
			}
			if r.Outcome != want || output != "" && r.Output != output {
				t.Errorf("%s to %s: reply %.999q:\ngot  %v %.99q\nwant %v %.99q",
					tt.scheme, tt.host, reply, r.Outcome, r.Output, want, output)
			}
		}
	}
}

// TestHTTPDiffersFromTheKubelet has all replies that healthd means to judge in another way.
func TestHTTPDiffersFromTheKubelet(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\n"
	long := strings.Repeat("x", maxHead)
	for _, tt := range []struct {
		name, why string
		serve     func(net.Conn, <-chan struct{})
		kubelet   Outcome
		outcome   Outcome
		cause     Cause
	}{
		{
			"a long status line", "a container must not cost healthd memory: net/http takes 10 MiB",
			sendThen("HTTP/1.1 200 "+long+"\r\n\r\n", closeIt), Success, Failure, Protocol,
		},
		{
			"a long header", "likewise",
			sendThen(ok+"A: "+long+"\r\n\r\n", closeIt), Success, Failure, Protocol,
		},
		{
			"many headers", "likewise",
			sendThen(ok+strings.Repeat("A: b\r\n", maxHead/6)+"\r\n", closeIt), Success, Failure, Protocol,
		},
		{
			"many interim replies", "likewise",
			sendThen(strings.Repeat("HTTP/1.1 103 Early\r\n\r\n", maxHead/22)+ok+"\r\n", closeIt), Success, Failure, Protocol,
		},
		{
			"a body that ends too early", "a real client would fail too: the kubelet drops the result",
			sendThen(ok+"Content-Length: 9\r\n\r\nfine", closeIt), Unknown, Failure, Reset,
		},
		{
			"a body that stalls", "likewise",
			sendThen(ok+"Content-Length: 9\r\n\r\nfine", hang), Unknown, Failure, Timeout,
		},
		{
			"malformed chunks", "likewise",
			sendThen(ok+"Transfer-Encoding: chunked\r\n\r\nx\r\n", closeIt), Unknown, Failure, Protocol,
		},
		{
			"a bad status with a body that stalls", "the status tells enough",
			sendThen("HTTP/1.1 503 No\r\nContent-Length: 9\r\n\r\nfine", hang), Unknown, Failure, Status,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			plain, secure := rawServer(t, true, tt.serve), rawServer(t, false, overTLS(t, afterRequest(tt.serve)))
			for _, h := range []*HTTPGet{
				{Host: "127.0.0.1", Port: plain},
				{Host: "localhost", Port: plain},
				{Host: "127.0.0.1", Port: secure, Scheme: "https"},
			} {
				p := mustProbe(t, Config{}, Handler{HTTPGet: h}, loopback)
				url := fmt.Sprintf("%s://%s:%d/", cmp.Or(h.Scheme, "http"), h.Host, h.Port)
				compare := func(timeout time.Duration) error {
					if err := differs(p.Ask(t.Context(), timeout), tt.outcome, tt.cause, ""); err != nil {
						return err
					}
					if got, output := askLikeKubelet(t, url, timeout); got != tt.kubelet {
						return fmt.Errorf("the kubelet gets %v %.99q, want %v: this is no difference (%s)", got, output, tt.kubelet, tt.why)
					}
					return nil
				}
				if tt.cause == Timeout || tt.cause == Status {
					briefly(t, compare)
				} else if err := compare(longTimeout); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func afterRequest(serve func(net.Conn, <-chan struct{})) func(net.Conn, <-chan struct{}) {
	return func(c net.Conn, quit <-chan struct{}) {
		readHeadOf(c)
		serve(c, quit)
	}
}

// TestHTTPReplyBeforeRequest has the one reply for which net/http has no rule: it takes it,
// or not, by what its goroutines do first.
func TestHTTPReplyBeforeRequest(t *testing.T) {
	port := rawServer(t, false, sendThen("HTTP/1.1 200 OK\r\n\r\nfine", afterRequest(closeIt)))
	for range 20 {
		wantResult(t, ask(t, Handler{HTTPGet: &HTTPGet{Port: port}}), Success, "")
	}
}

// TestHTTPHeadMemory reads the head that costs net/http the most: short headers that all
// have different names.
func TestHTTPHeadMemory(t *testing.T) {
	var head strings.Builder
	head.WriteString("HTTP/1.1 200 OK\n")
	for n := 0; head.Len() < maxHead-16; n++ {
		fmt.Fprintf(&head, "%s:\n", strconv.FormatInt(int64(n), 36))
	}
	head.WriteString("\n")
	conn := io.MultiReader(strings.NewReader(head.String()), strings.NewReader("body"))
	x := newExchange()
	before := memory()
	rep, err := x.readReply(conn)
	after := memory()
	if err != nil || rep.unusual == nil {
		t.Fatalf("got %+v, %v", rep, err)
	}
	if n := (after.TotalAlloc - before.TotalAlloc) >> 20; n > 12 {
		t.Errorf("the head of %d bytes took %d MiB", head.Len(), n)
	}
	// The body may take long to come.
	if n := (int64(after.HeapAlloc) - int64(before.HeapAlloc)) >> 10; n > 512 {
		t.Errorf("%d KiB of the head are kept", n)
	}
	runtime.KeepAlive(rep)
}

func memory() (m runtime.MemStats) {
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m
}
