package prober

import (
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// recordedRequest returns a probe's request as the server received it.
func recordedRequest(t *testing.T, h *HTTPGet) string {
	t.Helper()
	heads := make(chan string, 1)
	port := rawServer(t, false, func(c net.Conn, _ <-chan struct{}) {
		heads <- readHeadOf(c)
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n")
	})
	h.Port = port
	wantResult(t, ask(t, Handler{HTTPGet: h}), Success, "")
	return strings.ReplaceAll(<-heads, fmt.Sprint(port), "PORT")
}

func TestHTTPRequestHeaders(t *testing.T) {
	const ua, accept, closing = "User-Agent: healthd/1.0", "Accept: */*", "Connection: close"
	for _, tt := range []struct {
		name    string
		headers []Header
		want    []string
		kubelet string
	}{
		// 10: the token is healthd's own.
		{"none given", nil, []string{accept, closing, ua}, "2 3 10 17"},
		{"encoding that exists", []Header{{"Accept-Encoding", "gzip"}}, []string{accept, "Accept-Encoding: gzip", closing, ua}, "4"},
		{"encoding that does not", []Header{{"Accept-Encoding", "foo"}}, []string{accept, "Accept-Encoding: foo", closing, ua}, "5"},
		{"empty encoding", []Header{{"Accept-Encoding", ""}}, []string{accept, "Accept-Encoding: ", closing, ua}, "6"},
		{"custom", []Header{{"X-Muffins-Or-Cupcakes", "muffins"}}, []string{accept, closing, ua, "X-Muffins-Or-Cupcakes: muffins"}, "7"},
		{"user agent", []Header{{"User-Agent", "foo/1.0"}}, []string{accept, closing, "User-Agent: foo/1.0"}, "8"},
		{"empty user agent", []Header{{"User-Agent", ""}}, []string{accept, closing}, "9"},
		{"user agent and accept", []Header{{"User-Agent", "foo/1.0"}, {"Accept", "text/html"}}, []string{"Accept: text/html", closing, "User-Agent: foo/1.0"}, "11"},
		{"user agent and accept any", []Header{{"User-Agent", "foo/1.0"}, {"Accept", "foo/*"}}, []string{"Accept: foo/*", closing, "User-Agent: foo/1.0"}, "12"},
		{"custom and accept any", []Header{{"X-Muffins-Or-Cupcakes", "muffins"}, {"Accept", "foo/*"}}, []string{"Accept: foo/*", closing, ua, "X-Muffins-Or-Cupcakes: muffins"}, "13"},
		{"accept any", []Header{{"Accept", "foo/*"}}, []string{"Accept: foo/*", closing, ua}, "14"},
		{"empty accept", []Header{{"Accept", ""}}, []string{closing, ua}, "15"},
		{"user agent and empty accept", []Header{{"User-Agent", "foo/1.0"}, {"Accept", ""}}, []string{closing, "User-Agent: foo/1.0"}, "16"},
		{"own connection", []Header{{"Connection", "close"}, {"Content-Type", "text/a"}, {"Accept-Ranges", "bytes"}}, []string{accept, "Accept-Ranges: bytes", closing, "Content-Type: text/a", ua}, ""},
		{"name in odd letters", []Header{{"FOO-bAR", "x"}}, []string{accept, closing, "Foo-Bar: x", ua}, ""},
		{"twice the same", []Header{{"accept", "text/a"}, {"Accept", "text/b"}}, []string{"Accept: text/a", "Accept: text/b", closing, ua}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			covers(t, tt.kubelet)
			for _, host := range []string{"", "localhost"} {
				lines := strings.Split(strings.TrimSuffix(recordedRequest(t, &HTTPGet{Host: host, Headers: tt.headers}), "\r\n\r\n"), "\r\n")
				got := lines[2:]
				slices.Sort(got)
				want := slices.Clone(tt.want)
				slices.Sort(want)
				if !slices.Equal(got, want) {
					t.Errorf("host %q: got %q, want %q", host, got, want)
				}
			}
		})
	}
}

