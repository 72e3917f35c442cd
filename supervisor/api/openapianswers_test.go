package api

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"healthd/prober"
	"healthd/supervisor"
	"healthd/supervisor/core"
)

// everything makes all requests to the control socket succeed, or fail with err.
func everything(a *API, err error) {
	c := a.controller.(*controller)
	c.restart, c.resume = func(string) error { return err }, func(string) error { return err }
	c.hold = func(string, time.Time) error { return err }
	c.setGate = func(string, string, bool) error { return err }
	c.ask = func(string, core.ProbeType) (prober.Result, error) {
		return prober.Result{Outcome: prober.Success, Latency: time.Millisecond}, err
	}
	a.reloader = func(context.Context) (Reload, *ReloadError) {
		return Reload{Specs: []string{}, Warnings: []string{}, NeedsRestart: []string{}}, nil
	}
	a.testNotify = func(_ context.Context, name string) ([]NotifyTest, error) {
		if name == "nobody" {
			return nil, errors.New("there is no such receiver")
		}
		return []NotifyTest{{Receiver: "oncall", Seconds: 0.1}, {Receiver: "chat", Error: "it answers 500", Seconds: 1}}, nil
	}
}

// answers collects which documented answers tests have seen.
type answers struct {
	*contract
	seen map[string]bool
}

// want asks a handler, compares the answer with openapi.json, and notes it as seen.
func (s *answers) want(t *testing.T, h http.Handler, status int, method, path, body string) {
	t.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	w := record(t, h, r)
	if w.Code != status {
		t.Errorf("%s %s: %d %s, want %d", method, path, w.Code, w.Body, status)
	}
	_, op, err := s.find(r)
	if op == nil || err != nil {
		t.Fatalf("%s %s is not documented: %v", method, path, err)
	}
	s.seen[op.OperationID+" "+strconv.Itoa(status)] = true
}

// Each documented answer is one that healthd gives, and looks as it should.
func TestDocumentedAnswers(t *testing.T) {
	s := &answers{theContract(t), map[string]bool{}}
	s.ofTheNetwork(t)
	s.ofContainers(t)
	s.ofRecords(t)
	s.ofRequests(t)
	s.ofFleets(t)
	s.ofBrokenDaemons(t)
	s.ofWrongHosts(t)
	s.ofCrowds(t)
	s.ofBrowsers(t)
	const elsewhere = "getMetrics 503" // in package metrics
	for documented, item := range s.doc.Paths {
		for method := range item {
			if method == "servers" {
				continue
			}
			op, err := s.operation(documented, method)
			if err != nil {
				t.Fatal(err)
			}
			for status := range op.Responses {
				answer := op.OperationID + " " + status
				if !s.seen[answer] && answer != elsewhere {
					t.Errorf("%s is documented, and no test has seen it", answer)
				}
			}
		}
	}
}

func of(service string, v *core.View) *core.View { v.Service = service; return v }

func (s *answers) ofTheNetwork(t *testing.T) {
	t.Helper()
	a := withMetrics(of("shop/web", readyContainer("web-1")), of("shop/web", drainingContainer("web-2")), of("blog/web", unreadyContainer("web-3")), of("db", readyContainer("db-1")))
	for path, status := range map[string]int{
		"/": 200, "/page/index.html": 200, "/page/none.js": 404, "/livez": 200, "/readyz": 200, "/v1/openapi.json": 200, "/metrics": 200, "/v1/services": 200, "/v1/discovery/traefik": 200, "/v1/discovery/prometheus": 200, "/v1/containers": 200, "/v1/events": 200, "/v1/daemon": 200,
		"/v1/ready/web-1": 200, "/v1/ready/web-2": 404, "/v1/ready/web-3": 503, "/v1/ready/web/web-1": 200, "/v1/ready/web/web-2": 404,
		"/v1/ready/db/web-1": 503, "/v1/ready/shop/web/web-1": 200, "/v1/ready/shop/web/web-2": 404, "/v1/ready/blog/web/web-1": 503,
		"/v1/services/db": 200, "/v1/services/none": 404, "/v1/services/web": 503, "/v1/services/shop/web": 200, "/v1/services/shop/none": 404,
		"/v1/services/db/ready": 200, "/v1/services/db/ready?min=x": 400, "/v1/services/web/ready": 503,
		"/v1/services/shop/web/ready": 200, "/v1/services/shop/web/ready?min=x": 400, "/v1/services/shop/web/ready?min=2": 503,
		"/v1/containers/web-1": 200, "/v1/containers/none": 404, "/v1/events?n=x": 400, "/v1/events?after=x": 400,
		"/v1/containers/web-1/timeline": 200, "/v1/containers/none/timeline": 404, "/v1/overview": 200, "/v1/overview?container=web-1": 200, "/v1/overview?container=none": 404,
		"/v1/report": 200, "/v1/report?since=1h&service=shop/web": 200, "/v1/report?since=90d": 200, "/v1/report?since=59m": 400, "/v1/report?since=91d": 400,
		"/v1/report?since=x": 400, "/v1/report?service=none": 404, "/v1/report?service=web": 503,
	} {
		s.want(t, a.ReadOnly(), status, http.MethodGet, path, "")
		s.want(t, a.Control(), status, http.MethodGet, path, "")
	}
}

