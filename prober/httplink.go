package prober

import (
	"context"
	"errors"
	"math"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"golang.org/x/net/http/httpguts"
)

// maxUnasked bounds what a server may send on a connection that is kept, between two probes, in bytes: settings, pings,
// and that it closes. net/http reads and answers it at once, at the cost of healthd, which asked for nothing.
const maxUnasked = 4 << 10

var errUnasked = errors.New("the server sends what nobody asked for")

// httpLink is a connection on which net/http speaks, with what its handshake showed.
type httpLink struct {
	client      *http.ClientConn
	raw         *linkConn
	since       time.Time
	certificate *time.Time // the end of the server's; nil: it has none
}

// Close resets the connection. net/http's goroutines end soon after.
func (l *httpLink) Close() error { return l.client.Close() }

func (l *httpLink) opened() time.Time { return l.since }

// linkConn is a connection on which only so much may come.
type linkConn struct {
	net.Conn
	left atomic.Int64 // bytes
}

// Read implements net.Conn.
func (c *linkConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.left.Add(-int64(n)) < 0 {
		return 0, errUnasked
	}
	return n, err
}

// expectReply and expectNothing say what may come from now on.
func (c *linkConn) expectReply()   { c.left.Store(math.MaxInt64) }
func (c *linkConn) expectNothing() { c.left.Store(maxUnasked) }

// link makes a connection to where req goes. seen notes the handshake.
func (p *httpProbe) link(req *http.Request, seen *handshakes) (*httpLink, error) {
	l := &httpLink{since: time.Now()}
	dial := dialerOf(p.to).resetting()
	transport := newTransport(func(ctx context.Context, address string) (net.Conn, error) {
		c, err := dial(ctx, address)
		if err != nil {
			return nil, err
		}
		l.raw = &linkConn{Conn: c}
		l.raw.expectReply()
		return l.raw, nil
	})
	transport.TLSClientConfig = seen.watch(p.tls)
	address, err := httpguts.PunycodeHostPort(req.URL.Host)
	if err != nil {
		return nil, err
	}
	if l.client, err = transport.NewClientConn(req.Context(), req.URL.Scheme, address); err != nil {
		return nil, err
	}
	l.certificate = seen.notAfter.Load()
	return l, nil
}

// linkedRequest sends the first request of an Ask on the connection that the probe keeps, or on a new one that it may
// keep.
type linkedRequest struct {
	probe *httpProbe
	seen  *handshakes
	link  *httpLink // has the reply; nil: none came
}

func (r *linkedRequest) send(req *http.Request) (*http.Response, error) {
	if resp := r.onKept(req); resp != nil {
		return resp, nil
	}
	if err := req.Context().Err(); err != nil {
		return nil, err
	}
	l, err := r.probe.link(req, r.seen)
	if err != nil {
		return nil, err
	}
	r.link = l
	return l.client.RoundTrip(req)
}

// onKept returns the reply on the connection that is kept. Without one it returns nil: the server may leave
// such a connection at any time, and says so with a status, if at all.
func (r *linkedRequest) onKept(req *http.Request) *http.Response {
	l := r.probe.links.take()
	if l == nil {
		return nil
	}
	if l.client.Available() == 0 { // also if the server has closed it, or will
		_ = l.Close()
		return nil
	}
	l.raw.expectReply()
	resp, err := l.client.RoundTrip(req)
	if err != nil || resp.StatusCode == http.StatusRequestTimeout {
		_ = l.Close()
		return nil
	}
	r.link = l
	r.seen.notAfter.Store(l.certificate)
	return resp
}

// end keeps the connection for the next probe, or closes it. It is called when the reply's body is closed.
func (r *linkedRequest) end(again bool) {
	switch {
	case r.link == nil:
	case again && r.link.client.Available() > 0:
		r.link.raw.expectNothing()
		r.probe.links.put(r.link)
	default:
		_ = r.link.Close()
	}
}
