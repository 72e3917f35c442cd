package prober

import (
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

func TestHTTPHostileReplies(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\n"
	long := strings.Repeat("x", 5000)
	for _, tt := range []struct {
		name, reply string
		outcome     Outcome
		cause       Cause
		output      string
	}{
		{"negative status", "HTTP/1.1 -01 Bad\r\n\r\n", Failure, Protocol, "status code"},
		{"nothing", "", Failure, Reset, "connection closed before"},
		{"half a status line", "HTTP/1.1 2", Failure, Protocol, "malformed"},
		{"half a head", ok + "A: b\r\n", Failure, Reset, ""},
		{"an alert of TLS", "\x15\x03\x01\x00\x02\x02\x46", Failure, Protocol, "the server wants TLS (scheme = \"https\"?)"},
		{"an answer of TLS", "HTTP/1.1 400 Bad\r\n\r\nClient sent an HTTP request to an HTTPS server.\n", Failure, Status, "status 400, wanted 200-399; the server wants TLS (scheme = \"https\"?)"},
		{"garbage", "\x00\x01\x02\n\n", Failure, Protocol, "malformed"},
		{"long garbage", strings.Repeat(long, 20) + "\r\n\r\n", Failure, Protocol, "malformed"},
		{"another protocol", "220 smtp.example.com ESMTP\r\n", Failure, Protocol, "malformed"},
		{"another version", "HTTP/2.0 200 OK\r\n\r\nfine", Success, "", "fine"},
		{"status 000", "HTTP/1.1 000 Zero\r\n\r\nfine", Failure, Status, "status 0"},
		{"no reason", "HTTP/1.1 200\r\n\r\nfine", Success, "", "fine"},
		{"HTTP/1.0", "HTTP/1.0 200 OK\r\n\r\nfine", Success, "", "fine"},
		{"HTTP/1.0 has no chunks", "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfine", Success, "", "fine"},
		{"bare line feeds", "HTTP/1.1 200 OK\nContent-Length: 4\n\nfine", Success, "", "fine"},
		{"interim replies", strings.Repeat("HTTP/1.1 103 Early\r\nLink: x\r\n\r\n", 9) + ok + "\r\nfine", Success, "", "fine"},
		{"switching protocols", "HTTP/1.1 101 Switch\r\n\r\n", Failure, Status, "status 101"},
		{"status 999", "HTTP/1.1 999 Odd\r\n\r\n", Failure, Status, "status 999"},
		{"folded header", ok + "A: b\r\n c\r\n\r\nfine", Success, "", "fine"},
		{"folded length", ok + "Content-Length:\r\n 4\r\n\r\nfine", Success, "", "fine"},
		{"length folded into two", ok + "Content-Length: 4\r\n 2\r\n\r\nfine", Failure, Protocol, "Content-Length"},
		{"first header folded", ok + " c\r\n\r\nfine", Failure, Protocol, "initial line"},
		{"no colon", ok + "nonsense\r\n\r\n", Failure, Protocol, "missing colon"},
		{"space in a name", ok + "X Y: 1\r\n\r\nfine", Success, "", "fine"},
		{"space after a name", ok + "Server : x\r\n\r\nfine", Success, "", "fine"},
		{"bad name", ok + "a(b: c\r\n\r\n", Failure, Protocol, "header line"},
		{"control character", ok + "A: \x01\r\n\r\nfine", Failure, Protocol, "header line"},
		{"long header", ok + "A: " + long + "\r\n\r\nfine", Success, "", "fine"},
		{"long location", "HTTP/1.1 302 Found\r\nLocation: http://example.com/" + long + "\r\n\r\nfine", Success, Redirect, "fine"},
		{"long status line", "HTTP/1.1 200 " + long + "\r\n\r\nfine", Success, "", "fine"},
		{"1 MB of a status line", "HTTP/1.1 200 " + strings.Repeat(long, 200), Failure, Protocol, "262144 bytes"},
		{"1 MB of headers", ok + strings.Repeat("A: "+long+"\r\n", 200), Failure, Protocol, "262144 bytes"},
		{"1 MB of one header", ok + "A: " + strings.Repeat(long, 200), Failure, Protocol, "262144 bytes"},
		{"bad length", ok + "Content-Length: -1\r\n\r\n", Failure, Protocol, "Content-Length"},
		{"no length", ok + "Content-Length:\r\n\r\n", Failure, Protocol, "Content-Length"},
		{"huge length", ok + "Content-Length: 99999999999999999999\r\n\r\n", Failure, Protocol, "Content-Length"},
		{"two lengths", ok + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nxx", Failure, Protocol, "multiple Content-Length"},
		{"short body", ok + "Content-Length: 9\r\n\r\nfine", Failure, Reset, "connection closed before the reply was complete, after 4 of 9 bytes of the body"},
		{"short body of a failure", "HTTP/1.1 503 No\r\nContent-Length: 9\r\n\r\nfine", Failure, Status, "status 503"},
		{"chunks and trailer", ok + "Transfer-Encoding: chunked\r\n\r\n4;x=y\r\nfine\r\n0\r\nA: b\r\n\r\n", Success, "", "fine"},
		{"chunks before length", ok + "Content-Length: 1\r\nTransfer-Encoding: Chunked\r\n\r\n4\r\nfine\r\n0\r\n\r\n", Success, "", "fine"},
		{"chunk without an end", ok + "Transfer-Encoding: chunked\r\n\r\n4\r\nfi", Failure, Reset, "after 2 bytes of the body"},
		{"bad chunk size", ok + "Transfer-Encoding: chunked\r\n\r\nxyz\r\n", Failure, Protocol, ""},
		{"unknown encoding", ok + "Transfer-Encoding: gzip\r\n\r\n", Failure, Protocol, "transfer encoding"},
		{"not UTF-8", ok + "\r\nfi\xffne", Success, "", "fi\uFFFDne"},
		{"all not UTF-8", ok + "\r\n" + strings.Repeat("\xffa", MaxOutput), Success, "", "\uFFFDa"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			port := serveText(t, tt.reply)
			for _, host := range []string{"", "localhost"} {
				r := ask(t, Handler{HTTPGet: &HTTPGet{Host: host, Port: port}})
				wantResult(t, r, tt.outcome, tt.cause)
				wantOutput(t, r, tt.output)
				if tt.outcome == Failure && len(r.Output) > 200 {
					t.Errorf("output has %d bytes: %q", len(r.Output), r.Output)
				}
			}
		})
	}
}

// sendRepeatedly writes text again and again until the peer or the test ends.
func sendRepeatedly(text string, every time.Duration) func(net.Conn, <-chan struct{}) {
	return func(c net.Conn, quit <-chan struct{}) {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			if _, err := io.WriteString(c, text); err != nil {
				return
			}
			select {
			case <-tick.C:
			case <-quit:
				return
			}
		}
	}
}

