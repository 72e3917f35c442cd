package prober

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
)

// shortReader reads n bytes at a time, so that reads end at every possible place.
type shortReader struct {
	r io.Reader
	n int
}

func (t shortReader) Read(b []byte) (int, error) { return t.r.Read(b[:min(len(b), t.n)]) }

// FuzzHTTPReply compares the reader with the one of net/http, where that accepts
// the reply as well.
func FuzzHTTPReply(f *testing.F) {
	for _, s := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nA: b\r\n\r\n",
		"HTTP/1.0 200\n\nok",
		"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n",
		"HTTP/1.1 302 Found\r\nLocation: /a\r\nLocation: /b\r\n\r\n",
		"HTTP/1.1 301 Moved\r\nLocation:\r\nLocation: /b\r\n\r\n",
		"HTTP/1.1 200 OK\r\nA: b\r\n\tc\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nok",
		"HTTP/1.1 200 OK\r\nA: " + strings.Repeat("x", headBuffer) + "\r\n\r\nok",
		"HTTP/1.1 200 OK\r\n\r\n" + strings.Repeat("x", MaxOutput+1),
	} {
		f.Add([]byte(s), 1)
		f.Add([]byte(s), 1<<20)
	}
	f.Fuzz(func(t *testing.T, data []byte, size int) {
		in := shortReader{bytes.NewReader(data), max(1, size)}
		got, err := readReply(bufio.NewReaderSize(in, headBuffer), nil)
		if len(got.body) > MaxOutput || len(got.location) > headBuffer {
			t.Fatalf("%d bytes of body, %d of location", len(got.body), len(got.location))
		}
		if got.status != 0 && (got.status < 101 || got.status > 999) {
			t.Fatalf("status %d", got.status)
		}
		if err == nil {
			compare(t, data, got)
		}
	})
}

func compare(t *testing.T, data []byte, got reply) {
	t.Helper()
	br := bufio.NewReader(bytes.NewReader(data))
	resp, err := http.ReadResponse(br, nil)
	for err == nil && resp.StatusCode < 200 && resp.StatusCode != 101 {
		resp, err = http.ReadResponse(br, nil)
	}
	if err != nil {
		return
	}
	if got.status != resp.StatusCode {
		t.Errorf("status is %d, want %d", got.status, resp.StatusCode)
	}
	if want := resp.Header.Get("Location"); isRedirect(got.status) && got.location != want {
		t.Errorf("location is %q, want %q", got.location, want)
	}
	if got.status == 101 {
		return // what follows is another protocol
	}
	want, err := io.ReadAll(io.LimitReader(resp.Body, MaxOutput))
	if err == nil && !bytes.Equal(got.body, want) {
		t.Errorf("body is %q, want %q", got.body, want)
	}
}
