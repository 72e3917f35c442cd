package prober

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

// callServer is a server of gRPC that counts its connections, and the calls of all of them.
type callServer struct {
	port         int
	conns, calls atomic.Int32
}

// startCalls starts a server that answers each call with answer, which gets the numbers of its connection and of the call
// there, both from 1. If that returns false the connection ends.
func startCalls(t *testing.T, answer func(c *h2Conn, conn, call int) bool) *callServer {
	t.Helper()
	s := &callServer{}
	s.port = rawServer(t, false, func(c net.Conn, _ <-chan struct{}) {
		conn := int(s.conns.Add(1))
		h := newH2Conn(c)
		if _, err := io.ReadFull(c, make([]byte, len(http2.ClientPreface))); err != nil {
			return
		}
		_ = h.WriteSettings()
		for call := 1; h.nextCall(); call++ {
			s.calls.Add(1)
			if !answer(h, conn, call) {
				return
			}
		}
	})
	return s
}

// nextCall waits for a call, and returns false when the client has closed.
func (c *h2Conn) nextCall() bool {
	called := false
	c.await(func(f http2.Frame) bool {
		if d, ok := f.(*http2.DataFrame); ok && d.StreamEnded() {
			called, c.stream = true, d.StreamID
		}
		return called
	})
	return called
}

func (s *callServer) counts() (conns, calls int) { return int(s.conns.Load()), int(s.calls.Load()) }

func (s *callServer) want(t *testing.T, conns, calls int) {
	t.Helper()
	if err := counted(s.counts).differs(conns, calls); err != nil {
		t.Error(err)
	}
}

// always is an answer that does the same for each call.
func always(script func(*h2Conn)) func(*h2Conn, int, int) bool {
	return func(c *h2Conn, _, _ int) bool {
		script(c)
		return true
	}
}

// keptCalls is a probe that keeps its connection. It is closed when the test ends.
func keptCalls(t *testing.T, g GRPC) Probe {
	t.Helper()
	g.KeepAlive = true
	p := mustProbe(t, Config{UserAgent: "healthd/1.0"}, Handler{GRPC: &g}, loopback)
	t.Cleanup(p.Close)
	return p
}

func TestGRPCKept(t *testing.T) {
	var streams []uint32
	s := startCalls(t, func(c *h2Conn, _, _ int) bool {
		streams = append(streams, c.stream) // the probe waits for it
		c.ok()
		return true
	})
	left := countTimeWaits(t, s.port)
	p := keptCalls(t, GRPC{Port: s.port})
	for range 4 {
		wantSuccess(t, p)
	}
	s.want(t, 1, 4)
	if got := fmt.Sprint(streams); got != "[1 3 5 7]" {
		t.Errorf("called on the streams %s", got)
	}
	p.Close()
	if n := left(); n > 0 {
		t.Errorf("%d ports are in TIME_WAIT", n)
	}
	wantSuccess(t, p)
	wantSuccess(t, p)
	s.want(t, 3, 6)
}

