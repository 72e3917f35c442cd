package docker

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/events"
)

// told returns what a forged makes of events, each ACTION or "kill SIGNAL", of a container with these
// labels: Docker writes them over the events' attributes.
func told(f *forged, labels map[string]string, actions ...string) string {
	var out []string
	for _, text := range actions {
		action, signal, _ := strings.Cut(text, " ")
		attributes := map[string]string{"name": "web"}
		if signal != "" {
			attributes["signal"] = signal
		}
		maps.Copy(attributes, labels)
		ev, _ := f.translate(events.Message{Type: events.ContainerEventType, Action: events.Action(action), Actor: events.Actor{ID: "x", Attributes: attributes}})
		if ev.Signal != 0 && action == "kill" {
			action += fmt.Sprint(" ", ev.Signal)
		}
		out = append(out, action)
	}
	return strings.Join(out, ", ")
}

func TestForgedSignals(t *testing.T) {
	lie := map[string]string{"signal": "28"}
	for _, tt := range []struct {
		name   string
		known  bool // from the list
		labels map[string]string
		events []string
		want   string
	}{
		{"no such label", false, nil, []string{"start", "kill 1", "kill 15", "kill 9", "die"}, "start, kill 1, kill 15, kill 9, die"},
		{"seen at its start", false, lie, []string{"create", "start", "kill 9", "die"}, "create, start, kill 3, die"},
		{"seen in the list", true, lie, []string{"kill 9", "die"}, "kill 3, die"},
		{"a stop with KILL", true, lie, []string{"kill 3", "kill 9", "die"}, "kill 3, kill 9, die"},
		{"each run begins anew", true, lie, []string{"kill 3", "die", "start", "kill 3", "die"}, "kill 3, die, start, kill 3, die"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			asked := 0
			f := &forged{stopSignal: func(string) int { asked++; return 3 }, ids: map[string]*forgedRun{}}
			if tt.known {
				f.ids["x"] = &forgedRun{}
			}
			if got := told(f, tt.labels, tt.events...); got != tt.want || asked > 1 {
				t.Errorf("got %s after %d questions, want %s", got, asked, tt.want)
			}
			again := f.again()
			if got := told(again, tt.labels, tt.events...); got != tt.want {
				t.Errorf("read again: got %s", got)
			}
			told(f, tt.labels, "destroy")
			if len(f.ids) != 0 {
				t.Errorf("%d containers are left", len(f.ids))
			}
		})
	}
}
