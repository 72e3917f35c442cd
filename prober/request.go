package prober

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// newRequest returns the request of an HTTP probe.
func newRequest(h *HTTPGet, host, userAgent string) (*http.Request, error) {
	switch h.method() {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodOptions:
	default:
		return nil, fmt.Errorf("method is %q, not GET, HEAD, POST or OPTIONS", h.Method)
	}
	u, err := requestURL(h, host)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequest(h.method(), u.String(), nil)
	if err != nil {
		return nil, err
	}
	req.Header, err = requestHeader(h.Headers, userAgent)
	if err != nil {
		return nil, err
	}
	if host := req.Header.Get("Host"); host != "" {
		req.Host = host
	}
	return req, nil
}

func requestURL(h *HTTPGet, host string) (*url.URL, error) {
	scheme := strings.ToLower(h.Scheme)
	switch scheme {
	case "":
		scheme = "http"
	case "http", "https":
	default:
		return nil, fmt.Errorf("scheme is %q, not http or https", h.Scheme)
	}
	u, err := url.Parse(h.Path)
	if err != nil || u.Opaque != "" {
		u = &url.URL{Path: h.Path} // not a URL reference: take it as a path
	}
	u.Scheme = scheme
	u.Host = net.JoinHostPort(host, strconv.Itoa(h.Port))
	u.Fragment, u.RawFragment = "", ""
	return u, nil
}

func requestHeader(list []Header, userAgent string) (http.Header, error) {
	header := make(http.Header, len(list)+2)
	for _, h := range list {
		if !httpguts.ValidHeaderFieldName(h.Name) {
			return nil, fmt.Errorf("header name %q is invalid", h.Name)
		}
		if !httpguts.ValidHeaderFieldValue(h.Value) {
			return nil, fmt.Errorf("value of header %s is invalid", h.Name)
		}
		header.Add(h.Name, h.Value)
	}
	// An empty User-Agent is kept: it makes net/http send none.
	if _, ok := header["User-Agent"]; !ok {
		header.Set("User-Agent", userAgent)
	}
	if _, ok := header["Accept"]; !ok {
		header.Set("Accept", "*/*")
	} else if header.Get("Accept") == "" {
		header.Del("Accept")
	}
	return header, nil
}

// wireFormat returns the bytes of req.
func wireFormat(req *http.Request) ([]byte, error) {
	var b bytes.Buffer
	if err := req.Write(&b); err != nil {
		return nil, err
	}
	return bytes.Clone(b.Bytes()), nil
}
