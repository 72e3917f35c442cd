package prober

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
)

// httpHook sends a request to the container.
type httpHook struct {
	prober *Prober
	to     endpoint
	get    *HTTPGet
	tls    *tls.Config
	req    *http.Request // never sent itself
}

func (p *Prober) httpHook(h *HTTPGet, t Target) (Hook, error) {
	to, err := newEndpoint(h.Via, h.Host, h.Port, t)
	if err != nil {
		return nil, err
	}
	req, err := newRequest(h, to.host, lifecycleAgent(p.userAgent))
	if err != nil {
		return nil, err
	}
	// A request that cannot be sent is an error of the configuration: report it now.
	if _, err := wireFormat(req); err != nil {
		return nil, err
	}
	secure, err := p.credentials.config(h.TLS)
	if err != nil {
		return nil, err
	}
	return &httpHook{prober: p, to: to, get: h, tls: secure, req: req}, nil
}

// lifecycleAgent makes "healthd-lifecycle/1.0" of "healthd/1.0".
func lifecycleAgent(userAgent string) string {
	product := len(userAgent)
	if i := strings.IndexAny(userAgent, "/ "); i >= 0 {
		product = i
	}
	return userAgent[:product] + "-lifecycle" + userAgent[product:]
}

// Run implements Hook.
func (h *httpHook) Run(ctx context.Context) HookResult {
	redirected, err := h.send(ctx, h.req)
	if err == nil {
		return HookResult{}
	}
	failure := h.failure(h.req, err)
	// A server that spoke TLS before it redirected must not get the headers without TLS, nor one
	// whose TLS the configuration asks for.
	if !errors.Is(err, http.ErrSchemeMismatch) || redirected || h.get.TLS != nil {
		return HookResult{Err: failure, NotAsked: unasked(ctx, err)}
	}
	plain := plainHTTPRequest(ctx, h.req)
	if _, err := h.send(ctx, plain); err != nil {
		failure = fmt.Errorf("%w; %w", failure, h.failure(plain, err))
		return HookResult{Err: failure, NotAsked: unasked(ctx, err), HTTPFallback: true}
	}
	return HookResult{HTTPFallback: true}
}

// unasked says that a request failed for a reason that tells nothing about the container.
func unasked(ctx context.Context, err error) bool {
	cause := classify(err)
	return cause == NotAsked || cause == Timeout && late(ctx)
}

// failure returns the error of a request that failed.
func (h *httpHook) failure(req *http.Request, err error) error {
	do := "get"
	if h.get.method() != http.MethodGet {
		do = "send " + h.get.method() + " to"
	}
	return fmt.Errorf("cannot %s %q: %s", do, req.URL.Redacted(), safeError(err))
}

// plainHTTPRequest returns req for HTTP without TLS and without credentials.
func plainHTTPRequest(ctx context.Context, req *http.Request) *http.Request {
	plain := req.Clone(ctx)
	plain.URL.Scheme = "http"
	plain.URL.User = nil // net/http would make an Authorization of it
	plain.Header.Del("Authorization")
	return plain
}

// send returns nil when a reply came, whatever its status.
func (h *httpHook) send(ctx context.Context, req *http.Request) (redirected bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	transport, follow := oneTransport(ctx, dialerOf(h.to)), h.prober.redirects(h.get)
	transport.TLSClientConfig = h.tls.Clone()
	client := http.Client{
		Transport: transport,
		CheckRedirect: func(req *http.Request, via []*http.Request) error {
			redirected = true
			return follow(req, via)
		},
	}
	resp, err := client.Do(req.WithContext(ctx))
	if err != nil {
		return redirected, rootCause(ctx, err)
	}
	defer resp.Body.Close()
	// Wait for the body: the server may still be at work. Only the status counts.
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, MaxOutput))
	return redirected, nil
}

// safeError returns why a request failed. Errors of net/http quote a reply that they
// cannot parse. It may hold secrets, and may come from another server than was meant.
func safeError(err error) string {
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return "no reply: " + err.Error()
	case errors.Is(err, http.ErrSchemeMismatch):
		return http.ErrSchemeMismatch.Error()
	case errors.Is(err, errRedirects):
		return errRedirects.Error()
	}
	cause := classify(err)
	if cause == Protocol || cause == TLS && !isCryptoTLS(err) {
		return "the reply cannot be understood"
	}
	return clean(plainError(err)) // a certificate may have many names
}

// isCryptoTLS says that err comes from crypto/tls, and is not another error whose text
// has "tls: " in it.
func isCryptoTLS(err error) bool {
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return true
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return op.Op == "remote error" || op.Op == "local error" // alerts
	}
	return strings.HasPrefix(err.Error(), "tls: ")
}