// Every kind of container has a status and an explanation that are as documented.
func (s *answers) ofContainers(t *testing.T) {
	t.Helper()
	named := unreadyContainer("named")
	named.Container.Namespace, named.Container.RestartPolicy, named.Spec.Observe = "blog", "always", true
	named.State.Certificates[core.Readiness] = &core.Certificate{NotAfter: at(60)}
	gone := withFailedLiveness(readyContainer("gone"), core.Wait{Reason: core.WaitGroupLimit, On: "web-2", Until: at(50)})
	never := readyContainer("never")
	never.State = core.NewState()
	for _, v := range []*core.View{
		readyContainer("a"), unreadyContainer("a"), drainingContainer("a"), backingOffContainer("a"), gatedContainer("a"), invalidContainer("a"),
		heldContainer("a", true), heldContainer("a", false), named, gone, never,
	} {
		a, j, _ := newAPI(v)
		j.Record(event(v.Container.Name, "Started", at(1)))
		s.want(t, a.Control(), 200, http.MethodGet, "/v1/containers/"+v.Container.Name, "")
		s.want(t, a.Control(), 200, http.MethodGet, "/v1/containers/"+v.Container.Name+"/explain", "")
		s.want(t, a.ReadOnly(), 200, http.MethodGet, "/v1/containers/"+v.Container.Name+"/timeline", "")
		s.want(t, a.ReadOnly(), 200, http.MethodGet, "/v1/overview", "")
	}
}

// requests are those of the control socket that change something, with the status of a success.
var requests = []struct {
	method, path, body string
	status             int
}{
	{http.MethodPost, "/v1/containers/NAME/restart", "", 202},
	{http.MethodPost, "/v1/containers/NAME/probe", "", 200},
	{http.MethodPost, "/v1/containers/NAME/hold", "", 200},
	{http.MethodPost, "/v1/containers/NAME/resume", "", 200},
	{http.MethodPut, "/v1/containers/NAME/gates/ok", "True", 200},
	{http.MethodPut, "/v1/containers/NAME/gates/example.com/warm", "False", 200},
}

func (s *answers) ofRequests(t *testing.T) {
	t.Helper()
	twin := gatedContainer("twin")
	twin.Container.Runtime, twin.Container.Name = "containerd", "web-1"
	for err, status := range map[error]int{nil: 0, supervisor.ErrHeld: 409, supervisor.ErrStopping: 503, context.DeadlineExceeded: 504} {
		a, _, _ := newAPI(gatedContainer("web-1"))
		everything(a, err)
		for _, r := range requests {
			want := status
			if err == nil {
				want = r.status
			}
			s.want(t, a.Control(), want, r.method, strings.Replace(r.path, "NAME", "web-1", 1), r.body)
			s.want(t, a.Control(), 404, r.method, strings.Replace(r.path, "NAME", "none", 1), r.body)
		}
		for path, body := range map[string]string{"probe?type=x": "", "hold?for=x": "", "gates/ok": "yes", "gates/example.com/warm": ""} {
			method := http.MethodPost
			if strings.HasPrefix(path, "gates") {
				method = http.MethodPut
			}
			s.want(t, a.Control(), 400, method, "/v1/containers/web-1/"+path, body)
		}
	}
	told, _, _ := newAPI()
	everything(told, nil)
	s.want(t, told.Control(), 200, http.MethodPost, "/v1/notify/test", "")
	s.want(t, told.Control(), 404, http.MethodPost, "/v1/notify/test?receiver=nobody", "")
	a, _, _ := newAPI(of("shop/web", gatedContainer("web-1")), of("blog/web", twin), of("db/db", readyContainer("db")))
	for path, status := range map[string]int{
		"/v1/containers/web-1": 409, "/v1/containers/web-1/explain": 409, "/v1/containers/web-1/timeline": 409, "/v1/overview?container=web-1": 409, "/v1/containers/none/explain": 404,
		"/v1/named/db": 200, "/v1/named/none": 404, "/v1/named/web": 409, "/v1/named/shop/web": 200, "/v1/named/shop/none": 404,
		"/v1/unsupervised":          200,
		"/debug/pprof/heap?debug=1": 200, "/debug/pprof/none": 404,
	} {
		s.want(t, a.Control(), status, http.MethodGet, path, "")
	}
}

