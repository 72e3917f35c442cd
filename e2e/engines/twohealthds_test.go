package engines

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"healthd/e2e/harness"
)

// Two healthds on one engine would take each other's stops for an operator's, and leave the containers down. The second
// one says who has the engine. Under systemd it waits for it, and goes on when the first one ends.
func TestTwoHealthds(t *testing.T) {
	harness.RingTwo(t, "make test-engines")
	for name, e := range map[string]harness.Engine{"docker": harness.Docker.Engine(t), "containerd": harness.Nerdctl{Engine: harness.Containerd.Engine(t)}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			daemon := func() *harness.Daemon {
				runtimes := strings.Replace(e.Runtime(), "[[runtime]]\n", "[[runtime]]\nexclusive = true\n", 1)
				d := harness.NewDaemonWith(t, runtimes, "")
				d.Runtime = name
				return d
			}
			first := harness.StartedDaemon(daemon())
			who := fmt.Sprintf("another healthd supervises this engine: process %d (healthd", first.Cmd.Process.Pid)

			if out, code := daemon().Run("run"); code != 1 || !strings.Contains(out, who) {
				t.Errorf("started by hand: exit code %d\n%s", code, out)
			}

			second := daemon()
			second.Env = append(os.Environ(), "NOTIFY_SOCKET=@healthd-e2e-nothing-listens-here")
			second.Start()
			second.Eventually("say who has the engine", func() error {
				status, body, err := second.Get("/readyz")
				if err == nil && (status != 503 || !strings.Contains(body, who)) {
					err = fmt.Errorf("%d %s", status, body)
				}
				return err
			})
			if err := first.Stop(); err != nil {
				t.Error(err)
			}
			second.Eventually("have the engine", second.Synced)
			if err := second.RuntimeUp("1"); err != nil {
				t.Error(errors.Join(err, errors.New("it is up")))
			}
		})
	}
}
