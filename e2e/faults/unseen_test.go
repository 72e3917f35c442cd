package faults

import (
	"net/http"
	"strings"
	"testing"

	"healthd/e2e/harness"
	"healthd/runtime/docker/dockertest"
)

// A container that runs, and that its engine lists but does not show, is in the table with the engine's words. When the
// engine shows it, healthd takes it in.
func TestContainerThatCannotBeInspected(t *testing.T) {
	harness.RingTwo(t, "make test-engines")
	t.Parallel()
	e := harness.Docker.Engine(t)
	proxy := harness.StartProxy(t, e)
	id := e.Run(t, dockertest.RunOptions{Name: "hidden", Labels: map[string]string{"e2e": "hidden"}})
	proxy.On("GET /containers/"+id+"/json", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, `{"message": "no such layer"}`, http.StatusInternalServerError)
	})
	d := harness.StartDaemon(t, proxy.Endpoint(), "[[spec]]\nname = \"hidden\"\nmatch = { e2e = \"hidden\" }\n")
	d.Until("hidden", "shown as Unknown", func(s harness.Status) bool { return s.Phase == "Unknown" && !s.Ready })
	for _, command := range []string{"status", "explain"} {
		out, code := d.Run(command, "hidden")
		if code != 0 || !strings.Contains(out, "Unknown") || !strings.Contains(out, "no such layer") {
			t.Errorf("%s: %d\n%s", command, code, out)
		}
	}
	proxy.ClearFaults()
	d.Until("hidden", "taken in", harness.Ready)
}
