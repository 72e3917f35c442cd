package api

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"healthd/supervisor"
	"healthd/supervisor/core"
)

// withMetrics is an API that has all routes.
func withMetrics(views ...*core.View) *API {
	a, _, _ := newAPI(views...)
	a.metrics = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		w.Write([]byte("metric 1\n"))
	})
	a.report, a.fleet = fakeReport, theFleet()
	return a
}

// fakeReport knows the service shop/web, and several that are called web.
func fakeReport(service string, since time.Time) (Report, error) {
	switch service {
	case "", "shop/web":
	case "web":
		return Report{}, &supervisor.AmbiguousServiceError{Candidates: []string{"blog/web", "shop/web"}}
	default:
		return Report{}, supervisor.ErrUnknownService
	}
	p := ReportPeriod{ObservedSeconds: 10, ReadySeconds: 9.5, CapacitySeconds: 9, Outages: 1, LongestOutageSeconds: .5, Restarts: map[string]int{"exit": 1}}
	return Report{From: since.UTC(), To: at(9), Since: at(1), Services: []ServiceReport{{Name: "shop/web", Project: "shop", Total: p, Days: []ReportDay{{"2026-01-02", p}}}}}, nil
}

var parameter = regexp.MustCompile(`\{[a-z]+\}`)

// Every route is documented with the method that it has, and every documented path has its route.
func TestRoutesAreDocumented(t *testing.T) {
	c, a := theContract(t), withMetrics()
	routed, methods := http.NewServeMux(), map[string]string{}
	add := func(r route) {
		routed.HandleFunc(r.pattern, func(http.ResponseWriter, *http.Request) {})
		methods[r.pattern] = r.method
	}
	for _, r := range append(a.readOnlyRoutes(newLimits()), a.controlRoutes(newLimits())...) {
		add(r)
	}
	add(route{"", readyPattern, nil})
	found := map[string]bool{}
	for documented, item := range c.doc.Paths {
		_, pattern := routed.Handler(httptest.NewRequest(http.MethodGet, parameter.ReplaceAllString(documented, "x"), nil))
		method, ok := methods[pattern]
		if !ok {
			t.Errorf("%s is documented, and there is no such route", documented)
			continue
		}
		found[pattern] = true
		want := []string{strings.ToLower(method), "servers"}
		if method == "" {
			want = []string{"get"}
		}
		keys := []string{}
		for key := range item {
			keys = append(keys, key)
		}
		if slices.Sort(keys); !slices.Equal(keys, want) {
			t.Errorf("%s: documented are %v, want %v", documented, keys, want)
		}
		if op, err := c.operation(documented, want[0]); op == nil || err != nil || op.control() != (method != "") {
			t.Errorf("%s: %v, %v: control is %v", documented, op, err, method != "")
		}
	}
	for pattern := range methods {
		if !found[pattern] {
			t.Errorf("the route %s is not documented", pattern)
		}
	}
}

// A documented path answers the documented methods, and 405 to others, on each listener.
func TestMethodsOfDocumentedPaths(t *testing.T) {
	c, a := theContract(t), withMetrics(gatedContainer("x"))
	everything(a, nil)
	for documented, item := range c.doc.Paths {
		_, get := item["get"]
		_, control := item["servers"]
		for _, method := range []string{"GET", "HEAD", "OPTIONS", "POST", "PUT", "DELETE", "PATCH"} {
			_, want := item[strings.ToLower(method)]
			if method == "HEAD" || method == "OPTIONS" {
				want = get && !control
			}
			r := httptest.NewRequest(method, parameter.ReplaceAllString(documented, "x"), nil)
			if got := record(t, a.Control(), r).Code; (got != http.StatusMethodNotAllowed) != want {
				t.Errorf("%s %s: %d, documented: %v", method, documented, got, want)
			}
			got := record(t, a.ReadOnly(), r)
			unknown := got.Code == http.StatusMethodNotAllowed || strings.Contains(got.Body.String(), "no such path")
			if unknown == (want && !control) {
				t.Errorf("%s %s on the network: %d %s", method, documented, got.Code, got.Body)
			}
		}
	}
}

// Programs that read the document find what they look for: each reference, a unique name for each operation, and
// the parameters of each path. No schema is open: a new field without a description fails the tests.
func TestDocumentIsSound(t *testing.T) {
	c := theContract(t)
	used := map[string]bool{}
	walk(c.whole, func(at string, object map[string]any) {
		if ref, ok := object["$ref"].(string); ok {
			used[ref] = true
		}
		if _, ok := object["properties"]; ok && object["type"] == "object" && object["additionalProperties"] != false {
			t.Errorf("%s: additionalProperties is not false", at)
		}
	}, "")
	defined := map[string]bool{}
	for kind, all := range c.whole.(map[string]any)["components"].(map[string]any) {
		for name := range all.(map[string]any) {
			ref := "#/components/" + kind + "/" + name
			if defined[ref] = true; !used[ref] {
				t.Errorf("nothing refers to %s", ref)
			}
		}
	}
	for ref := range used {
		if !defined[ref] {
			t.Errorf("there is no %s", ref)
		}
	}
	names := map[string]string{}
	for documented, item := range c.doc.Paths {
		for method := range item {
			if method == "servers" {
				continue
			}
			op, err := c.operation(documented, method)
			if err != nil {
				t.Fatal(err)
			}
			if other, ok := names[op.OperationID]; ok || op.OperationID == "" {
				t.Errorf("%s and %s are both called %q", documented, other, op.OperationID)
			}
			names[op.OperationID] = documented
			c.checkParameters(t, documented, op)
		}
	}
}

