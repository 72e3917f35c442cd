package api

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"healthd/e2e/patience"
	"healthd/supervisor/core"
)

// Clients that say nothing, or not all, make room for those who ask.
func TestCrowdOfSilentClients(t *testing.T) {
	const most, crowd = 8, 200
	for name, says := range map[string]string{
		"nothing": "", "half a request": "GET /v1/ready/web-1 HTTP/1.1\r\nHost:", "one request": "GET /v1/ready/web-1 HTTP/1.1\r\nHost: h\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			a, j, _ := newAPI(readyContainer("web-1"))
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			serveMost(t, ln, a.ReadOnly(), most)
			address := ln.Addr().String()
			stream := follow(t, "http://"+address+"/v1/events?since=1h")
			clients := make([]net.Conn, crowd)
			for i := range clients {
				if clients[i], err = net.Dial("tcp", address); err != nil {
					t.Fatal(err)
				}
				defer clients[i].Close()
				io.WriteString(clients[i], says)
				if i%20 == 0 {
					answer, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Get("http://" + address + "/v1/ready/web-1")
					if err != nil {
						t.Fatal(err)
					}
					answer.Body.Close()
				}
			}
			patience.Until(t, "most clients are sent away", func() error { // the server may not have seen the last ones yet
				open := 0
				for _, c := range clients {
					if stays(c) {
						open++
					}
				}
				if open >= most {
					return fmt.Errorf("%d are still connected", open)
				}
				return nil
			})
			j.Record(event("web-1", "Ready", time.Now()))
			if got := stream(); got == "end" {
				t.Error("the stream was ended, too")
			}
		})
	}
}

// stays says that the server has not closed the connection.
func stays(c net.Conn) bool {
	_ = c.SetReadDeadline(time.Now().Add(5 * time.Millisecond))
	_, err := io.Copy(io.Discard, bufio.NewReader(c))
	timeout, ok := err.(net.Error)
	return ok && timeout.Timeout()
}

// Readers who take their time hold up others of their kind only, and these are told.
func TestSlowReaders(t *testing.T) {
	a, j, _ := newAPI(readyContainer("web-1"))
	j.Record(event("web-1", "Ready", at(1)))
	base := serveTCP(t, a.ReadOnly())
	for range maxStreams {
		follow(t, base+"/v1/events")
	}
	answer := openStream(t, base+"/v1/events")
	if answer.StatusCode != http.StatusServiceUnavailable || answer.Header.Get("Retry-After") == "" {
		t.Errorf("one stream more: %d %v", answer.StatusCode, answer.Header)
	}
	for _, path := range []string{"/v1/events", "/v1/ready/web-1", "/v1/containers"} {
		if answer, body := ask(t, http.DefaultClient, http.MethodGet, base+path); answer.StatusCode != http.StatusOK {
			t.Errorf("%s: %d %s", path, answer.StatusCode, body)
		}
	}
}

// pipes is a listener within a bubble.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
}

func newPipes() *pipes { return &pipes{make(chan net.Conn), make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { close(p.done); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

// dial connects a client that says something, and does not read.
func (p *pipes) dial(t *testing.T, says string) net.Conn {
	t.Helper()
	client, server := net.Pipe()
	t.Cleanup(func() { client.Close() })
	p.conns <- server
	go io.WriteString(client, says)
	return client
}

// get returns the answer to a client that reads.
func (p *pipes) get(t *testing.T, path string) (status int, body string) {
	t.Helper()
	c := p.dial(t, "GET "+path+" HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
	answer, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

// Clients whose requests take long shut nobody out either, and do not end streams.
func TestCrowdOfBusyClients(t *testing.T) {
	const most, crowd = 8, 16
	for name, says := range map[string]string{
		"a body that does not come": "GET /v1/ready/web-1 HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\n",
		"lists, all at once":        "GET /v1/events HTTP/1.1\r\nHost: h\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, j, _ := newAPI(readyContainer("web-1"))
				for range 50 {
					j.Record(event("web-1", strings.Repeat("x", 300)+strconv.Itoa(rand.Int()), time.Now()))
				}
				ln := newPipes()
				serveMost(t, ln, a.ReadOnly(), most)
				stream := bufio.NewScanner(ln.dial(t, "GET /v1/events HTTP/1.1\r\nHost: h\r\nAccept: text/event-stream\r\n\r\n"))
				if !stream.Scan() {
					t.Fatal(stream.Err())
				}
				for range crowd {
					ln.dial(t, says)
				}
				synctest.Wait()
				began := time.Now()
				if status, body := ln.get(t, "/v1/ready/web-1"); status != http.StatusOK || !time.Now().Equal(began) {
					t.Errorf("an honest client is answered after %v: %d %s", time.Since(began), status, body)
				}
				j.Record(event("web-1", "Ready", time.Now()))
				for stream.Scan() && !strings.Contains(stream.Text(), `"Ready"`) {
				}
				if err := stream.Err(); err != nil || !strings.Contains(stream.Text(), `"Ready"`) {
					t.Errorf("the stream was ended, too: %v", err)
				}
			})
		})
	}
}

// Clients that ask again and again and never read take the places of long answers for a second each.
func TestClientsThatNeverRead(t *testing.T) {
	for _, path := range []string{"/v1/containers", "/v1/discovery/prometheus", "/v1/events", "/metrics"} {
		t.Run(path, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var many []*core.View
				for i := range 200 {
					many = append(many, readyContainer(fmt.Sprint("web-", i)))
				}
				a, j, _ := newAPI(many...)
				for i := range 200 {
					j.Record(event("web-1", fmt.Sprint("Reason", i), time.Now()))
				}
				a.metrics = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write(make([]byte, 100_000)) })
				ln := newPipes()
				serve(t, ln, a.ReadOnly())
				for range 32 {
					ln.dial(t, strings.Repeat("GET "+path+" HTTP/1.1\r\nHost: h\r\n\r\n", 20))
				}
				synctest.Wait()
				if status, body := ln.get(t, path); status != http.StatusOK {
					t.Errorf("%d %s", status, body)
				}
			})
		})
	}
}

// Who reads slowly, but reads, gets all of it.
func TestProgress(t *testing.T) {
	for name, tt := range map[string]struct {
		pause time.Duration
		all   bool
	}{"a chunk each 900 ms": {900 * time.Millisecond, true}, "a chunk each 1.1 s": {1100 * time.Millisecond, false}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, server := net.Pipe()
				defer client.Close()
				wrote := make(chan error, 1)
				go func() {
					defer server.Close()
					_, err := (&progressConn{Conn: server}).Write(make([]byte, 5*progressBytes))
					wrote <- err
				}()
				got := 0
				for {
					time.Sleep(tt.pause)
					n, err := io.ReadFull(client, make([]byte, progressBytes))
					if got += n; err != nil {
						break
					}
				}
				if err := <-wrote; (err == nil) != tt.all || (got == 5*progressBytes) != tt.all {
					t.Errorf("%d bytes, %v", got, err)
				}
			})
		})
	}
}
