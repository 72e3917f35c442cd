package docker

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// A proxy, or something else that listens there, may answer in JSON that names no command. healthd would ask for ever
// whether that one still runs.
func TestAnswersThatNameNoCommand(t *testing.T) {
	for _, answer := range []string{"{}", "null", `{"Id":""}`} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Api-Version", "1.45")
			w.Header().Set("Content-Type", "application/json")
			if !strings.HasSuffix(r.URL.Path, "/_ping") && !strings.HasSuffix(r.URL.Path, "/containers/web/exec") {
				t.Errorf("%s: asked %s", answer, r.URL.Path)
			}
			_, _ = w.Write([]byte(answer))
		}))
		t.Cleanup(server.Close)
		e, err := New(Config{Endpoint: strings.Replace(server.URL, "http", "tcp", 1)})
		if err != nil {
			t.Fatal(err)
		}
		_, _, _, err = e.Exec(t.Context(), "web", []string{"true"}, time.Minute, 0, nil)
		if err == nil || err.Error() != "cannot run a command in container web: the engine's answer names no command" {
			t.Errorf("%s: %v", answer, err)
		}
	}
}