// ofBrokenDaemons asks daemons whose loop hangs, that know no engine yet, and whose files are wrong.
func (s *answers) ofBrokenDaemons(t *testing.T) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		starting := New(Config{Board: supervisor.NewBoard([]supervisor.RuntimeView{{Name: "docker"}}), Controller: &controller{ping: errors.New("it hangs")}})
		for _, path := range []string{"/livez", "/readyz", "/v1/ready/x", "/v1/services/x/ready", "/v1/discovery/traefik", "/v1/discovery/prometheus"} {
			s.want(t, starting.ReadOnly(), 503, http.MethodGet, path, "")
		}
	})
	for status, refused := range map[int]*ReloadError{200: nil, 409: {Text: "1 problem", Problems: []string{"a.toml:1: b: c"}}, 503: {Text: "healthd is shutting down"}} {
		a, _, _ := newAPI()
		a.reloader = func(context.Context) (Reload, *ReloadError) {
			return Reload{Specs: []string{"web"}, Warnings: []string{"w"}, NeedsRestart: []string{"listen.http"}}, refused
		}
		s.want(t, a.Control(), status, http.MethodPost, "/v1/reload", "")
	}
}

// ofBrowsers asks for the page, and for what a browser has already.
func (s *answers) ofBrowsers(t *testing.T) {
	t.Helper()
	h := withMetrics().ReadOnly()
	for path, operation := range map[string]string{"/": "getIndex", "/page/index.html": "getPageFile"} {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.Header.Set("Accept", "text/html,application/xhtml+xml,*/*;q=0.8")
		first := record(t, h, r)
		r.Header.Set("If-None-Match", first.Header().Get("ETag"))
		again := record(t, h, r)
		if first.Code != http.StatusOK || again.Code != http.StatusNotModified || !strings.HasPrefix(first.Header().Get("Content-Type"), "text/html") {
			t.Errorf("%s: %d, again %d", path, first.Code, again.Code)
		}
		s.seen[operation+" 304"] = true
	}
}

// ofWrongHosts asks everything by a name that the listener does not have.
func (s *answers) ofWrongHosts(t *testing.T) {
	t.Helper()
	h := OnlyHosts(withMetrics().ReadOnly(), nil)
	for documented, item := range s.doc.Paths {
		if _, ok := item["get"]; ok && item["servers"] == nil {
			s.want(t, h, 421, http.MethodGet, "http://evil.example.com"+parameter.ReplaceAllString(documented, "x"), "")
		}
	}
}

// ofCrowds asks for lists while others read as many as a listener writes.
func (s *answers) ofCrowds(t *testing.T) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		a, l, mux := withMetrics(), newLimits(), http.NewServeMux()
		for range maxLists {
			l.lists <- struct{}{}
		}
		a.listing <- struct{}{}
		for _, r := range append(a.readOnlyRoutes(l), a.controlRoutes(l)...) {
			mux.HandleFunc(r.pattern, r.handler)
		}
		for _, path := range []string{"/v1/services", "/v1/discovery/traefik", "/v1/discovery/prometheus", "/v1/containers", "/v1/overview", "/v1/events", "/v1/report", "/v1/fleet", "/v1/daemon", "/v1/named/x", "/v1/named/x/x", "/v1/unsupervised"} {
			s.want(t, mux, 503, http.MethodGet, path, "")
		}
	})
}
