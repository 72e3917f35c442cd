package api

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"healthd/runtime"
	"healthd/supervisor"
	"healthd/supervisor/core"
)

// A container that cannot be inspected is shown with the engine's words, and nothing can be done with it.
func TestUnseen(t *testing.T) {
	seen := readyContainer("web-1")
	unseen := func(id, name string) runtime.Unseen {
		return runtime.Unseen{Summary: runtime.Summary{ID: id, Name: name}, Err: errors.New("no such layer")}
	}
	a, _, _ := newAPI()
	a.board = supervisor.NewBoard([]supervisor.RuntimeView{{Name: "docker", Up: true, Synced: true, Unseen: []runtime.Unseen{
		unseen(strings.Repeat("e", 64), "web-2"), unseen(seen.Container.ID, "web-1"), // which has been seen since
	}}}, seen)
	for _, path := range []string{"/v1/containers", "/v1/named/web-2"} {
		var all []Status
		w := controlRequest(t, a, http.MethodGet, path)
		if err := json.Unmarshal(w.Body.Bytes(), &all); err != nil || len(all) == 0 {
			t.Fatalf("%s: %d %s", path, w.Code, w.Body)
		}
		last := all[len(all)-1]
		if last.Name != "web-2" || last.Phase != core.PhaseUnknown || last.Unseen != "no such layer" || len(all) > 1 && all[0].Unseen != "" || len(all) > 2 {
			t.Errorf("%s: %s", path, w.Body)
		}
	}
	var e Explanation
	w := controlRequest(t, a, http.MethodGet, "/v1/containers/web-2/explain")
	if err := json.Unmarshal(w.Body.Bytes(), &e); err != nil || !strings.Contains(strings.Join(e.Notes, ""), "no such layer") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := controlRequest(t, a, http.MethodGet, "/v1/containers/web-1"); !strings.Contains(w.Body.String(), `"ready": true`) && !strings.Contains(w.Body.String(), `"ready":true`) {
		t.Errorf("the supervised one is %s", w.Body)
	}
	if w := controlRequest(t, a, http.MethodPost, "/v1/containers/web-2/restart"); w.Code != http.StatusNotFound {
		t.Errorf("restart: %d %s", w.Code, w.Body)
	}
}
