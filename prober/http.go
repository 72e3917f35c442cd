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
	"net/url"
	"time"
)

const (
	maxRedirects = 10
	// maxQuote bounds the text of an error, in bytes. Those of net/http quote a reply that
	// they cannot parse, which may be long and may hold secrets.
	maxQuote = 120
)

var errRedirects = fmt.Errorf("stopped after %d redirects", maxRedirects)

// httpProbe is the asker that sends a request. Plain HTTP to an IP address uses exchange, which
// needs far less CPU; names, TLS, redirects, unusual replies, HEAD and headers that count use
// net/http.
type httpProbe struct {
	prober *Prober
	get    *HTTPGet
	to     endpoint
	plain  *plainRequest    // for exchange; nil: use net/http
	links  *kept[*httpLink] // of net/http; nil: each request gets a new connection
	expect *expectation
	tls    *tls.Config
}

func (p *Prober) httpProbe(h *HTTPGet, t Target) (asker, error) {
	to, err := newEndpoint(h.Via, h.Host, h.Port, t)
	if err != nil {
		return nil, err
	}
	req, err := newRequest(h, to.host, p.userAgent)
	if err != nil {
		return nil, err
	}
	keep := h.KeepAlive && req.Method != http.MethodPost
	req.Close = !keep
	wire, err := wireFormat(req)
	if err != nil {
		return nil, err
	}
	probe := &httpProbe{prober: p, get: h, to: to}
	if probe.expect, err = newExpectation(h); err != nil {
		return nil, err
	}
	if probe.tls, err = p.credentials.config(h.TLS); err != nil {
		return nil, err
	}
	if to.sa != nil && req.URL.Scheme == "http" && req.URL.User == nil && req.Method != http.MethodHead && !probe.expect.needsHeader() {
		probe.plain = &plainRequest{to: to, wire: wire, limit: probe.expect.bodyLimit()}
	}
	switch {
	case keep && probe.plain != nil:
		probe.plain.keep = &kept[connection]{allowance: &p.allowance}
	case keep:
		probe.links = &kept[*httpLink]{allowance: &p.allowance}
	}
	return probe, nil
}

// close closes the connection that the probe keeps.
func (p *httpProbe) close() {
	if p.plain != nil && p.plain.keep != nil {
		p.plain.keep.close()
	}
	if p.links != nil {
		p.links.close()
	}
}

func (p *httpProbe) ask(ctx context.Context, timeout time.Duration) (Result, error) {
	start := time.Now()
	deadline := start.Add(timeout)
	if p.plain == nil {
		return p.askClient(ctx, deadline, timeout, nil)
	}
	x := p.prober.exchanges.Get().(*exchange)
	defer p.prober.exchanges.Put(x)
	var r Result
	var err error
	x.do(ctx, deadline, p.plain, func(rep reply, replyErr error) bool {
		switch {
		case rep.unusual == nil:
			r, err = p.toResult(rep, nil, replyErr, timeout)
		case rep.unusual.StatusCode/100 == 3:
			r, err = p.askClient(ctx, deadline, timeout, rep.unusual)
		default:
			r, err = p.readResult(ctx, deadline, timeout, rep.unusual)
		}
		r.Latency = time.Since(start)
		// After a failure the next probe gets a new connection, in case it was due to this one.
		return r.Outcome == Success
	})
	return r, err
}

