package prober

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

func TestParseStatusRange(t *testing.T) {
	for text, want := range map[string]StatusRange{
		"200": {200, 200}, "200-299": {200, 299}, "100-599": {100, 599}, "404-404": {404, 404},
	} {
		got, err := ParseStatusRange(text)
		if err != nil || got != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
		if again, err := ParseStatusRange(got.String()); err != nil || again != got {
			t.Errorf("%q is shown as %q", text, got)
		}
	}
	for _, text := range []string{"", "-", "2xx", "20", "0200", "+20", "99", "600", "200-", "-200", "299-200", "200-299-300", "200 - 299", "200-600", "２００"} {
		if got, err := ParseStatusRange(text); err == nil {
			t.Errorf("%q is %v", text, got)
		}
	}
}

// bodyServer answers with the status, body and warning of the request's query, and in pieces whose
// length is not told before.
func bodyServer(t *testing.T) int {
	t.Helper()
	return webServer(t, func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		w.Header().Set("X-Health-Warning", q.Get("warning"))
		status, size := 200, 0
		_, _ = fmt.Sscan(q.Get("status"), &status)
		_, _ = fmt.Sscan(q.Get("fill"), &size)
		if status >= 300 && status < 400 {
			w.Header().Set("Location", "/?status=500")
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, strings.Repeat(" ", size))
		if q.Has("chunked") {
			w.(http.Flusher).Flush()
		}
		_, _ = io.WriteString(w, q.Get("body"))
	})
}

