package prober

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
)

// newTransport returns a transport that connects by dial and uses no proxy. No two probes or hooks share one: over
// HTTP/2, a transport sends a request to 127.0.0.1 on the connection of another one, which may be in another network
// namespace, and ends with that one.
func newTransport(dial dialer) *http.Transport {
	return &http.Transport{
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) { return dial(ctx, address) },
		// As in the kubelet: a probe checks health, not certificates.
		TLSClientConfig:        &tls.Config{InsecureSkipVerify: true},
		ForceAttemptHTTP2:      true,
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxHead,
	}
}

// oneTransport returns the transport for a request that exchange cannot do, or for the requests
// of a hook. It ends with ctx, and makes a new connection for each request.
func oneTransport(ctx context.Context, dial dialer) *http.Transport {
	t := newTransport(func(_ context.Context, address string) (net.Conn, error) { return dial.during(ctx, address) })
	t.DisableKeepAlives = true
	return t
}

// dialer connects to HOST:PORT.
type dialer func(ctx context.Context, address string) (net.Conn, error)

// dialerOf returns the dialer into a network namespace, or out from healthd's own.
func dialerOf(to endpoint) dialer {
	switch {
	case to.inside != nil:
		return to.inside.dial
	case to.confined:
		return dialFromContainer
	}
	return dialFromHost
}

func dialFromContainer(ctx context.Context, address string) (net.Conn, error) {
	c, err := dialFromHost(ctx, address)
	return c, blameOwn(err)
}

func dialFromHost(ctx context.Context, address string) (net.Conn, error) {
	return (&net.Dialer{KeepAlive: -1}).DialContext(ctx, "tcp", address)
}

// resetting returns a dialer whose connections are reset when they are closed. A server often does not close first, and
// the side that does keeps the connection in TIME_WAIT.
func (dial dialer) resetting() dialer {
	return func(ctx context.Context, address string) (net.Conn, error) {
		c, err := dial(ctx, address)
		if t, ok := c.(*net.TCPConn); ok {
			return resetConn{t}, nil
		}
		return c, err
	}
}

// resetConn is a connection that is reset when it is closed.
type resetConn struct{ *net.TCPConn }

// Close implements net.Conn.
func (c resetConn) Close() error {
	_ = c.SetLinger(0)
	return c.TCPConn.Close()
}

// during connects, and closes the connection when ctx ends. Without that, a transport goes
// on with a TLS handshake for a later request, for ever if the server accepts and never
// answers.
func (dial dialer) during(ctx context.Context, address string) (net.Conn, error) {
	c, err := dial(ctx, address)
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() { _ = c.Close() })
	return c, nil
}

// roundTrips has the first request of an Ask answered in another way than what redirects lead to, so that net/http's
// rules for redirects apply, and nothing is sent twice.
type roundTrips struct {
	first func(*http.Request) (*http.Response, error) // nil: as the others
	next  func(*http.Request) (*http.Response, error)
}

// RoundTrip implements http.RoundTripper.
func (r *roundTrips) RoundTrip(req *http.Request) (*http.Response, error) {
	first := r.first
	if first == nil {
		return r.next(req)
	}
	r.first = nil
	return first(req)
}