// toResult returns the result for a reply, of the server that redirects led to; last is nil without any. err is why
// the reply is not complete; its status is then noStatus when not even the headers arrived.
func (p *httpProbe) toResult(rep reply, last *url.URL, err error, timeout time.Duration) (Result, error) {
	status, body := rep.status, rep.body
	if status != noStatus {
		if why := p.expect.wrongStatus(status); why != "" {
			// The body is left out: it may hold secrets, perhaps of another server than was
			// meant, and everybody who may read events would see them.
			return Result{Outcome: Failure, Cause: Status, Output: clean(p.asked(last) + why + wantsTLS(status, body))}, nil
		}
	}
	if err != nil {
		return failureOrRetry(err, p.asked(last)+errorText(rep, err, timeout))
	}
	if why := p.expect.wrongBody(body); why != "" {
		if rep.encoding != "" {
			why += "; it has the Content-Encoding " + shortQuote(rep.encoding) + ", which healthd does not undo"
		}
		return Result{Outcome: Failure, Cause: Content, Output: clean(p.asked(last) + why)}, nil
	}
	if status >= 300 && !p.expect.listsStatuses() {
		return Result{
			Outcome: Success,
			Cause:   Redirect,
			Warning: true,
			Output:  clean("Probe terminated redirects, Response body: " + string(body)),
		}, nil
	}
	return Result{Outcome: Success, Output: clean(string(body))}, nil
}

// errorText says why a reply is not complete.
func errorText(rep reply, err error, timeout time.Duration) string {
	why, cause := plainError(err), classify(err)
	switch {
	case cause == Protocol && len(why) > maxQuote:
		why = why[:maxQuote] + "…"
	case cause != Timeout:
	case rep.status != noStatus:
		why = fmt.Sprintf("body not complete within %v", timeout)
	default:
		why = fmt.Sprintf("no reply within %v", timeout)
	}
	switch {
	case rep.status == noStatus || cause != Timeout && cause != Reset:
		return why
	case rep.length >= 0:
		return fmt.Sprintf("%s, after %d of %d bytes of the body", why, len(rep.body), rep.length)
	}
	return fmt.Sprintf("%s, after %d bytes of the body", why, len(rep.body))
}

// asked says what was asked, and where redirects led to, for what stands behind it. What a redirect has beside a path
// may be secret.
func (p *httpProbe) asked(last *url.URL) string {
	own, err := requestURL(p.get, p.to.host)
	if err != nil {
		return ""
	}
	text := p.get.method() + " " + own.Redacted()
	if last != nil && (last.Scheme != own.Scheme || last.Host != own.Host || last.Path != own.Path) {
		target := (&url.URL{Scheme: last.Scheme, Host: last.Host, Path: last.Path}).String()
		if len(target) > maxQuote {
			target = target[:maxQuote] + "…"
		}
		text += ", redirected to " + target
	}
	return text + ": "
}

// wantsTLS says that a server answers plain HTTP by asking for TLS, as Go's, nginx and Apache do.
func wantsTLS(status int, body []byte) string {
	if status != http.StatusBadRequest {
		return ""
	}
	for _, text := range []string{
		"HTTP request to an HTTPS server", "HTTP request was sent to HTTPS port",
		"speaking plain HTTP to an SSL-enabled server port",
	} {
		if bytes.Contains(body, []byte(text)) {
			return "; " + speaksTLS
		}
	}
	return ""
}

// askClient asks with net/http. first, if not nil, is a response that exchange already
// got, and takes the place of the first request.
func (p *httpProbe) askClient(ctx context.Context, deadline time.Time, timeout time.Duration, first *http.Response) (Result, error) {
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	req, err := newRequest(p.get, p.to.host, p.prober.userAgent)
	if err != nil {
		return Result{}, err
	}
	var seen handshakes
	linked := &linkedRequest{probe: p, seen: &seen}
	trips := &roundTrips{next: func(req *http.Request) (*http.Response, error) {
		transport := oneTransport(ctx, dialerOf(p.to).resetting())
		transport.TLSClientConfig = seen.watch(p.tls)
		return transport.RoundTrip(req)
	}}
	switch {
	case first != nil:
		trips.first = func(req *http.Request) (*http.Response, error) {
			first.Request = req
			return first, nil
		}
	case p.links != nil:
		trips.first = linked.send
	}
	client := &http.Client{Transport: trips, CheckRedirect: p.prober.redirects(p.get)}
	r, err := p.doClient(client, req.WithContext(ctx), deadline, timeout, &seen)
	linked.end(r.Outcome == Success)
	return seen.conclude(r), err
}

