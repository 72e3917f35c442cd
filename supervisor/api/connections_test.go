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
	"time"

	"healthd/e2e/patience"
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

// Clients whose requests take long shut nobody out either, and do not end streams.
func TestCrowdOfBusyClients(t *testing.T) {
	const most, crowd = 8, 16
	for name, says := range map[string]string{
		"a body that does not come": "GET /v1/ready/web-1 HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\n",
		"lists, all at once":        "GET /v1/events HTTP/1.1\r\nHost: h\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			a, j, _ := newAPI(readyContainer("web-1"))
			for range 5_000 {
				j.Record(event("web-1", strings.Repeat("x", 300)+strconv.Itoa(rand.Int()), time.Now()))
			}
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			serveMost(t, ln, a.ReadOnly(), most)
			address := ln.Addr().String()
			stream := follow(t, "http://"+address+"/v1/events")
			var last net.Conn
			for range crowd {
				c, err := net.Dial("tcp", address)
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				io.WriteString(c, says)
				last = c
			}
			time.Sleep(100 * time.Millisecond)
			answer, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Get("http://" + address + "/v1/ready/web-1")
			if err != nil {
				t.Fatal(err)
			}
			answer.Body.Close()
			if !stays(last) { // it keeps its place for long: the honest one was not to wait for that
				t.Error("an honest client waited for all others")
			}
			j.Record(event("web-1", "Ready", time.Now()))
			if got := stream(); got == "end" {
				t.Error("the stream was ended, too")
			}
		})
	}
}
