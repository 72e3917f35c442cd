package haproxy

import (
	"strings"
	"testing"
	"time"
)

const (
	sorry   = "sorry 127.0.0.9:81 no check 1" // the operator's own, in every backend
	dynamic = "backend web\n  server sorry 127.0.0.9:81 backup\n"
	slots   = dynamic + "  default-server check inter 500ms agent-check agent-addr 127.0.0.1 agent-port 9 agent-inter 1s weight 100\n" +
		"  server-template web- 3 0.0.0.0:0 disabled\n"
)

func (e *fakeSupervisor) noErrors() {
	e.t.Helper()
	for _, m := range e.recorded(EventError) {
		if !strings.Contains(m, "is in drain or maint and its container is gone") {
			e.t.Error(m)
		}
	}
}

func TestServersAreAddedAndDeleted(t *testing.T) {
	t.Parallel()
	b := startSpine(t, dynamic)
	e := b.startPushing()
	e.set("c1", "A", "up")
	e.set("c2", "B", "down")
	b.waitForServers("web", "c1 A UP 100", "c2 B DOWN (agent) 0", sorry)
	e.set("c2", "B", "hangs and draining")
	e.set("c1", "A", "draining")
	b.waitForServers("web", "c1 A UP 0", "c2 B DOWN (agent) 0", sorry)
	e.set("c2", "B", "up")
	b.waitForServers("web", "c1 A UP 0", "c2 B UP 100", sorry)
	e.set("c1", "C", "down")
	b.waitForServers("web", "c1 C DOWN (agent) 0", "c2 B UP 100", sorry)
	e.set("c2", "B", "gone")
	e.set("c1", "C", "up")
	b.waitForServers("web", "c1 C UP 100", sorry)
	e.set("c1", "C", "hangs and draining")
	b.waitForServers("web", "c1 C DOWN (agent) 100", sorry)
	e.noErrors()
}

func TestSlotsAreFilledAndFreed(t *testing.T) {
	t.Parallel()
	b := startSpine(t, slots)
	e := b.startPushing()
	b.waitForServers("web", sorry, "web-1 0.0.0.0:0 MAINT 100", "web-2 0.0.0.0:0 MAINT 100", "web-3 0.0.0.0:0 MAINT 100")
	e.set("c1", "A", "up")
	b.waitForServers("web", sorry, "web-1 A UP 100", "web-2 0.0.0.0:0 MAINT 100", "web-3 0.0.0.0:0 MAINT 100")
	e.set("web-2", "B", "down") // a container may be called as a slot
	e.set("c3", "C", "up")
	b.waitForServers("web", sorry, "web-1 A UP 100", "web-2 B DOWN (agent) 0", "web-3 C UP 100")
	e.set("c1", "A", "gone")
	e.set("web-2", "B", "up")
	e.set("c3", "A", "up") // it has moved
	b.waitForServers("web", sorry, "web-1 0.0.0.0:0 MAINT 100", "web-2 B UP 100", "web-3 A UP 100")
	e.set("c4", "C", "draining")
	b.waitForServers("web", sorry, "web-1 C DOWN (agent) 0", "web-2 B UP 100", "web-3 A UP 100")
	e.noErrors()
	e.waitForEvent(EventServer, "Container c4 is server web/web-1 of HAProxy at "+b.socket())
	e.set("c5", "D", "up")
	e.waitForEvent(EventError, "there is no free server-template slot for container c5 in backend web")
	e.set("c4", "C", "gone")
	b.waitForServers("web", sorry, "web-1 D UP 100", "web-2 B UP 100", "web-3 A UP 100")
}

// drain and maint by an operator stay, whatever happens to the container and healthd.
func TestOperatorChangesStay(t *testing.T) {
	t.Parallel()
	for name, config := range map[string]string{"dynamic": dynamic, "slots": slots} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := startBalancer(t, config)
			e := b.newSupervisor()
			end := e.startDaemon(b.socket())
			e.set("web-1", "A", "up")
			e.set("web-2", "B", "up")
			e.set("web-3", "C", "up")
			b.waitForServers("web", sorry, "web-1 A UP 100", "web-2 B UP 100", "web-3 C UP 100")
			b.runCommand("set server web/web-1 state maint")
			b.runCommand("set server web/web-2 state drain")
			for _, what := range []string{"down", "draining", "up"} {
				e.set("web-1", "A", what)
				e.set("web-2", "B", what)
				e.set("web-3", "C", what)
				b.waitForServers("web", append([]string{sorry}, map[string][]string{
					"down":     {"web-1 A MAINT 100", "web-2 B DOWN (agent) 100", "web-3 C DOWN (agent) 100"},
					"draining": {"web-1 A MAINT 0", "web-2 B DOWN (agent) 0", "web-3 C DOWN (agent) 0"},
					"up":       {"web-1 A MAINT 100", "web-2 B DRAIN 100", "web-3 C UP 100"},
				}[what]...)...)
			}
			e.set("web-1", "A", "gone")
			e.set("web-2", "B", "gone")
			time.Sleep(2 * pollInterval) // nothing is to happen
			e.set("web-1", "D", "up")
			e.set("web-2", "E", "up")
			b.waitForServers("web", sorry, "web-1 D MAINT 100", "web-2 E DRAIN 100", "web-3 C UP 100")
			end()
			e.startDaemon(b.socket())
			time.Sleep(2 * pollInterval)
			b.waitForServers("web", sorry, "web-1 D MAINT 100", "web-2 E DRAIN 100", "web-3 C UP 100")
			b.runCommand("set server web/web-1 state ready")
			b.runCommand("set server web/web-2 state ready")
			b.waitForServers("web", sorry, "web-1 D UP 100", "web-2 E UP 100", "web-3 C UP 100")
			e.noErrors()
		})
	}
}
