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

// httpHook tells a container something with a GET request.
type httpHook struct {
	prober *Prober
	req    *http.Request // never sent itself
}

func (p *Prober) httpHook(h *HTTPGet, t Target) (Hook, error) {
	host, _, err := endpoint(h.Host, h.Port, t)
	if err != nil {
		return nil, err
	}
	req, err := newRequest(h, host, lifecycleAgent(p.userAgent))
	if err != nil {
		return nil, err
	}
	// What cannot be written is to be known now.
	if _, err := wireFormat(req); err != nil {
		return nil, err
	}
	return &httpHook{prober: p, req: req}, nil
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
	failure := fmt.Errorf("cannot get %q: %s", h.req.URL.Redacted(), ownWords(err))
	// A server that spoke TLS before it redirected does not get the headers in
	// the clear.
	if !errors.Is(err, http.ErrSchemeMismatch) || redirected {
		return HookResult{Err: failure, NotAsked: classify(err) == NotAsked}
	}
	plain := inTheClear(ctx, h.req)
	if _, err := h.send(ctx, plain); err != nil {
		failure = fmt.Errorf("%w; cannot get %q: %s", failure, plain.URL.Redacted(), ownWords(err))
		return HookResult{Err: failure, NotAsked: classify(err) == NotAsked, HTTPFallback: true}
	}
	return HookResult{HTTPFallback: true}
}

// inTheClear returns req for plain HTTP, without credentials.
func inTheClear(ctx context.Context, req *http.Request) *http.Request {
	plain := req.Clone(ctx)
	plain.URL.Scheme = "http"
	plain.URL.User = nil // net/http would make an Authorization of it
	plain.Header.Del("Authorization")
	return plain
}

// send returns without error when a reply has come.
func (h *httpHook) send(ctx context.Context, req *http.Request) (redirected bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	client := http.Client{
		Transport: h.prober.client,
		CheckRedirect: func(req *http.Request, via []*http.Request) error {
			redirected = true
			return h.prober.checkRedirect(req, via)
		},
	}
	resp, err := client.Do(req.WithContext(context.WithValue(ctx, askKey{}, ctx)))
	if err != nil {
		return redirected, rootCause(ctx, err)
	}
	defer resp.Body.Close()
	// The server may still be at work, and the status is all that counts.
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, MaxOutput))
	return redirected, nil
}

// ownWords returns why a request failed. Errors of net/http quote what they cannot
// parse, which may tell secrets of whatever was asked by mistake.
func ownWords(err error) string {
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return "no reply: " + err.Error()
	case errors.Is(err, http.ErrSchemeMismatch):
		return http.ErrSchemeMismatch.Error()
	case errors.Is(err, errRedirects):
		return errRedirects.Error()
	}
	cause := classify(err)
	if cause == Protocol || cause == TLS && !ownTLS(err) {
		return "the reply cannot be understood"
	}
	return reason(err)
}

// ownTLS says that err is one of crypto/tls, not only has its name in it.
func ownTLS(err error) bool {
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return true
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return op.Op == "remote error" || op.Op == "local error" // alerts
	}
	return strings.HasPrefix(err.Error(), "tls: ")
}
