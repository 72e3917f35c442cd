package engines

import (
	"strings"
	"testing"

	"healthd/e2e/harness"
	"healthd/runtime/docker/dockertest"
)

// A body that is not complete within the timeout is a Failure, even with status 200.
func stalledBodyIsAFailure(t *testing.T, e harness.Engine) {
	d := harness.StartDaemonOn(t, e, `
[[spec]]
name = "stutters"
match = { e2e = "stutters" }
[spec.readiness]
http_get = { port = 8080 }
period = "300ms"
timeout = "1s"
failure_threshold = 1
`)
	reply := `printf 'HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nwell'; test -e /stalls && sleep 100; printf ' done'`
	e.Run(t, dockertest.RunOptions{Name: "stutters", Labels: map[string]string{"e2e": "stutters"},
		Cmd: []string{"nc", "-ll", "-p", "8080", "-e", "sh", "-c", reply}})
	d.Until("stutters", "ready while its body is whole", harness.Ready)
	harness.Inside(t, e, "stutters", "touch", "/stalls")
	d.Until("stutters", "unready for what is missing of its body", func(s harness.Status) bool {
		r := s.Probes["readiness"]
		return !s.Ready && r.Outcome == "Failure" && r.Result == "Failure" && strings.Contains(r.Output, "body not complete within 1s")
	})
}