// What a server sends beside its replies, and whether the connection is used again after it.
func TestGRPCKeptAfterFrames(t *testing.T) {
	isAck := func(f http2.Frame) bool {
		ping, ok := f.(*http2.PingFrame)
		return ok && ping.IsAck() && ping.Data == [8]byte{7}
	}
	setting := func(id http2.SettingID, value uint32) func(*h2Conn, int, int) bool {
		return always(func(c *h2Conn) {
			_ = c.WriteSettings(http2.Setting{ID: id, Val: value})
			c.ok()
		})
	}
	for _, tt := range []struct {
		name   string
		answer func(c *h2Conn, conn, call int) bool
		kept   bool
	}{
		{"ping after the reply", func(c *h2Conn, _, call int) bool {
			if call > 1 {
				c.await(isAck)
			}
			c.ok()
			return c.WritePing(false, [8]byte{7}) == nil
		}, true},
		{"settings after the reply", func(c *h2Conn, _, call int) bool {
			c.settled(call)
			c.ok()
			return c.WriteSettings() == nil
		}, true},
		{"half a ping after the reply", func(c *h2Conn, _, call int) bool {
			var ping bytes.Buffer
			_ = http2.NewFramer(&ping, nil).WritePing(false, [8]byte{7})
			if call > 1 {
				_, _ = c.Write(ping.Bytes()[10:])
				c.await(isAck)
			}
			c.ok()
			_, err := c.Write(ping.Bytes()[:10])
			return err == nil
		}, true},
		{"frames of earlier calls", always(func(c *h2Conn) {
			c.ok()
			_ = c.WriteRSTStream(c.stream, http2.ErrCodeNo)
			_ = c.WriteWindowUpdate(c.stream, 9)
			_ = c.WriteData(c.stream, false, []byte("late"))
			_ = c.WriteRawFrame(http2.FrameWindowUpdate, 0, c.stream, make([]byte, 4))
		}), true},
		{"unknown frames", always(func(c *h2Conn) {
			c.ok()
			_ = c.WriteRawFrame(0xbb, 0xff, 0, []byte("unknown"))
		}), true},
		{"headers that the next reply refers to", always(func(c *h2Conn) {
			c.headers(false, ":status", "200", "content-type", "application/grpc", "x-long", strings.Repeat("x", 900))
			c.data(serving)
			c.trailers("grpc-status", "0", "x-other", "y")
		}), true},
		{"windows", setting(http2.SettingInitialWindowSize, 5), true},
		{"no window for the next call", setting(http2.SettingInitialWindowSize, 4), false},
		{"one call at once", setting(http2.SettingMaxConcurrentStreams, 1), true},
		{"no more calls", setting(http2.SettingMaxConcurrentStreams, 0), false},
		{"GOAWAY before the reply", always(func(c *h2Conn) {
			_ = c.WriteGoAway(c.stream, http2.ErrCodeNo, nil)
			c.ok()
		}), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := startCalls(t, tt.answer)
			p := keptCalls(t, GRPC{Port: s.port})
			for range 3 {
				wantSuccess(t, p)
			}
			if tt.kept {
				s.want(t, 1, 3)
			} else {
				s.want(t, 3, 3)
			}
		})
	}
}

// A server may leave a kept connection at any time. That fails no probe.
func TestGRPCServerLeavesKeptConnection(t *testing.T) {
	for name, leave := range map[string]func(*h2Conn) bool{
		"end":    func(*h2Conn) bool { return false },
		"reset":  func(c *h2Conn) bool { c.reset(); return false },
		"GOAWAY": func(c *h2Conn) bool { return c.WriteGoAway(c.stream-2, http2.ErrCodeNo, nil) == nil },
		"GOAWAY for pings": func(c *h2Conn) bool {
			_ = c.WriteGoAway(1, http2.ErrCodeEnhanceYourCalm, []byte("too_many_pings"))
			return false
		},
		"GOAWAY for later calls, and silence": func(c *h2Conn) bool { // as grpc-go where its connections may have little grace
			return c.WriteGoAway(1<<31-1, http2.ErrCodeNo, nil) == nil
		},
		"GOAWAY and end": func(c *h2Conn) bool { _ = c.WriteGoAway(1<<31-1, http2.ErrCodeNo, nil); return false },
		"refusal":        func(c *h2Conn) bool { return c.WriteRSTStream(c.stream, http2.ErrCodeRefusedStream) == nil },
		"nonsense":       func(c *h2Conn) bool { _, err := c.Write(make([]byte, 99)); return err == nil },
		"another protocol": func(c *h2Conn) bool {
			_, err := io.WriteString(c, "HTTP/1.1 408 Request Timeout\r\n\r\n")
			return err == nil
		},
		"half a frame": func(c *h2Conn) bool { _, _ = c.Write([]byte{0, 0, 9}); return false },
		"a stream pushed": func(c *h2Conn) bool {
			return c.WritePushPromise(http2.PushPromiseParam{StreamID: c.stream, PromiseID: 2, EndHeaders: true}) == nil
		},
		"more than is read":   func(c *h2Conn) bool { flood(c); return false },
		"nothing of the call": func(c *h2Conn) bool { _ = c.WritePing(false, [8]byte{}); return false },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startCalls(t, func(c *h2Conn, conn, call int) bool {
				if conn == 1 && call == 2 {
					return leave(c)
				}
				c.ok()
				return true
			})
			p := keptCalls(t, GRPC{Port: s.port})
			for range 3 {
				wantSuccess(t, p)
			}
			s.want(t, 2, 4)
		})
	}
}

