package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"healthd/runtime"
	"healthd/supervisor"
	"healthd/supervisor/core"
)

// get asks a handler, and compares the answer with openapi.json.
func get(t testing.TB, h http.Handler, path string) *httptest.ResponseRecorder {
	t.Helper()
	return record(t, h, httptest.NewRequest(http.MethodGet, path, nil))
}

func record(t testing.TB, h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	checkAnswer(t, r, w.Code, w.Result().Header, w.Body.Bytes())
	return w
}

// indented formats JSON for golden files.
func indented(t *testing.T, body []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := json.Indent(&b, body, "", "  "); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	return b.Bytes()
}

func TestStatusObjects(t *testing.T) {
	crashed := backingOffContainer("crashed")
	ended := readyContainer("ended")
	ended.State.Engine.State, ended.State.Conditions.ContainerReady.Status, ended.State.Conditions.Ready.Status = runtime.Exited, false, false
	ended.State.Run.Exit = core.Exit{Code: 0, Reason: core.ReasonCompleted, StartedAt: at(0), FinishedAt: at(9)}
	again := unreadyContainer("again")
	again.State.Run.LastExit = core.Exit{Code: 1, Reason: core.ReasonError, StartedAt: at(0), FinishedAt: at(5)}
	again.Container.StopTimeout, again.Spec.TerminationGracePeriod = time.Minute, 10*time.Second
	a, _, _ := newAPI(readyContainer("web-1"), crashed, ended, again, drainingContainer("drained"), gatedContainer("gated"), invalidContainer("wrong"))
	w := get(t, a.ReadOnly(), "/v1/containers")
	golden(t, "containers.json", indented(t, w.Body.Bytes()))
	one := get(t, a.ReadOnly(), "/v1/containers/web-1")
	golden(t, "container.json", indented(t, one.Body.Bytes()))
	if got := one.Header().Get("Content-Type"); got != "application/json" {
		t.Errorf("content type %q", got)
	}
}

func TestServices(t *testing.T) {
	other := readyContainer("db-1")
	other.Service = "db"
	a, _, _ := newAPI(readyContainer("web-1"), unreadyContainer("web-2"), drainingContainer("web-3"), other, invalidContainer("wrong"))
	golden(t, "services.json", indented(t, get(t, a.ReadOnly(), "/v1/services").Body.Bytes()))
	golden(t, "service.json", indented(t, get(t, a.ReadOnly(), "/v1/services/db").Body.Bytes()))
	for path, want := range map[string]int{
		"/v1/services/shop/ready":        200,
		"/v1/services/shop/ready?min=1":  200,
		"/v1/services/shop/ready?min=0":  200,
		"/v1/services/shop/ready?min=2":  503,
		"/v1/services/shop/ready?min=x":  400,
		"/v1/services/shop/ready?min=-1": 400,
		"/v1/services/none/ready":        503,
		"/v1/services/none":              404,
	} {
		if got := get(t, a.ReadOnly(), path).Code; got != want {
			t.Errorf("%s: %d, want %d", path, got, want)
		}
	}
}

// A service of Compose is called PROJECT/SERVICE, and SERVICE while that is enough.
func TestServicesOfProjects(t *testing.T) {
	of := func(name, service string) *core.View {
		v := readyContainer(name)
		v.Service, v.Container.Labels = service, map[string]string{core.ComposeProject: service[:strings.Index(service, "/")]}
		return v
	}
	a, _, _ := newAPI(of("shop-web-1", "shop/web"), of("blog-web-1", "blog/web"), of("shop-db-1", "shop/db"), of("shop-ready-1", "shop/ready"))
	for path, want := range map[string]string{
		"/v1/services/shop/web":         `200 {"name":"shop/web",`,
		"/v1/services/shop%2Fweb":       `200 {"name":"shop/web",`,
		"/v1/services/db":               `200 {"name":"shop/db",`,
		"/v1/services/web":              `503 {"error":"several services have that name: blog/web, shop/web"}`,
		"/v1/services/other/web":        `404 {"error":"no supervised container belongs to service \"other/web\""}`,
		"/v1/services/shop/web/ready":   "200 ready",
		"/v1/services/shop%2Fweb/ready": "200 ready",
		"/v1/services/db/ready":         "200 ready",
		"/v1/services/db/ready?min=2":   "503 not ready: 1 of 1 endpoints ready, 2 needed",
		"/v1/services/web/ready":        "503 not ready: AmbiguousService: blog/web, shop/web",
		"/v1/services/shop/ready":       "503 not ready: 0 of 0 endpoints ready, 1 needed: no container has that service",
		"/v1/services/shop%2Fready":     `200 {"name":"shop/ready",`,
		"/v1/services/shop/ready/ready": "200 ready",
		"/v1/services/a/b/c":            "404 ",
		"/v1/ready/web/shop-web-1":      "200 ready",
		"/v1/ready/shop/web/shop-web-1": "200 ready",
		"/v1/ready/blog/web/shop-web-1": "503 not ready: OtherService",
	} {
		answer := get(t, a.ReadOnly(), path)
		if got := fmt.Sprint(answer.Code, " ", answer.Body); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
	var s Status
	if err := json.Unmarshal(get(t, a.ReadOnly(), "/v1/containers/shop-web-1").Body.Bytes(), &s); err != nil || s.Project != "shop" || s.Service != "shop/web" {
		t.Errorf("got %+v, %v", s, err)
	}
}

func TestReadOnlyChangesNothing(t *testing.T) {
	a, _, _ := newAPI(readyContainer("web-1"))
	url := serveTCP(t, a.ReadOnly())
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodPatch} {
		for _, path := range []string{"/v1/ready/web-1", "/v1/containers/web-1/restart", "/v1/containers/web-1/gates/a", "/v1/containers", "/"} {
			answer, body := ask(t, http.DefaultClient, method, url+path)
			if answer.StatusCode != http.StatusMethodNotAllowed || answer.Header.Get("Allow") != "GET, HEAD, OPTIONS" {
				t.Errorf("%s %s: %s %q", method, path, answer.Status, answer.Header.Get("Allow"))
			}
			if !strings.HasPrefix(body, `{"error":"`) {
				t.Errorf("%s %s: %s", method, path, body)
			}
		}
	}
}

