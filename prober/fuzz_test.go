package prober

import (
	"context"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
)

// verdict is what a probe needs of a reply.
type verdict struct {
	status   int // noStatus: refused
	location string
	body     string
	broken   bool // the body did not come to its end
	last     bool // the server closes the connection after the reply
}

func verdictOf(resp *http.Response) verdict {
	v := verdict{status: resp.StatusCode}
	if v.status >= 200 {
		v.last = resp.Close
	}
	if v.status < 200 || v.status >= 400 {
		return v // no probe needs more
	}
	if v.status >= 300 {
		v.location = resp.Header.Get("Location")
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, MaxOutput))
	if err != nil {
		v.broken = true
		return v
	}
	v.body = string(body)
	return v
}

func verdictOfExchange(conn io.Reader) verdict {
	rep, err := newExchange().readReply(conn)
	switch {
	case rep.unusual != nil:
		return verdictOf(rep.unusual)
	case rep.status == noStatus || rep.status >= 400:
		return verdict{status: rep.status, last: rep.last}
	case err != nil:
		return verdict{status: rep.status, broken: true, last: rep.last}
	}
	return verdict{status: rep.status, body: string(rep.body), last: rep.last}
}

func verdictOfTransport(t *testing.T, conn io.Reader) verdict {
	t.Helper()
	transport := oneTransport(t.Context(), dialFromHost)
	transport.DialContext = func(context.Context, string, string) (net.Conn, error) {
		return &answer{Reader: conn, asked: make(chan struct{})}, nil
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1/", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return verdict{status: noStatus}
	}
	defer resp.Body.Close()
	return verdictOf(resp)
}

// answer is a connection to a server that sends what Reader has once it is asked.
type answer struct {
	io.Reader
	net.Conn
	asked chan struct{}
	once  sync.Once
}

func (a *answer) Read(b []byte) (int, error) {
	<-a.asked
	return a.Reader.Read(b)
}

func (a *answer) Write(b []byte) (int, error) {
	a.once.Do(func() { close(a.asked) })
	return len(b), nil
}

func (a *answer) Close() error {
	a.once.Do(func() { close(a.asked) })
	return nil
}

// pieces is a reply that comes in pieces of size bytes. The connection ends with it, or
// stalls until the deadline.
type pieces struct {
	rest   string
	size   int
	stalls bool
}

func (p *pieces) Read(b []byte) (int, error) {
	switch {
	case p.rest != "":
	case p.stalls:
		return 0, os.ErrDeadlineExceeded
	default:
		return 0, io.EOF
	}
	n := copy(b[:min(len(b), p.size)], p.rest)
	p.rest = p.rest[n:]
	return n, nil
}

// wantLikeTransport fails unless exchange takes p for what http.Transport does.
func wantLikeTransport(t *testing.T, p pieces) {
	t.Helper()
	ours, theirs := p, p
	got, want := verdictOfExchange(&ours), verdictOfTransport(t, &theirs)
	if got != want {
		t.Errorf("reply %.999q in pieces of %d, stalls: %v:\ngot  %+v\nwant %+v", p.rest, p.size, p.stalls, got, want)
	}
}

// FuzzHTTPReply compares exchange with net/http, which must accept the same replies and
// take them for the same.
func FuzzHTTPReply(f *testing.F) {
	for _, reply := range handWritten {
		f.Add(reply, 1<<20, false)
		f.Add(reply, 1, true)
	}
	f.Add("HTTP/1.1 200 OK\r\n"+strings.Repeat("A: b\r\n", maxHead/6-3)+"\r\n\r\nok", 1<<20, false)
	f.Fuzz(func(t *testing.T, reply string, size int, stalls bool) {
		wantLikeTransport(t, pieces{reply, max(1, size), stalls})
	})
}

func TestHTTPOddReplies(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	sizes := []int{1, 2, 7, 100, 4095, 4096, 1 << 20, 1 << 20, 1 << 20}
	for _, reply := range oddReplies(often(9000, 2000)) {
		wantLikeTransport(t, pieces{reply, sizes[r.IntN(len(sizes))], r.IntN(4) == 0})
	}
}