func (c *contract) checkParameters(t *testing.T, documented string, op *operation) {
	t.Helper()
	var inPath []string
	for _, p := range op.Parameters {
		if p.Ref != "" {
			p = c.doc.Components.Parameters[path.Base(p.Ref)]
		}
		if p.In == "path" {
			inPath = append(inPath, "{"+p.Name+"}")
		}
		if p.Required != (p.In == "path") {
			t.Errorf("%s: %s is required: %v", documented, p.Name, p.Required)
		}
	}
	if want := parameter.FindAllString(documented, -1); !slices.Equal(inPath, want) {
		t.Errorf("%s has the parameters %v", documented, inPath)
	}
	if op.control() != strings.HasSuffix(op.Description, "Only on the control socket.") || len(op.Tags) != 1 {
		t.Errorf("%s: tags %v, and the description %q", documented, op.Tags, op.Description)
	}
}

// walk calls f for each object of a document with the place where it is.
func walk(value any, f func(at string, object map[string]any), at string) {
	switch value := value.(type) {
	case map[string]any:
		f(at, value)
		for key, inner := range value {
			walk(inner, f, at+"/"+key)
		}
	case []any:
		for _, inner := range value {
			walk(inner, f, at+"/-")
		}
	}
}

func TestDocumentIsServed(t *testing.T) {
	a := New(Config{Board: supervisor.NewBoard(nil)})
	for name, h := range map[string]http.Handler{"network": a.ReadOnly(), "control": a.Control()} {
		w := get(t, h, "/v1/openapi.json")
		if w.Code != http.StatusOK || !bytes.Equal(w.Body.Bytes(), openAPIDocument) || w.Header().Get("Content-Type") != "application/json" {
			t.Errorf("%s: %d %v", name, w.Code, w.Header())
		}
	}
	var head struct{ OpenAPI string }
	if err := json.Unmarshal(openAPIDocument, &head); err != nil || !strings.HasPrefix(head.OpenAPI, "3.1.") {
		t.Errorf("%q, %v", head.OpenAPI, err)
	}
}

// What compares answers with the document does fail.
func TestContractRefuses(t *testing.T) {
	c := theContract(t)
	good := get(t, withMetrics(readyContainer("web-1")).ReadOnly(), "/v1/containers/web-1").Body.String()
	for _, tt := range []struct {
		name, method, path string
		status             int
		kind, body         string
	}{
		{"a new field", "GET", "/v1/containers/web-1", 200, "application/json", strings.Replace(good, `"name":`, `"new":1,"name":`, 1)},
		{"a field less", "GET", "/v1/containers/web-1", 200, "application/json", strings.Replace(good, `"phase":"Running",`, "", 1)},
		{"a time that is none", "GET", "/v1/containers/web-1", 200, "application/json", strings.Replace(good, "2026-01-02T03:04:00Z", "yesterday", 1)},
		{"a new field deep inside", "GET", "/v1/containers/web-1", 200, "application/json", strings.Replace(good, `"startedAt":`, `"x":1,"startedAt":`, 1)},
		{"another type", "GET", "/v1/containers/web-1", 200, "text/plain", good},
		{"another status", "GET", "/v1/containers/web-1", 418, "application/json", good},
		{"another text", "GET", "/v1/ready/web-1", 200, "text/plain", "yes\n"},
		{"an unknown path", "GET", "/v1/nope", 200, "application/json", "{}"},
		{"an unknown method", "POST", "/v1/containers/web-1", 200, "application/json", good},
		{"an error that is none", "GET", "/v1/services/web", 404, "application/json", `{"err":"x"}`},
		{"no JSON", "GET", "/v1/services/web", 404, "application/json", `x`},
	} {
		r := httptest.NewRequest(tt.method, tt.path, nil)
		if err := c.check(r, tt.status, http.Header{"Content-Type": {tt.kind}}, []byte(tt.body)); err == nil {
			t.Errorf("%s: no error", tt.name)
		}
	}
	r := httptest.NewRequest("GET", "/v1/containers/web-1", nil)
	if err := c.check(r, 200, http.Header{"Content-Type": {"application/json"}}, []byte(good)); err != nil {
		t.Error(err)
	}
}
