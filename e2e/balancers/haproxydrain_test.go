package balancers

import (
	"errors"
	"testing"

	"healthd/e2e/harness"
)

// Weight 0 leaves a server to clients that stick to it. A container that was not ready when
// its drain began cannot answer them, so it stays down.
func TestHAProxyAgentDrain(t *testing.T) {
	t.Parallel()
	b := startHAProxySetup(t, "agent", 3)
	t.Run("ready", func(t *testing.T) { b.in(t).readyDrains() })
	t.Run("hung", func(t *testing.T) { b.in(t).hungStaysDown() })
}

func (b *haproxySetup) readyDrains() {
	b.set(0, "status=500")
	b.d.Until(b.names[0], "draining", draining)
	if answer, err := b.askAgent(b.names[0]); err != nil || answer != "up 0% # draining" {
		b.t.Errorf("the agent listener answers %q, %v", answer, err)
	}
	b.waitForServers("UP 0", b.addresses[0])
	b.waitUntilReady(0)
}

// While the container drains, healthd answers nothing else.
func (b *haproxySetup) hungStaysDown() {
	b.makeUnready(1)
	b.waitForServers("DOWN (agent)", b.addresses[1])
	b.set(1, "hang=1")
	b.d.Until(b.names[1], "draining", draining)
	asked := 0
	b.d.Eventually("end the drain", func() error {
		answer, err := b.askAgent(b.names[1])
		err = errors.Join(err, b.h.CheckServers("DOWN (agent)", b.addresses[1]))
		s, statusErr := b.d.Status(b.names[1])
		switch {
		case statusErr != nil || !s.Draining:
			return statusErr
		case err != nil || answer != "down # Draining":
			b.t.Fatalf("while it drains the agent listener answers %q; %v", answer, err)
		}
		asked++
		return errors.New("it still drains")
	})
	if asked == 0 {
		b.t.Error("the drain was over before it was checked")
	}
	b.waitUntilReady(1)
}

func draining(s harness.Status) bool { return s.Draining }

// waitUntilReady waits until a replica takes requests again.
func (b *haproxySetup) waitUntilReady(i int) {
	b.t.Helper()
	b.d.Until(b.names[i], "ready again", harness.Ready)
	b.waitForServers("UP", b.addresses[i])
}

// AskAgent asks the agent listener of a container as HAProxy does.
func (b *haproxySetup) askAgent(name string) (string, error) {
	return harness.AskAgent(b.agent, "web/"+name)
}