// flood sends more than a probe reads.
func flood(c *h2Conn) {
	for sent := 0; sent <= grpcMaxFrames; sent += 9 + 8<<10 {
		if c.WriteRawFrame(0xbb, 0, 0, make([]byte, 8<<10)) != nil {
			return
		}
	}
}

// A server may also leave the connection while nobody asks.
func TestGRPCServerLeavesIdleConnection(t *testing.T) {
	for name, leave := range map[string]func(*h2Conn){
		"end":   func(c *h2Conn) { _ = c.Close() },
		"reset": (*h2Conn).reset,
		"GOAWAY and end": func(c *h2Conn) {
			_ = c.WriteGoAway(c.stream, http2.ErrCodeNo, nil)
			_ = c.Close()
		},
	} {
		t.Run(name, func(t *testing.T) {
			left := make(chan struct{}, 1)
			s := startCalls(t, func(c *h2Conn, _, _ int) bool {
				c.ok()
				leave(c)
				left <- struct{}{}
				return false
			})
			p := keptCalls(t, GRPC{Port: s.port})
			for range 5 {
				wantSuccess(t, p)
				<-left
			}
			s.want(t, 5, 5)
		})
	}
}

// Once the server answered, its answer counts, and the next probe must not depend on the same connection.
func TestGRPCKeptAfterFailure(t *testing.T) {
	for _, tt := range []struct {
		name   string
		answer func(c *h2Conn) bool
		cause  Cause
	}{
		{"NOT_SERVING", func(c *h2Conn) bool { reply200(grpcMessage(0, "\b\x02"), "grpc-status", "0")(c); return true }, Status},
		{"status", func(c *h2Conn) bool {
			only(":status", "200", "content-type", "application/grpc", "grpc-status", "14")(c)
			return true
		}, Status},
		{"reset of the call", func(c *h2Conn) bool { return c.WriteRSTStream(c.stream, http2.ErrCodeInternal) == nil }, Status},
		{"end after the headers", func(c *h2Conn) bool { c.begin(); return false }, Reset},
		{"headers that are malformed", func(c *h2Conn) bool { c.trailers("A", "b"); return true }, Status},
		{"no window", func(c *h2Conn) bool {
			return c.WriteRawFrame(http2.FrameWindowUpdate, 0, c.stream, make([]byte, 4)) == nil
		}, Status},
		{"silence", func(*h2Conn) bool { return true }, Timeout},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			wantNewConnection(t, tt.cause, func() (Probe, counted) {
				s := startCalls(t, func(c *h2Conn, conn, call int) bool {
					if conn == 1 && call == 2 {
						return tt.answer(c)
					}
					c.ok()
					return true
				})
				return keptCalls(t, GRPC{Port: s.port}), s.counts
			})
		})
	}
}

// After a kept connection that was left, a call is made as without one.
func TestGRPCServerLeavesEachConnection(t *testing.T) {
	s := startCalls(t, func(c *h2Conn, conn, call int) bool {
		if conn == 1 && call == 1 {
			c.ok()
			return true
		}
		return false
	})
	p := keptCalls(t, GRPC{Port: s.port})
	wantSuccess(t, p)
	wantResult(t, p.Ask(t.Context(), longTimeout), Failure, Reset)
	s.want(t, 2, 3)
	wantResult(t, p.Ask(t.Context(), longTimeout), Failure, Reset)
	s.want(t, 3, 4)
}

