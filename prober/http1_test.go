package prober

import (
	"strings"
	"testing"
)

// TestUsualHead has heads for which net/http is not needed: it would cost the most of a
// probe's allocations.
func TestUsualHead(t *testing.T) {
	const date = "Date: Tue, 02 Jan 2024 03:04:05 GMT"
	for name, lines := range map[string][]string{
		"Go": {
			"HTTP/1.1 200 OK", date, "Content-Length: 2", "Content-Type: text/plain; charset=utf-8",
			"Connection: close",
		},
		"nginx": {
			"HTTP/1.1 200 OK", "Server: nginx/1.27.0", date, "Content-Type: text/html",
			"Content-Length: 2", "Last-Modified: Tue, 02 Jan 2024 03:04:05 GMT", "Connection: close",
			`ETag: "659374e5-2"`, "Accept-Ranges: bytes",
		},
		"Python": {
			"HTTP/1.0 200 OK", "Server: SimpleHTTP/0.6 Python/3.12.0", date,
			"Content-type: text/html", "Content-Length: 2",
		},
		"without a reason":  {"HTTP/1.1 200", "content-length:2"},
		"in another script": {"HTTP/1.1 200 Ça va", "X-A: \xe4\tb", "CONTENT-LENGTH: \t2 "},
		"not ready":         {"HTTP/1.1 503 Service Unavailable", "Content-Length: 2"},
		"not found":         {"HTTP/1.1 404 Not Found", "Content-Length: 2"},
	} {
		t.Run(name, func(t *testing.T) {
			head := strings.Join(lines, "\r\n") + "\r\n\r\n"
			reply := []byte(head + "ok")
			h, ok := parseUsualHead(reply)
			if !ok || h.size != len(head) || h.length != 2 {
				t.Errorf("got %+v, %v", h, ok)
			}
			if n := testing.AllocsPerRun(10, func() { parseUsualHead(reply) }); n > 0 {
				t.Errorf("%v allocations", n)
			}
		})
	}
}
