package api

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"healthd/supervisor/core"
)

func TestNamed(t *testing.T) {
	of := func(service string, v *core.View) *core.View { v.Service = service; return v }
	a, _, _ := newAPI(of("shop/web", readyContainer("web-1")), of("shop/web", readyContainer("web-2")), of("blog/web", readyContainer("web-3")))
	for name, want := range map[string]string{"web-1": "web-1", "shop/web": "web-1 web-2", "blog/web": "web-3"} {
		w := controlRequest(t, a, http.MethodGet, "/v1/named/"+name)
		var all []Status
		err := json.Unmarshal(w.Body.Bytes(), &all)
		var got []string
		for _, s := range all {
			got = append(got, s.Name)
		}
		if w.Code != http.StatusOK || err != nil || strings.Join(got, " ") != want {
			t.Errorf("%s: %d %s, want %s", name, w.Code, w.Body, want)
		}
	}
	for name, want := range map[string]int{"web": http.StatusConflict, "nope": http.StatusNotFound, "": http.StatusNotFound, "../containers": http.StatusNotFound} {
		if w := controlRequest(t, a, http.MethodGet, "/v1/named/"+name); w.Code != want || !strings.Contains(w.Body.String(), "error") {
			t.Errorf("%q: %d %s, want %d", name, w.Code, w.Body, want)
		}
	}
	if w := get(t, a.ReadOnly(), "/v1/named/web-1"); w.Code != http.StatusNotFound {
		t.Errorf("to the network: %d", w.Code)
	}
}