// A reply takes of the window of the connection, which the next call gives back.
func TestGRPCKeptWindow(t *testing.T) {
	window, least := int64(grpcWindow), int64(grpcWindow)
	padding := grpcMessage(0, "\b\x01"+strings.Repeat("\x1a\x7e"+strings.Repeat("x", 126), 70))
	s := startCalls(t, func(c *h2Conn, _, _ int) bool {
		window = c.granted + grpcWindow
		least = min(least, window)
		c.begin()
		c.data([]byte(padding))
		_ = c.WriteDataPadded(c.stream, false, nil, make([]byte, 255))
		c.granted -= int64(len(padding)) + 256
		c.trailers("grpc-status", "0")
		return true
	})
	p := keptCalls(t, GRPC{Port: s.port})
	for range 30 {
		wantSuccess(t, p)
	}
	s.want(t, 1, 30)
	if least != grpcWindow || window != grpcWindow {
		t.Errorf("the server might send %d bytes, once only %d, want %d", window, least, grpcWindow)
	}
}

// A request that the server does not take on the kept connection goes on a new one.
func TestGRPCKeptRequestWindow(t *testing.T) {
	const size = 20 << 10
	for _, tt := range []struct {
		grants       bool
		conns, calls int
	}{{true, 1, 9}, {false, 3, 9}} {
		s := startCalls(t, func(c *h2Conn, _, _ int) bool {
			if tt.grants {
				_ = c.WriteWindowUpdate(0, size+grpcPrefix+4)
			}
			c.ok()
			return true
		})
		p := keptCalls(t, GRPC{Port: s.port, Service: strings.Repeat("x", size)})
		for range tt.calls {
			wantSuccess(t, p)
		}
		s.want(t, tt.conns, tt.calls)
	}
}

func TestGRPCKeptIsCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := startCalls(t, func(c *h2Conn, conn, call int) bool {
		if conn == 1 && call == 2 {
			cancel()
			return true
		}
		c.ok()
		return true
	})
	p := keptCalls(t, GRPC{Port: s.port})
	wantSuccess(t, p)
	wantResult(t, p.Ask(ctx, longTimeout), Unknown, NotAsked)
	wantSuccess(t, p)
	s.want(t, 2, 3)
}

// With the last stream that there is, the connection has had its time.
func TestGRPCLastStream(t *testing.T) {
	l := newGRPCLink()
	for _, tt := range []struct {
		stream uint32
		takes  bool
	}{{1, true}, {grpcLastStream - 2, true}, {grpcLastStream, false}} {
		if l.stream = tt.stream; l.takes(grpcPrefix) != tt.takes {
			t.Errorf("after stream %d: takes a call: %v", tt.stream, !tt.takes)
		}
	}
}

// Certificates are those of the connection, whenever it was made.
func TestGRPCKeptTLS(t *testing.T) {
	a, end := newAuthority(t, "a"), time.Now().Add(time.Hour).Truncate(time.Second)
	cert, key := a.client()
	port := secureGRPC(t, a.wantsClients(a.server("api", end)))
	p := keptCalls(t, GRPC{Port: port, TLS: &TLSClient{Verify: true, CA: a.pem, ServerName: "api", Cert: cert, Key: key}})
	before := descriptors(t)
	for range 20 {
		r := p.Ask(t.Context(), longTimeout)
		if wantResult(t, r, Success, ""); !r.Certificate.Equal(end) {
			t.Errorf("certificate until %v, want %v", r.Certificate, end)
		}
	}
	if n := descriptors(t) - before; n > 2 { // this side's and the server's
		t.Errorf("%d more descriptors are open", n)
	}
}
