package prober

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

const replyOK = headOK + "Content-Length: 2\r\n\r\nok"

// talkServer is a server that counts its connections, and the requests of all of them.
type talkServer struct {
	port            int
	conns, requests atomic.Int32
	last            atomic.Value // head of the newest request
	differs         *error       // where want notes what differs; nil: it fails the test
}

// way is one of the ways to ask.
type way struct {
	name string
	get  HTTPGet
	tls  *tls.Config // of the server; nil: it speaks plain HTTP
	// differs is that of its servers.
	differs *error
}

// host is the one that is asked.
func (w way) host() string { return cmp.Or(w.get.Host, loopback.Address) }

// eachWay runs a test with each way in which a connection is kept.
func eachWay(t *testing.T, test func(t *testing.T, w way)) {
	secure := newAuthority(t, "a").server("api", time.Now().Add(time.Hour))
	for _, w := range []way{
		{name: "address"},
		{name: "name", get: HTTPGet{Host: "localhost"}},
		{name: "HTTPS", get: HTTPGet{Scheme: "https"}, tls: secure},
		{name: "header", get: HTTPGet{Expect: &Expect{WarningHeader: "X-Degraded"}}},
	} {
		t.Run(w.name, func(t *testing.T) {
			whileKept(t, func() (differs error) {
				w.differs = &differs
				test(t, w)
				return differs
			})
		})
	}
}

// whileKept calls try, and again where it fails: net/http gives a connection up when its goroutine that writes has not
// run for 50 ms, as on a busy machine.
func whileKept(t *testing.T, try func() error) {
	t.Helper()
	var err error
	for range 5 {
		if err = try(); err == nil {
			return
		}
	}
	t.Error(err)
}

// start starts a server that gives each request what answer returns, by the numbers of its connection and
// of the request there, both from 1. After an empty answer it closes the connection.
func (w way) start(t *testing.T, answer func(conn, request int) string) *talkServer {
	t.Helper()
	s := &talkServer{differs: w.differs}
	s.port = rawServer(t, false, func(c net.Conn, quit <-chan struct{}) {
		conn := int(s.conns.Add(1))
		done := make(chan struct{})
		defer close(done)
		c = w.server(c)
		defer c.Close()
		go func() {
			select {
			case <-quit:
				_ = c.Close()
			case <-done:
			}
		}()
		for request := 1; ; request++ {
			head := readHeadOf(c)
			if !strings.Contains(head, "\r\n\r\n") {
				return
			}
			s.requests.Add(1)
			s.last.Store(head)
			reply := answer(conn, request)
			if _, err := io.WriteString(c, reply); err != nil || reply == "" {
				return
			}
		}
	})
	return s
}

// server is the server's end of a connection.
func (w way) server(c net.Conn) net.Conn {
	if w.tls == nil {
		return c
	}
	return tls.Server(c, w.tls)
}

func (s *talkServer) counts() (conns, requests int) {
	return int(s.conns.Load()), int(s.requests.Load())
}

func (s *talkServer) want(t *testing.T, conns, requests int) {
	t.Helper()
	switch err := counted(s.counts).differs(conns, requests); {
	case err == nil:
	case s.differs != nil:
		*s.differs = err
	default:
		t.Error(err)
	}
}

// counted returns how many connections, and requests on all of them, a server has seen.
type counted func() (conns, requests int)

func (c counted) differs(conns, requests int) error {
	if gotConns, gotRequests := c(); gotConns != conns || gotRequests != requests {
		return fmt.Errorf("the server saw %d connections and %d requests, want %d and %d", gotConns, gotRequests, conns, requests)
	}
	return nil
}

// wantNewConnection wants the second probe on a kept connection to fail for that cause, and the next ones to succeed on
// another connection. start returns a probe, and what the server of its own has seen.
func wantNewConnection(t *testing.T, cause Cause, start func() (Probe, counted)) {
	t.Helper()
	try := func(timeout time.Duration) error {
		p, seen := start()
		wantSuccess(t, p)
		if err := differs(p.Ask(t.Context(), timeout), Failure, cause, ""); err != nil {
			return err
		}
		wantSuccess(t, p)
		wantSuccess(t, p)
		return seen.differs(2, 4)
	}
	if cause == Timeout {
		briefly(t, try)
	} else {
		whileKept(t, func() error { return try(longTimeout) })
	}
}

// probe is a probe that keeps its connection. It is closed when the test ends.
func (w way) probe(t *testing.T, port int) Probe {
	t.Helper()
	get := w.get
	get.Port, get.KeepAlive = port, true
	p := mustProbe(t, Config{UserAgent: "healthd/1.0"}, Handler{HTTPGet: &get}, loopback)
	t.Cleanup(p.Close)
	return p
}

func wantSuccess(t *testing.T, p Probe) {
	t.Helper()
	wantResult(t, p.Ask(t.Context(), longTimeout), Success, "")
}

// discardLog silences what net/http says of replies that nobody asked for.
func discardLog(t *testing.T) {
	t.Helper()
	to := log.Writer()
	log.SetOutput(io.Discard)
	t.Cleanup(func() { log.SetOutput(to) })
}
