package prober

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"syscall"
	"time"
)

const maxRedirects = 10

var errRedirects = fmt.Errorf("stopped after %d redirects", maxRedirects)

// httpProbe asks with a GET request. Plain HTTP to an address is spoken by hand;
// names, TLS and redirects go through net/http.
type httpProbe struct {
	prober *Prober
	get    *HTTPGet
	host   string
	wire   []byte // the request; nil: all goes through net/http
	sa     syscall.Sockaddr
}

func (p *Prober) httpProbe(h *HTTPGet, t Target) (asker, error) {
	host, ap, err := endpoint(h.Host, h.Port, t)
	if err != nil {
		return nil, err
	}
	req, err := newRequest(h, host, p.userAgent)
	if err != nil {
		return nil, err
	}
	wire, err := wireFormat(req)
	if err != nil {
		return nil, err
	}
	probe := &httpProbe{prober: p, get: h, host: host}
	if ap != (netip.AddrPort{}) && req.URL.Scheme == "http" && req.URL.User == nil {
		probe.wire = wire
		probe.sa = sockaddr(ap)
	}
	return probe, nil
}

func (p *httpProbe) ask(ctx context.Context, timeout time.Duration) (Result, error) {
	start := time.Now()
	deadline := start.Add(timeout)
	if p.wire == nil {
		return p.askClient(ctx, deadline, timeout, nil)
	}
	x := p.prober.exchanges.Get().(*exchange)
	defer p.prober.exchanges.Put(x)
	rep, err := x.do(ctx, deadline, p.sa, p.wire)
	if err == nil && rep.location != "" {
		return p.askClient(ctx, deadline, timeout, firstReply(rep))
	}
	r, err := p.judge(rep.status, rep.body, err, timeout)
	r.Latency = rep.at.Sub(start)
	return r, err
}

// judge says what a reply means. err is why it is not complete; then status is 0
// where not even the headers arrived.
func (p *httpProbe) judge(status int, body []byte, err error, timeout time.Duration) (Result, error) {
	switch {
	case status != 0 && (status < 200 || status >= 400):
		// The body is left out: it could tell secrets of whatever was asked by
		// mistake to whoever may read events.
		return Result{
			Outcome: Failure,
			Cause:   Status,
			Output:  fmt.Sprintf("HTTP probe failed with statuscode: %d", status),
		}, nil
	case err != nil:
		return failed(err, p.failure(status, err, timeout))
	case status >= 300:
		return Result{
			Outcome: Success,
			Cause:   Redirect,
			Warning: true,
			Output:  clean("Probe terminated redirects, Response body: " + string(body)),
		}, nil
	}
	return Result{Outcome: Success, Output: clean(string(body))}, nil
}

func (p *httpProbe) failure(status int, err error, timeout time.Duration) string {
	why := reason(err)
	switch {
	case classify(err) != Timeout:
	case status != 0:
		why = fmt.Sprintf("body not complete within %v", timeout)
	default:
		why = fmt.Sprintf("no reply within %v", timeout)
	}
	u, err := requestURL(p.get, p.host)
	if err != nil {
		return why
	}
	return fmt.Sprintf("Get %q: %s", u.Redacted(), why)
}

// newTransport returns what speaks HTTP where it is not done by hand: a new
// connection for each request, straight to whom was asked for.
func newTransport() *http.Transport {
	return &http.Transport{
		DialContext: dialForAsk,
		// The certificate of a container is nobody's business here: health is.
		TLSClientConfig:        &tls.Config{InsecureSkipVerify: true},
		ForceAttemptHTTP2:      true,
		DisableKeepAlives:      true,
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxHead,
	}
}

// askKey finds the context of an Ask below the one that a transport dials with.
type askKey struct{}

// dialForAsk connects, and closes when the Ask ends: a transport lets a dial or a
// TLS handshake go on without its request, for a next one, and has no end for a
// server that accepts and says nothing.
func dialForAsk(ctx context.Context, network, address string) (net.Conn, error) {
	if askCtx, ok := ctx.Value(askKey{}).(context.Context); ok {
		ctx = askCtx
	}
	c, err := (&net.Dialer{KeepAlive: -1}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() { _ = c.Close() })
	return c, nil
}

// askClient asks through net/http. first, if not nil, is the reply that the first
// request already has.
func (p *httpProbe) askClient(ctx context.Context, deadline time.Time, timeout time.Duration, first *http.Response) (Result, error) {
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	req, err := newRequest(p.get, p.host, p.prober.userAgent)
	if err != nil {
		return Result{}, err
	}
	client := http.Client{
		Transport:     &replay{first: first, next: p.prober.client},
		CheckRedirect: p.prober.checkRedirect,
	}
	resp, err := client.Do(req.WithContext(context.WithValue(ctx, askKey{}, ctx)))
	if err != nil {
		return p.judge(0, nil, rootCause(ctx, err), timeout)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, MaxOutput))
	if err != nil {
		err = rootCause(ctx, err)
	}
	return p.judge(resp.StatusCode, body, err, timeout)
}

// rootCause returns why an Ask with ctx met err.
func rootCause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err() // a connection closed by dialForAsk has many faces
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err // failure puts the URL on
	}
	return err
}

// stayLocal lets redirects stay on the host that was asked: another one would be
// probed in this one's place.
func stayLocal(req *http.Request, via []*http.Request) error {
	if req.URL.Hostname() != via[0].URL.Hostname() {
		return http.ErrUseLastResponse
	}
	return stopLoops(req, via)
}

// stopLoops lets redirects go anywhere, as net/http does.
func stopLoops(_ *http.Request, via []*http.Request) error {
	if len(via) >= maxRedirects {
		return errRedirects
	}
	return nil
}

// replay answers the first request with what is already there, so that the rules
// of net/http for redirects apply without asking twice.
type replay struct {
	first *http.Response
	next  http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (r *replay) RoundTrip(req *http.Request) (*http.Response, error) {
	resp := r.first
	if resp == nil {
		return r.next.RoundTrip(req)
	}
	r.first = nil
	resp.Request = req
	return resp, nil
}

func firstReply(rep reply) *http.Response {
	return &http.Response{
		Status:        http.StatusText(rep.status),
		StatusCode:    rep.status,
		Proto:         "HTTP/1.1",
		ProtoMajor:    1,
		ProtoMinor:    1,
		Header:        http.Header{"Location": {rep.location}},
		Body:          io.NopCloser(bytes.NewReader(rep.body)),
		ContentLength: int64(len(rep.body)),
	}
}
