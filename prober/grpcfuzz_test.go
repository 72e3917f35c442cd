package prober

import (
	"bytes"
	"context"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

// scriptedConn is a client's end of a connection. What the server sends is known beforehand.
type scriptedConn struct {
	net.Conn
	mu     sync.Mutex
	asked  sync.Cond
	first  []byte // comes at once
	rest   []byte // comes when the client has made its call
	sent   []byte
	called bool // or closed
}

func newScriptedConn(rest []byte) *scriptedConn {
	c := &scriptedConn{first: make([]byte, 9), rest: rest}
	c.first[3] = byte(http2.FrameSettings)
	c.asked.L = &c.mu
	return c
}

func (c *scriptedConn) Read(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := copy(b, c.first); n > 0 {
		c.first = c.first[n:]
		return n, nil
	}
	for !c.called {
		c.asked.Wait()
	}
	n := copy(b, c.rest)
	if c.rest = c.rest[n:]; n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

func (c *scriptedConn) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.called {
		c.sent = append(c.sent, b...)
		_, frames, _ := bytes.Cut(c.sent, []byte(http2.ClientPreface))
		for f := http2.NewFramer(io.Discard, bytes.NewReader(frames)); !c.called; {
			frame, err := f.ReadFrame()
			if err != nil {
				break
			}
			data, ok := frame.(*http2.DataFrame)
			c.called = ok && data.StreamEnded()
		}
		c.asked.Broadcast()
	}
	return len(b), nil
}

func (c *scriptedConn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.called, c.rest = true, nil
	c.asked.Broadcast()
	return nil
}

func (c *scriptedConn) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (c *scriptedConn) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (c *scriptedConn) SetDeadline(time.Time) error      { return nil }
func (c *scriptedConn) SetReadDeadline(time.Time) error  { return nil }
func (c *scriptedConn) SetWriteDeadline(time.Time) error { return nil }

// recordedConn keeps what a server sends.
type recordedConn struct {
	net.Conn
	bytes.Buffer
}

func (c *recordedConn) Read([]byte) (int, error)    { return 0, io.EOF }
func (c *recordedConn) Write(b []byte) (int, error) { return c.Buffer.Write(b) }
func (c *recordedConn) Close() error                { return nil }

// FuzzGRPCReply gives the probe what a server might send. It takes no more memory than a server may need, and
// takes nothing for SERVING that grpc-go does not.
func FuzzGRPCReply(f *testing.F) {
	for _, reply := range oddGRPCReplies(f) {
		var c recordedConn
		reply.serve(newH2Conn(&c))
		f.Add(c.Bytes())
	}
	request, err := newGRPCRequest("http", "127.0.0.1:80", "healthd", "")
	if err != nil {
		f.Fatal(err)
	}
	x := newGRPCExchange()
	f.Fuzz(func(t *testing.T, sent []byte) {
		link := newGRPCLink()
		link.conn = newScriptedConn(sent)
		a := x.do(link, &request, time.Now().Add(longTimeout))
		if size := cap(x.reply.data) + x.out.Cap(); size > 2*keepBody {
			t.Errorf("keeps %d bytes", size)
		}
		r, err := (&grpcProbe{}).toResult(a, longTimeout)
		if err != nil || r.Outcome == Unknown || len(r.Output) > MaxOutput {
			t.Fatalf("%+v, %v", r, err)
		}
		if a.healthy() && !link.draining && link.takes(len(request.message)) { // the next call reads what is left, too
			next := newScriptedConn(sent)
			next.first, next.called, link.conn = nil, true, next
			x.do(link, &request, time.Now().Add(longTimeout))
		}
		if len(link.rest) > readBuffer {
			t.Errorf("keeps %d bytes for the next call", len(link.rest))
		}
		if r.Outcome != Success {
			return
		}
		library := probe{libraryProbe{prober: New(Config{}), address: "127.0.0.1:80", dial: func(context.Context, string) (net.Conn, error) {
			return newScriptedConn(sent), nil
		}}}
		if theirs := library.Ask(t.Context(), longTimeout); theirs.Outcome != Success {
			t.Errorf("taken for SERVING, not as grpc-go: %q", theirs.Output)
		}
	})
}