func TestExpect(t *testing.T) {
	const ok = `{"status":"up","n":1}`
	ranges := func(texts ...string) (all []StatusRange) {
		for _, text := range texts {
			r, err := ParseStatusRange(text)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, r)
		}
		return all
	}
	port := bodyServer(t)
	for _, tt := range []struct {
		name    string
		expect  Expect
		query   string
		outcome Outcome
		cause   Cause
		output  string
	}{
		{"nothing", Expect{}, "body=x", Success, "", "x"},
		{"nothing, 404", Expect{}, "status=404", Failure, Status, "status 404, wanted 200-399"},
		{"status", Expect{Status: ranges("200-299")}, "body=x", Success, "", "x"},
		{"one status", Expect{Status: ranges("204")}, "status=204", Success, "", ""},
		{"another status", Expect{Status: ranges("200-299")}, "status=503", Failure, Status, "status 503, wanted 200-299"},
		{"none of several", Expect{Status: ranges("200", "404-410")}, "status=403", Failure, Status, "status 403, wanted 200, 404-410"},
		{"one of several", Expect{Status: ranges("200", "404-410")}, "status=404&body=x", Success, "", "x"},
		{"a redirect that is followed", Expect{Status: ranges("200-299")}, "status=302", Failure, Status, "status 500, wanted 200-299"},
		{"a redirect that is right", Expect{Status: ranges("302")}, "status=302&body=x", Success, "", "x"},
		{"a redirect without a list", Expect{Body: "x"}, "status=302&body=x", Failure, Status, "status 500, wanted 200-399"},

		{"body", Expect{Body: "ok"}, "body=it+is+ok.", Success, "", "it is ok."},
		{"another body", Expect{Body: "ok"}, "body=s3cret", Failure, Content, `the body does not have "ok"`},
		{"no body", Expect{Body: "ok"}, "status=204", Failure, Content, `the body does not have "ok"`},
		{"body of a wrong status", Expect{Body: "ok"}, "status=500&body=ok", Failure, Status, "status 500, wanted 200-399"},
		{"body of a 404 that is right", Expect{Status: ranges("404"), Body: "ok"}, "status=404&body=ok", Success, "", "ok"},
		{"body after what the kubelet reads", Expect{Body: "ok"}, "fill=65000&body=ok", Success, "", strings.Repeat(" ", MaxOutput)},
		{"body at the bound", Expect{Body: "ok"}, fmt.Sprintf("fill=%d&body=ok", maxExpectBody-2), Success, "", strings.Repeat(" ", MaxOutput)},
		{"body beyond the bound", Expect{Body: "ok"}, fmt.Sprintf("fill=%d&body=ok", maxExpectBody-1), Failure, Content,
			`the body does not have "ok" in its first 65536 bytes, and more was not read`},
		{"hostile name of the body", Expect{Body: "\x1b" + strings.Repeat("x", 300)}, "body=x", Failure, Content,
			`the body does not have "\x1b` + strings.Repeat("x", maxQuote-1) + `"…`},

		{"JSON", Expect{JSON: "status == 'up'"}, "body=" + ok, Success, "", ok},
		{"JSON that is different", Expect{JSON: "n == 2"}, "body=" + ok, Failure, Content, `"n == 2" does not hold: n is 1`},
		{"no JSON", Expect{JSON: "n == 2"}, "body=s3cret", Failure, Content, `the body is not JSON`},
		{"JSON of another status", Expect{JSON: "n == 1"}, "status=500&body=" + ok, Failure, Status, "status 500, wanted 200-399"},
		{"JSON beyond the bound", Expect{JSON: "n == 1"}, "fill=65600&body=" + ok, Failure, Content,
			"the body has more than 65536 bytes, too many for a test of JSON"},
		{"JSON and body", Expect{JSON: "n == 1", Body: "down"}, "body=" + ok, Failure, Content, `the body does not have "down"`},

		{"no warning", Expect{WarningHeader: "x-health-warning"}, "body=x", Success, "", "x"},
		{"warning", Expect{WarningHeader: "x-health-warning"}, "body=x&warning=disk+90%25", Success, Warned, "disk 90%"},
		{"warning that nobody asked for", Expect{}, "body=x&warning=disk", Success, "", "x"},
		{"warning of a failure", Expect{WarningHeader: "X-Health-Warning"}, "status=500&warning=disk", Failure, Status, "status 500, wanted 200-399"},
		{"warning of a body that is wrong", Expect{WarningHeader: "X-Health-Warning", Body: "ok"}, "warning=disk", Failure, Content, `the body does not have "ok"`},
		{"long warning", Expect{WarningHeader: "X-Health-Warning"}, "warning=" + strings.Repeat("w", 2*MaxOutput), Success, Warned, strings.Repeat("w", MaxOutput)},
	} {
		for _, how := range []string{"", "&chunked"} {
			t.Run(tt.name+how, func(t *testing.T) {
				r := ask(t, Handler{HTTPGet: &HTTPGet{Port: port, Path: "/?" + tt.query + how, Expect: &tt.expect}})
				wantResult(t, r, tt.outcome, tt.cause)
				want := tt.output
				if tt.outcome == Failure {
					want = fmt.Sprintf("GET http://127.0.0.1:%d/?%s: %s", port, tt.query+how, want)
				}
				if r.Output != want || r.Warning != (tt.cause == Warned) {
					t.Errorf("warning %v, output %q, want %q", r.Warning, r.Output, want)
				}
			})
		}
	}
}

// A server may compress what it was not asked to.
func TestExpectOfACompressedBody(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n"
	for _, reply := range []string{head + "Content-Length: 4\r\n\r\n\x1f\x8b\b\x00", head + "Transfer-Encoding: chunked\r\n\r\n4\r\n\x1f\x8b\b\x00\r\n0\r\n\r\n"} {
		r := ask(t, Handler{HTTPGet: &HTTPGet{Port: serveText(t, reply), Expect: &Expect{Body: "ok"}}})
		wantResult(t, r, Failure, Content)
		wantOutput(t, r, `the body does not have "ok"; it has the Content-Encoding "gzip", which healthd does not undo`)
	}
}

// A body that ends early is no body, even where what is there has what is expected.
func TestExpectOfHalfABody(t *testing.T) {
	port := serveText(t, "HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\nok")
	wantResult(t, ask(t, Handler{HTTPGet: &HTTPGet{Port: port, Expect: &Expect{Body: "ok"}}}), Failure, Reset)
}