func TestUnknownPaths(t *testing.T) {
	a, _, _ := newAPI(readyContainer("web-1"))
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete} {
		if answer, _ := ask(t, http.DefaultClient, method, serveTCP(t, a.ReadOnly())+"/nope"); answer.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %s", method, answer.Status)
		}
	}
	for _, path := range []string{
		"/nope", "/v1", "/v1/ready", "/v1/ready/", "/v1//containers", "/v1/containers/", "/v1/containers/nope",
		"/v1/containers/web-1/explain", "/v1/containers/web-1/restart", "/metrics", "/v1/../livez",
	} {
		w := get(t, a.ReadOnly(), path)
		if w.Code != http.StatusNotFound || !strings.HasPrefix(w.Body.String(), `{"error":"`) {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}

func TestHostileTextIsNotServedAsHTML(t *testing.T) {
	v := invalidContainer("web-1")
	v.Invalid = "<script>alert(1)</script>\n\x1b[2J"
	a, _, _ := newAPI(v)
	for _, path := range []string{"/v1/containers", "/nope/<script>", "/v1/containers/<script>", "/v1/ready/<script>"} {
		w := get(t, a.ReadOnly(), path)
		if strings.Contains(w.Body.String(), "<script") || strings.Contains(w.Header().Get("Content-Type"), "html") ||
			w.Header().Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %v %s", path, w.Header(), w.Body)
		}
	}
}

func TestLivez(t *testing.T) {
	a, _, c := newAPI()
	if w := get(t, a.ReadOnly(), "/livez"); w.Code != http.StatusOK {
		t.Errorf("status %d", w.Code)
	}
	c.ping = errors.New("no loop")
	if w := get(t, a.ReadOnly(), "/livez"); w.Code != http.StatusServiceUnavailable {
		t.Errorf("status %d", w.Code)
	}
}

func TestLivezWithAHungLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _, c := newAPI()
		c.pingWait = true
		if w := get(t, a.ReadOnly(), "/livez"); w.Code != http.StatusServiceUnavailable {
			t.Errorf("status %d", w.Code)
		}
	})
}

func TestReadyz(t *testing.T) {
	board := supervisor.NewBoard([]supervisor.RuntimeView{
		synced("a"), {Name: "b", Err: errors.New("no socket")}, {Name: "c"},
	})
	a := New(Config{Board: board})
	w := get(t, a.ReadOnly(), "/readyz")
	const want = "not ready: waiting for the first full list from b (no socket) c\n"
	if w.Code != http.StatusServiceUnavailable || w.Body.String() != want || w.Header().Get("Retry-After") != "" {
		t.Errorf("%d %q, want 503 %q", w.Code, w.Body, want)
	}
	a = New(Config{Board: supervisor.NewBoard([]supervisor.RuntimeView{synced("a"), {Name: "c"}})})
	if w := get(t, a.ReadOnly(), "/readyz"); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "1" {
		t.Errorf("before the first answer of an engine: %d %q", w.Code, w.Header())
	}
	a = New(Config{Board: supervisor.NewBoard([]supervisor.RuntimeView{synced("a")})})
	if w := get(t, a.ReadOnly(), "/readyz"); w.Code != http.StatusOK || w.Body.String() != "ok\n" {
		t.Errorf("%d %q", w.Code, w.Body)
	}
	lost := synced("b")
	lost.Up, lost.Err = false, errors.New("no socket")
	a = New(Config{Board: supervisor.NewBoard([]supervisor.RuntimeView{synced("a"), lost})})
	if w := get(t, a.ReadOnly(), "/readyz"); w.Code != http.StatusOK || w.Body.String() != "ok\nhealthd cannot reach runtime b: no socket\n" {
		t.Errorf("%d %q", w.Code, w.Body)
	}
}

func TestMetricsAndIndex(t *testing.T) {
	board := supervisor.NewBoard(nil)
	a := New(Config{Board: board, Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Write([]byte("metric 1\n"))
	})})
	if w := get(t, a.ReadOnly(), "/metrics"); w.Body.String() != "metric 1\n" {
		t.Errorf("metrics: %q", w.Body)
	}
	if w := get(t, a.ReadOnly(), "/"); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "/v1/containers") {
		t.Errorf("index: %d %q", w.Code, w.Body)
	}
}

func TestHeadersAreBounded(t *testing.T) {
	a, _, _ := newAPI()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, serveTCP(t, a.ReadOnly())+"/livez", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("X-Long", strings.Repeat("x", 32<<10))
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("status %d", answer.StatusCode)
	}
}