func sendThen(head string, rest func(net.Conn, <-chan struct{})) func(net.Conn, <-chan struct{}) {
	return func(c net.Conn, quit <-chan struct{}) {
		if _, err := io.WriteString(c, head); err == nil {
			rest(c, quit)
		}
	}
}

func hang(_ net.Conn, quit <-chan struct{}) { <-quit }

func closeIt(net.Conn, <-chan struct{}) {}

func TestHTTPSlowReplies(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\n"
	for _, tt := range []struct {
		name    string
		serve   func(net.Conn, <-chan struct{})
		outcome Outcome
		cause   Cause
		output  string
		kubelet string
	}{
		{"no reply", hang, Failure, Timeout, "no reply within 150ms", "21"},
		{"half a status line", sendThen("HTTP/1.1 2", hang), Failure, Timeout, "no reply within 150ms", ""},
		{"head a byte at a time", sendThen(ok+"A: ", sendRepeatedly("x", time.Millisecond)), Failure, Timeout, "no reply", ""},
		{"interim replies for ever", sendRepeatedly("HTTP/1.1 100 Continue\r\n\r\n", time.Millisecond), Failure, Timeout, "no reply", ""},
		{"body that stalls", sendThen(ok+"Content-Length: 9\r\n\r\nfi", hang), Failure, Timeout, "body not complete within 150ms, after 2 of 9 bytes of the body", ""},
		{"chunk that stalls", sendThen(ok+"Transfer-Encoding: chunked\r\n\r\n9\r\nfi", hang), Failure, Timeout, "body not complete", ""},
		{"body without an end", sendThen(ok+"\r\n", sendRepeatedly(strings.Repeat("x", 4096), time.Microsecond)), Success, "", "xxx", ""},
		{"chunks without an end", sendThen(ok+"Transfer-Encoding: chunked\r\n\r\n", sendRepeatedly("4\r\nfine\r\n", time.Microsecond)), Success, "", "fine", ""},
		{"trailer without an end", sendThen(ok+"Transfer-Encoding: chunked\r\n\r\n4\r\nfine\r\n0\r\n", sendRepeatedly("A: b\r\n", time.Microsecond)), Failure, Protocol, "long trailer", ""},
		{"trailer that stalls", sendThen(ok+"Transfer-Encoding: chunked\r\n\r\n4\r\nfine\r\n0\r\n", hang), Failure, Timeout, "body not complete", ""},
		{"server that does not close", sendThen(ok+"Content-Length: 4\r\n\r\nfine", hang), Success, "", "fine", ""},
		{"failure that stalls", sendThen("HTTP/1.1 500 Bad\r\nContent-Length: 9\r\n\r\n", hang), Failure, Status, "status 500", ""},
		// The kubelet's client waits for ever here: its timeout ends with the head.
		{"another protocol begins", sendThen("HTTP/1.1 101 Switch\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n", hang), Failure, Status, "status 101", ""},
		{"reset", func(c net.Conn, _ <-chan struct{}) { _ = c.(*net.TCPConn).SetLinger(0) }, Failure, Reset, "reset", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			covers(t, tt.kubelet)
			port := rawServer(t, true, tt.serve)
			for _, host := range []string{"", "localhost"} {
				h := Handler{HTTPGet: &HTTPGet{Host: host, Port: port}}
				if tt.cause == Timeout || tt.cause == Status {
					wantBriefly(t, h, tt.outcome, tt.cause, tt.output)
					continue
				}
				r := ask(t, h)
				wantResult(t, r, tt.outcome, tt.cause)
				wantOutput(t, r, tt.output)
			}
		})
	}
	waitForNoGoroutine(t, "net/http.(*Transport)", "net/http.(*persistConn)")
}