// Long bodies must not stay in memory once they are judged.
func TestLongBodiesAreNotKept(t *testing.T) {
	port := bodyServer(t)
	p := New(Config{})
	x := newExchange()
	p.exchanges.New = func() any { return x }
	h := Handler{HTTPGet: &HTTPGet{Port: port, Path: "/?fill=60000&body=ok", Expect: &Expect{Body: "ok"}}}
	probe, err := p.Probe(h, loopback)
	if err != nil {
		t.Fatal(err)
	}
	wantResult(t, probe.Ask(t.Context(), longTimeout), Success, "")
	if n := x.body.Cap(); n > keepBody {
		t.Errorf("%d bytes are kept", n)
	}
}

func TestMethods(t *testing.T) {
	var seen atomic.Value
	port := webServer(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		seen.Store(fmt.Sprintf("%s %s %d", r.Method, r.URL.Path, len(body)))
		if r.URL.Path == "/old" {
			http.Redirect(w, r, "/new", http.StatusTemporaryRedirect)
			return
		}
		_, _ = io.WriteString(w, "hello")
	})
	for _, tt := range []struct {
		method, path string
		cause        Cause
		seen, output string
	}{
		{"", "/new", "", "GET /new 0", "hello"},
		{"GET", "/old", "", "GET /new 0", "hello"},
		{"HEAD", "/new", "", "HEAD /new 0", ""},
		{"HEAD", "/old", "", "HEAD /new 0", ""},
		{"POST", "/new", "", "POST /new 0", "hello"},
		{"POST", "/old", Redirect, "POST /old 0", "Probe terminated redirects, Response body: "},
		{"OPTIONS", "/new", "", "OPTIONS /new 0", "hello"},
		{"OPTIONS", "/old", Redirect, "OPTIONS /old 0", "Probe terminated redirects, Response body: "},
	} {
		for _, host := range []string{"", "localhost"} { // with exchange, and with net/http
			r := ask(t, Handler{HTTPGet: &HTTPGet{Host: host, Port: port, Method: tt.method, Path: tt.path}})
			wantResult(t, r, Success, tt.cause)
			if seen.Load() != tt.seen || r.Output != tt.output {
				t.Errorf("%s %s of %q: asked %q, output %q", tt.method, tt.path, host, seen.Load(), r.Output)
			}
		}
		if r := runHook(t, LifecycleHandler{HTTPGet: &HTTPGet{Port: port, Method: tt.method, Path: tt.path}}); r != (HookResult{}) || seen.Load() != tt.seen {
			t.Errorf("hook %s %s: %+v, asked %q", tt.method, tt.path, r, seen.Load())
		}
	}
	closed := closedPort(t)
	r := ask(t, Handler{HTTPGet: &HTTPGet{Port: closed, Method: "POST", Path: "/x"}})
	wantOutput(t, r, fmt.Sprintf(`POST http://127.0.0.1:%d/x: `, closed))
	hook := runHook(t, LifecycleHandler{HTTPGet: &HTTPGet{Port: closed, Method: "POST", Path: "/x"}})
	wantError(t, hook.Err, fmt.Sprintf(`cannot send POST to "http://127.0.0.1:%d/x": dial tcp 127.0.0.1:%d: connect: connection refused`, closed, closed))
}

func TestHandlersThatExpectWhatCannotBe(t *testing.T) {
	for want, get := range map[string]HTTPGet{
		`method is "PUT", not GET, HEAD, POST or OPTIONS`:                                       {Method: "PUT"},
		"the reply to HEAD has no body to expect something of":                                  {Method: "HEAD", Expect: &Expect{Body: "x"}},
		"cannot read the test of JSON: want a path such as status or checks[0].ok at character": {Expect: &Expect{JSON: "=="}},
	} {
		get.Port = 80
		_, err := New(Config{}).Probe(Handler{HTTPGet: &get}, loopback)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	head := HTTPGet{Port: 80, Method: "HEAD", Expect: &Expect{Status: []StatusRange{{200, 299}}}}
	if _, err := New(Config{}).Probe(Handler{HTTPGet: &head}, loopback); err != nil {
		t.Error(err)
	}
}
