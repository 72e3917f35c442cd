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

func (e *estate) unharmed() {
	e.t.Helper()
	for _, m := range e.recorded(EventError) {
		if !strings.Contains(m, "was set aside by hand and its container is gone") {
			e.t.Error(m)
		}
	}
}

func TestServersAreAddedAndDeleted(t *testing.T) {
	t.Parallel()
	b := startBalancer(t, dynamic)
	e := b.tell()
	e.is("c1", "A", "up")
	e.is("c2", "B", "down")
	b.shows("web", "c1 A UP 100", "c2 B DOWN (agent) 0", sorry)
	e.is("c2", "B", "hangs and draining")
	e.is("c1", "A", "draining")
	b.shows("web", "c1 A UP 0", "c2 B DOWN (agent) 0", sorry)
	e.is("c2", "B", "up")
	b.shows("web", "c1 A UP 0", "c2 B UP 100", sorry)
	e.is("c1", "C", "down")
	b.shows("web", "c1 C DOWN (agent) 0", "c2 B UP 100", sorry)
	e.is("c2", "B", "gone")
	e.is("c1", "C", "up")
	b.shows("web", "c1 C UP 100", sorry)
	e.is("c1", "C", "hangs and draining")
	b.shows("web", "c1 C DOWN (agent) 100", sorry)
	e.unharmed()
}

func TestSlotsAreFilledAndFreed(t *testing.T) {
	t.Parallel()
	b := startBalancer(t, slots)
	e := b.tell()
	b.shows("web", sorry, "web-1 0.0.0.0:0 MAINT 100", "web-2 0.0.0.0:0 MAINT 100", "web-3 0.0.0.0:0 MAINT 100")
	e.is("c1", "A", "up")
	b.shows("web", sorry, "web-1 A UP 100", "web-2 0.0.0.0:0 MAINT 100", "web-3 0.0.0.0:0 MAINT 100")
	e.is("web-2", "B", "down") // a container may be called as a slot
	e.is("c3", "C", "up")
	b.shows("web", sorry, "web-1 A UP 100", "web-2 B DOWN (agent) 0", "web-3 C UP 100")
	e.is("c1", "A", "gone")
	e.is("web-2", "B", "up")
	e.is("c3", "A", "up") // it has moved
	b.shows("web", sorry, "web-1 0.0.0.0:0 MAINT 100", "web-2 B UP 100", "web-3 A UP 100")
	e.is("c4", "C", "draining")
	b.shows("web", sorry, "web-1 C DOWN (agent) 0", "web-2 B UP 100", "web-3 A UP 100")
	e.unharmed()
	e.records(EventServer, "Container c4 is server web/web-1 of HAProxy at "+b.socket())
	e.is("c5", "D", "up")
	e.records(EventError, "there is no free server-template slot for container c5 in backend web")
	e.is("c4", "C", "gone")
	b.shows("web", sorry, "web-1 D UP 100", "web-2 B UP 100", "web-3 A UP 100")
}

// What somebody does by hand stays, whatever becomes of the container and of healthd.
func TestOperatorIsObeyed(t *testing.T) {
	t.Parallel()
	for name, config := range map[string]string{"dynamic": dynamic, "slots": slots} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := startBalancer(t, config)
			e := b.estate()
			end := e.begin(b.socket())
			e.is("web-1", "A", "up")
			e.is("web-2", "B", "up")
			e.is("web-3", "C", "up")
			b.shows("web", sorry, "web-1 A UP 100", "web-2 B UP 100", "web-3 C UP 100")
			b.operate("set server web/web-1 state maint")
			b.operate("set server web/web-2 state drain")
			for _, what := range []string{"down", "draining", "up"} {
				e.is("web-1", "A", what)
				e.is("web-2", "B", what)
				e.is("web-3", "C", what)
				b.shows("web", append([]string{sorry}, map[string][]string{
					"down":     {"web-1 A MAINT 100", "web-2 B DOWN (agent) 100", "web-3 C DOWN (agent) 100"},
					"draining": {"web-1 A MAINT 0", "web-2 B DOWN (agent) 0", "web-3 C DOWN (agent) 0"},
					"up":       {"web-1 A MAINT 100", "web-2 B DRAIN 100", "web-3 C UP 100"},
				}[what]...)...)
			}
			e.is("web-1", "A", "gone")
			e.is("web-2", "B", "gone")
			time.Sleep(2 * lookEvery) // nothing is to happen
			e.is("web-1", "D", "up")
			e.is("web-2", "E", "up")
			b.shows("web", sorry, "web-1 D MAINT 100", "web-2 E DRAIN 100", "web-3 C UP 100")
			end()
			e.begin(b.socket())
			time.Sleep(2 * lookEvery)
			b.shows("web", sorry, "web-1 D MAINT 100", "web-2 E DRAIN 100", "web-3 C UP 100")
			b.operate("set server web/web-1 state ready")
			b.operate("set server web/web-2 state ready")
			b.shows("web", sorry, "web-1 D UP 100", "web-2 E UP 100", "web-3 C UP 100")
			e.unharmed()
		})
	}
}