func TestHTTPResetAfterHead(t *testing.T) {
	port := rawServer(t, true, func(c net.Conn, _ <-chan struct{}) {
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n")
		_ = c.(*net.TCPConn).SetLinger(0)
	})
	wantResult(t, ask(t, Handler{HTTPGet: &HTTPGet{Port: port}}), Failure, Reset)
}

func TestHTTPRefused(t *testing.T) {
	for _, host := range []string{"", "localhost"} {
		r := ask(t, Handler{HTTPGet: &HTTPGet{Host: host, Port: closedPort(t), Path: "/x"}})
		wantResult(t, r, Failure, Refused)
		wantOutput(t, r, "connection refused")
		wantOutput(t, r, "GET http://")
	}
}

func TestCancelEndsAsk(t *testing.T) {
	asked := make(chan struct{}, 9)
	silent := rawServer(t, false, func(_ net.Conn, quit <-chan struct{}) {
		asked <- struct{}{}
		<-quit
	})
	for name, h := range map[string]Handler{
		"http":  {HTTPGet: &HTTPGet{Port: silent}},
		"name":  {HTTPGet: &HTTPGet{Port: silent, Host: "localhost"}},
		"https": {HTTPGet: &HTTPGet{Port: silent, Scheme: "https"}},
		"grpc":  {GRPC: &GRPC{Port: silent}},
	} {
		t.Run(name, func(t *testing.T) {
			p := mustProbe(t, Config{}, h, loopback)
			ctx, cancel := context.WithCancel(t.Context())
			results := make(chan Result)
			go func() { results <- p.Ask(ctx, time.Hour) }()
			<-asked
			cancel()
			wantResult(t, <-results, Unknown, NotAsked)
			wantResult(t, p.Ask(ctx, time.Hour), Unknown, NotAsked)
		})
	}
	waitForNoGoroutine(t, "prober.cutOff", "net/http.(*Transport)", "net/http.(*persistConn)", "google.golang.org/grpc")
}
