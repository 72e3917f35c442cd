package faults

import (
	"fmt"
	"strings"
	"testing"

	"healthd/e2e/harness"
	"healthd/runtime/docker/dockertest"
)

// expandingSpec has commands with variables of the container, whose probes fail, and one that hangs.
const expandingSpec = honestSpec + `
[[spec]]
name = "talker"
match = { e2e = "talker" }
[spec.liveness]
exec = { command = ["sh", "-c", "cat /tmp/flood; exit 1", "$(%s)", "$(BIG)"] }
period = "1s"
timeout = "30s"
failure_threshold = 1
termination_grace_period = "1s"
[spec.backoff]
initial = "1s"

[[spec]]
name = "hungry"
match = { e2e = "hungry" }
readiness = { exec = { command = ["sh", "-c", "setsid testserver -environ 536870912 & sleep 4242"] }, period = "1s", timeout = "3s", failure_threshold = 1 }
`

// What a tenant's containers say of themselves is short, and would be long where healthd shows it: a short value under
// a long name, which all output consists of, and an environment of half a gigabyte, which a process has made for itself.
func TestTextThatTenantsShape(t *testing.T) {
	t.Parallel()
	e := dockertest.Start(t)
	name := strings.Repeat("N", 4_000)
	d := harness.StartedDaemon(confined(plain(harness.NewDaemon(t, e.Endpoint, fmt.Sprintf(expandingSpec, name))), 64<<20))
	honest := e.Run(t, dockertest.RunOptions{Name: "honest", Labels: map[string]string{"e2e": "honest"}})
	d.Until("honest", "ready", harness.Ready)
	before := memoryOf(d, "VmRSS")
	resetPeak(d)

	e.Run(t, dockertest.RunOptions{Name: "hungry", Labels: map[string]string{"e2e": "hungry"}, Cmd: []string{"sleep", "4242"}})
	// healthd looks at all of the container that is younger than a command, to end what that has started.
	d.Until("hungry", "ended three times", func(s harness.Status) bool {
		p := s.Probes["readiness"]
		return p.Run >= 3 && strings.Contains(p.Output, "timed out")
	})
	grewAtMost(d, t, before, 64<<20, "beside an environment of 512 MiB")

	const flood = "head -c 200000 /dev/zero | tr '\\0' a"
	for i := range 2 {
		e.Run(t, dockertest.RunOptions{
			Name: fmt.Sprint("talker-", i), Labels: map[string]string{"e2e": "talker"}, Env: []string{name + "=aaaa", "BIG=" + strings.Repeat("b", 12_000)},
			Cmd: []string{"sh", "-c", flood + " >/tmp/flood; " + flood + "; exec sleep 4242"},
		})
	}
	for i := range 2 {
		talker := fmt.Sprint("talker-", i)
		d.Until(talker, "restarted", func(s harness.Status) bool { return s.RestartCount > 0 })
		d.Eventually("record the failure of "+talker, func() error {
			out, code := d.Run("why", talker, "-o", "json")
			switch {
			case code != 0:
				return fmt.Errorf("%s", out)
			case !strings.Contains(out, "$(NNNN") || strings.Contains(out, "aaaa") || len(out) > 2<<20:
				t.Errorf("its record has %d bytes, and shows a value or no name: %.300s", len(out), out)
			}
			return nil
		})
	}
	grewAtMost(d, t, before, 64<<20, "beside values under long names")
	harness.Crash(t, e, honest)
	d.Until("honest", "restarted beside these", func(s harness.Status) bool { return s.Ready && s.RestartCount == 1 })
}