func TestHTTPRequestLine(t *testing.T) {
	for _, tt := range []struct {
		name, path, want string
		headers          []Header
		kubelet          string
	}{
		{"no path", "", "GET / HTTP/1.1\r\nHost: HOST:PORT\r\n", nil, ""},
		{"path", "/path", "GET /path HTTP/1.1\r\nHost: HOST:PORT\r\n", nil, ""},
		{"query alone", "?foo", "GET /?foo HTTP/1.1\r\n", nil, ""},
		{"query", "/path?bar", "GET /path?bar HTTP/1.1\r\n", nil, ""},
		{"no slash", "path", "GET /path HTTP/1.1\r\n", nil, ""},
		{"fragment", "/path#part", "GET /path HTTP/1.1\r\n", nil, ""},
		{"no reference", "/%zz", "GET /%25zz HTTP/1.1\r\n", nil, ""},
		{"a scheme", "foo:bar", "GET /foo:bar HTTP/1.1\r\n", nil, ""},
		{"another host", "http://example.com/path", "GET /path HTTP/1.1\r\nHost: HOST:PORT\r\n", nil, ""},
		{"a password", "//me:secret@example.com/", "GET / HTTP/1.1\r\nHost: HOST:PORT\r\n", nil, ""},
		{"Host header", "/", "GET / HTTP/1.1\r\nHost: muffins.cupcakes.org\r\n", []Header{{"Host", "muffins.cupcakes.org"}}, "18"},
		{"Host header in small letters", "/", "GET / HTTP/1.1\r\nHost: muffins.cupcakes.org\r\n", []Header{{"host", "muffins.cupcakes.org"}}, ""},
		{"two lines", "/a\r\nb: c", "GET /a%0D%0Ab:%20c HTTP/1.1\r\n", nil, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			covers(t, tt.kubelet)
			for host, shown := range map[string]string{"": "127.0.0.1", "localhost": "localhost"} {
				want := strings.ReplaceAll(tt.want, "HOST", shown)
				if got := recordedRequest(t, &HTTPGet{Host: host, Path: tt.path, Headers: tt.headers}); !strings.HasPrefix(got, want) {
					t.Errorf("host %q: got %q, want prefix %q", host, got, want)
				}
			}
		})
	}
}

func TestRequestURL(t *testing.T) {
	for _, tt := range []struct {
		name    string
		h       HTTPGet
		want    string
		kubelet string
	}{
		{"no path", HTTPGet{Scheme: "http", Host: "localhost", Port: 93}, "http://localhost:93", "51"},
		{"https", HTTPGet{Scheme: "https", Host: "localhost", Port: 93, Path: "/path"}, "https://localhost:93/path", "52"},
		{"query alone", HTTPGet{Scheme: "http", Host: "localhost", Port: 93, Path: "?foo"}, "http://localhost:93?foo", "53"},
		{"path and query", HTTPGet{Scheme: "http", Host: "localhost", Port: 93, Path: "/path?bar"}, "http://localhost:93/path?bar", "54"},
		{"no host", HTTPGet{Port: 93}, "http://127.0.0.1:93", "72"},
		{"no host, another port", HTTPGet{Port: 76}, "http://127.0.0.1:76", "73"},
		{"host, and a path without slash", HTTPGet{Host: "hostname", Port: 76, Path: "path"}, "http://hostname:76/path", "75"},
		{"scheme in capitals", HTTPGet{Scheme: "HTTPS", Port: 1}, "https://127.0.0.1:1", ""},
		{"IPv6", HTTPGet{Host: "::1", Port: 1, Path: "/"}, "http://[::1]:1/", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			covers(t, tt.kubelet)
			a, err := New(Config{}).httpProbe(&tt.h, loopback)
			if err != nil {
				t.Fatal(err)
			}
			req, err := newRequest(&tt.h, a.(*httpProbe).to.host, "ua")
			if err != nil || req.URL.String() != tt.want || req.Host != req.URL.Host || req.Method != http.MethodGet {
				t.Errorf("got %+v, %v, want %s", req, err, tt.want)
			}
		})
	}
}

func TestRequestHeader(t *testing.T) {
	for _, tt := range []struct {
		name    string
		list    []Header
		want    http.Header // besides the defaults
		kubelet string
	}{
		{"several", []Header{{"Connection", "Keep-Alive"}, {"Content-Type", "text/a"}, {"Accept-Ranges", "bytes"}},
			http.Header{"Connection": {"Keep-Alive"}, "Content-Type": {"text/a"}, "Accept-Ranges": {"bytes"}}, "55"},
		{"names in odd letters", []Header{{"HOST", "example.com"}, {"FOO-bAR", "x"}},
			http.Header{"Host": {"example.com"}, "Foo-Bar": {"x"}}, "56"},
		{"none", nil, nil, "57"},
		{"accept", []Header{{"Accept", "application/json"}}, http.Header{"Accept": {"application/json"}}, "58"},
		{"accept in small letters", []Header{{"accept", "application/json"}}, http.Header{"Accept": {"application/json"}}, "59"},
		{"same name twice", []Header{{"accept", "text/a"}, {"Accept", "text/b"}, {"pragma", "no-cache"}, {"X-forwarded-for", "me"}},
			http.Header{"Accept": {"text/a", "text/b"}, "Pragma": {"no-cache"}, "X-Forwarded-For": {"me"}}, "60"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			covers(t, tt.kubelet)
			want := http.Header{"Accept": {"*/*"}, "User-Agent": {"ua"}}
			maps.Copy(want, tt.want)
			got, err := requestHeader(tt.list, "ua")
			if err != nil || !maps.EqualFunc(got, want, slices.Equal) {
				t.Errorf("got %v, %v, want %v", got, err, want)
			}
		})
	}
}