func (p *httpProbe) doClient(client *http.Client, req *http.Request, deadline time.Time, timeout time.Duration, seen *handshakes) (Result, error) {
	resp, err := client.Do(req)
	if err != nil {
		seen.noteError(err)
		last, cause := lastURL(err), rootCause(req.Context(), err)
		if last != nil && last.Scheme == "https" {
			cause = seen.hungUp(cause)
		}
		return p.toResult(reply{status: noStatus}, last, cause, timeout)
	}
	defer resp.Body.Close()
	return p.readResult(req.Context(), deadline, timeout, resp)
}

// readResult reads the body of resp, and returns the result.
func (p *httpProbe) readResult(ctx context.Context, deadline time.Time, timeout time.Duration, resp *http.Response) (Result, error) {
	body, err := io.ReadAll(io.LimitReader(resp.Body, p.expect.bodyLimit()))
	switch {
	case err == nil:
	case !time.Now().Before(deadline):
		// In a trailer, net/http hides what the connection's error was.
		err = context.DeadlineExceeded
	default:
		err = rootCause(ctx, err)
	}
	rep := reply{status: resp.StatusCode, body: body, length: resp.ContentLength}
	rep.encoding = resp.Header.Get("Content-Encoding")
	var last *url.URL
	if resp.Request != nil {
		last = resp.Request.URL
	}
	r, err := p.toResult(rep, last, err, timeout)
	if p.expect.needsHeader() && r.Outcome == Success {
		if value := resp.Header.Get(p.expect.WarningHeader); value != "" {
			r.Warning, r.Cause, r.Output = true, Warned, clean(value)
		}
	}
	return r, err
}

// rootCause returns the error below err, or that of ctx when it has ended.
func rootCause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err() // a connection that during closed gives many different errors
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err // errorText adds the URL
	}
	return err
}

// lastURL returns what a client asked last before an error; nil if that is not known.
func lastURL(err error) *url.URL {
	failed, ok := errors.AsType[*url.Error](err)
	if !ok {
		return nil
	}
	u, err := url.Parse(failed.URL)
	if err != nil {
		return nil
	}
	return u
}

// redirects returns the rule for the redirects that h gets.
func (p *Prober) redirects(h *HTTPGet) func(req *http.Request, via []*http.Request) error {
	if h.method() == http.MethodGet && h.Expect == nil && h.TLS == nil {
		return p.checkRedirect
	}
	return func(req *http.Request, via []*http.Request) error {
		final := h.Expect.names(req.Response.StatusCode)
		// Another request than h's, with healthd's certificate or in plain HTTP.
		elsewhere := h.TLS != nil && serverOf(req.URL) != serverOf(via[0].URL)
		if final || elsewhere || h.method() == http.MethodPost || h.method() == http.MethodOptions {
			return http.ErrUseLastResponse
		}
		return p.checkRedirect(req, via)
	}
}

// sameHostRedirects does not follow a redirect to another host: that host would be probed
// instead of the container.
func sameHostRedirects(req *http.Request, via []*http.Request) error {
	if req.URL.Hostname() != via[0].URL.Hostname() {
		return http.ErrUseLastResponse
	}
	return limitRedirects(req, via)
}

// limitRedirects follows redirects to any host, at most maxRedirects, as net/http does. Another
// server, also one at another port of the host, does not get the probe's headers: they may be
// secrets, and net/http withholds only some of them, and only from other hosts.
func limitRedirects(req *http.Request, via []*http.Request) error {
	if len(via) >= maxRedirects {
		return errRedirects
	}
	if serverOf(req.URL) != serverOf(via[0].URL) {
		for name := range req.Header {
			if name != "Accept" && name != "User-Agent" {
				delete(req.Header, name)
			}
		}
	}
	return nil
}

// serverOf returns SCHEME://HOST:PORT. A redirect may leave out the port where it is that of the scheme.
func serverOf(u *url.URL) string {
	port := u.Port()
	switch {
	case port != "":
	case u.Scheme == "https":
		port = "443"
	default:
		port = "80"
	}
	return u.Scheme + "://" + net.JoinHostPort(u.Hostname(), port)
}
