package faults

import (
	"fmt"
	"strings"
	"testing"

	"healthd/e2e/harness"
	"healthd/runtime/docker/dockertest"
)

const honestSpec = `
[[spec]]
name = "honest"
match = { e2e = "honest" }
readiness = { tcp_socket = { port = 8080 }, period = "1s", timeout = "30s" }
[spec.backoff]
initial = "1s"
`

// Containers that a tenant creates, and never starts, have labels of 280 MB in all. healthd goes on with the others,
// and a new daemon becomes ready beside them.
func TestLargeLabels(t *testing.T) {
	t.Parallel()
	e := dockertest.Start(t)
	d := harness.StartedDaemon(confined(plain(harness.NewDaemon(t, e.Endpoint, honestSpec)), 64<<20))
	create := func(name string, number, size int) string {
		labels := map[string]string{}
		for i := range number {
			labels[fmt.Sprintf("a%03d", i)] = strings.Repeat("x", size)
		}
		return e.Create(t, dockertest.RunOptions{Name: name, Labels: labels})
	}
	honest := e.Run(t, dockertest.RunOptions{Name: "honest", Labels: map[string]string{"e2e": "honest"}})
	restarts := 0
	crash := func(beside string) {
		t.Helper()
		restarts++
		harness.Crash(t, e, honest)
		d.Until("honest", "restarted and ready beside "+beside, func(s harness.Status) bool {
			return s.Ready && s.RestartCount == restarts
		})
	}
	d.Until("honest", "ready", harness.Ready)
	before := memoryOf(d, "VmRSS")
	resetPeak(d)
	create("tenant-event", 30, 100_000)
	crash("a long event")
	if out, code := d.Run("status", "--all"); code != 0 || !strings.Contains(out, "too large") {
		t.Errorf("status --all ends with %d, and does not say that labels are too large:\n%s", code, out)
	}
	var list []string
	for i := range 30 {
		list = append(list, create(fmt.Sprintf("tenant-list-%d", i), 90, 100_000))
	}
	crash("a long list")
	grewAtMost(d, t, before, 64<<20, "beside labels of 280 MB")
	if err := d.Stop(); err != nil {
		t.Error(err)
	}
	d.Restart()
	crash("a long list that a new daemon read")
	grewAtMost(d, t, before, 64<<20, "after a start beside labels of 280 MB")
	for _, id := range list {
		e.Remove(t, id)
	}
}
