package api

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"healthd/supervisor"
)

// controlRequest sends a request to the handler of the control socket.
func controlRequest(t testing.TB, a *API, method, path string) *httptest.ResponseRecorder {
	t.Helper()
	return record(t, a.Control(), httptest.NewRequest(method, path, nil))
}

func TestHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _, c := newAPI(readyContainer("web-1"))
		var asked time.Time
		c.hold = func(id string, until time.Time) error {
			if id != readyContainer("web-1").Container.ID {
				t.Errorf("of %s", id)
			}
			asked = until
			return nil
		}
		for path, want := range map[string]time.Time{
			"hold":              {},
			"hold?for=10m":      time.Now().Add(10 * time.Minute),
			"hold?for=1ns":      time.Now().Add(time.Nanosecond),
			"hold?for=87600h":   time.Now().Add(MaxHold),
			"hold?for=1h30m&x=": time.Now().Add(90 * time.Minute),
		} {
			asked = time.Unix(1, 0)
			w := controlRequest(t, a, http.MethodPost, "/v1/containers/web-1/"+path)
			if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"name":"web-1"`) || !asked.Equal(want) {
				t.Errorf("%s: until %v, want %v: %d %s", path, asked, want, w.Code, w.Body)
			}
		}
	})
}

// Only a missing parameter makes a hold without an end.
func TestHoldWithInvalidDuration(t *testing.T) {
	a, _, c := newAPI(readyContainer("web-1"))
	c.hold = func(string, time.Time) error { t.Error("it was held"); return nil }
	for query, want := range map[string]string{
		"for=":         `for must be a duration such as 10m, it is \"\"`,
		"for":          `for must be a duration such as 10m, it is \"\"`,
		"for=10":       `for must be a duration such as 10m, it is \"10\"`,
		"for=0":        `for must be more than 0s, it is \"0\"`,
		"for=-1m":      `for must be more than 0s, it is \"-1m\"`,
		"for=87600h1s": `for must be at most 87600h, which is 10 years, it is \"87600h1s\"`,
		"for=9999999h": `for must be a duration such as 10m`,
		"for=1m;x=2":   "the parameters cannot be read",
	} {
		w := controlRequest(t, a, http.MethodPost, "/v1/containers/web-1/hold?"+query)
		if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %d %s, want 400 %s", query, w.Code, w.Body, want)
		}
	}
}

func TestResume(t *testing.T) {
	a, _, c := newAPI(readyContainer("web-1"))
	resumed := ""
	c.resume = func(id string) error { resumed = id; return nil }
	w := controlRequest(t, a, http.MethodPost, "/v1/containers/web-1/resume")
	if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"held":false`) || resumed != readyContainer("web-1").Container.ID {
		t.Errorf("%q: %d %s", resumed, w.Code, w.Body)
	}
}

func TestHoldErrors(t *testing.T) {
	a, _, c := newAPI(readyContainer("web-1"))
	for want, err := range map[int]error{503: supervisor.ErrStopping, 404: supervisor.ErrUnknownContainer, 409: errors.New("its labels are invalid")} {
		c.hold = func(string, time.Time) error { return err }
		c.resume = func(string) error { return err }
		for _, what := range []string{"hold", "resume"} {
			w := controlRequest(t, a, http.MethodPost, "/v1/containers/web-1/"+what)
			if w.Code != want || !strings.Contains(w.Body.String(), err.Error()) {
				t.Errorf("%s: %v: %d %s, want %d", what, err, w.Code, w.Body, want)
			}
			if w := controlRequest(t, a, http.MethodPost, "/v1/containers/nobody/"+what); w.Code != http.StatusNotFound {
				t.Errorf("%s of nobody: %d %s", what, w.Code, w.Body)
			}
			if w := controlRequest(t, a, http.MethodGet, "/v1/containers/web-1/"+what); w.Code != http.StatusMethodNotAllowed {
				t.Errorf("GET %s: %d %s", what, w.Code, w.Body)
			}
			if w := get(t, a.ReadOnly(), "/v1/containers/web-1/"+what); w.Code != http.StatusNotFound {
				t.Errorf("%s on the network: %d %s", what, w.Code, w.Body)
			}
		}
	}
}

func TestRestartOfAHeldContainer(t *testing.T) {
	a, _, c := newAPI(readyContainer("web-1"))
	c.restart = func(string) error { return supervisor.ErrHeld }
	w := controlRequest(t, a, http.MethodPost, "/v1/containers/web-1/restart")
	if w.Code != http.StatusConflict || !strings.Contains(w.Body.String(), "an operator holds the container") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
