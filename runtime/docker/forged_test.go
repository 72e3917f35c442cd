package docker

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/events"
)

// told returns what a forged makes of events, each ACTION, "kill SIGNAL" or "die CODE", of a container with these
// labels: Docker writes them over the events' attributes.
func told(f *forged, labels map[string]string, actions ...string) string {
	var out []string
	for _, text := range actions {
		action, number, _ := strings.Cut(text, " ")
		attributes := map[string]string{"name": "web"}
		if number != "" {
			attributes[map[string]string{"kill": "signal", "die": "exitCode", "exec_die": "exitCode"}[action]] = number
		}
		maps.Copy(attributes, labels)
		ev, _ := f.hear(events.Message{Type: events.ContainerEventType, Action: events.Action(action), Actor: events.Actor{ID: "x", Attributes: attributes}})
		if ev.Signal != 0 && action == "kill" {
			action += fmt.Sprint(" ", ev.Signal)
		}
		if ev.ExitCode != 0 && action == "die" {
			action += fmt.Sprint(" ", ev.ExitCode)
		}
		out = append(out, action)
	}
	return strings.Join(out, ", ")
}

func TestForgedNumbers(t *testing.T) {
	lie, failed, both := map[string]string{"signal": "28"}, map[string]string{"exitCode": "1"}, map[string]string{"signal": "28", "exitCode": "1"}
	for _, tt := range []struct {
		name   string
		known  bool // from the list
		labels map[string]string
		events []string
		want   string
	}{
		{"no such label", false, nil, []string{"start", "kill 1", "kill 15", "kill 9", "die"}, "start, kill 1, kill 15, kill 9, die"},
		{"seen at its start", false, lie, []string{"create", "start", "kill 9", "die"}, "create, start, kill -1, die"},
		{"seen in the list", true, lie, []string{"kill 9", "die"}, "kill -1, die"},
		{"no number", true, map[string]string{"signal": "x"}, []string{"kill 9", "die"}, "kill -1, die"},
		{"HUP, and later a stop with KILL", true, lie, []string{"kill 1", "kill 15", "kill 9", "die"}, "kill -1, kill -1, kill -1, die"},
		{"the true exit code", false, nil, []string{"start", "die 3"}, "start, die 3"},
		{"the true exit code after that of an exec", false, nil, []string{"start", "exec_die 0", "die 3"}, "start, exec_die, die 3"},
		{"a forged exit code, seen at its start", false, failed, []string{"create", "start", "kill 15", "die 0"}, "create, start, kill 15, die"},
		{"a forged exit code, seen in the list", true, failed, []string{"die 0", "start", "die 0"}, "die, start, die"},
		{"both", false, both, []string{"start", "kill 15", "die 143"}, "start, kill -1, die"},
		{"both, seen in the list", true, both, []string{"kill 15", "die 143"}, "kill -1, die"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := &forged{ids: map[string]forgery{}}
			if tt.known {
				f.ids["x"] = forgeryOf(tt.labels, "")
			}
			for range 2 { // the engine tells again
				if got := told(f, tt.labels, tt.events...); got != tt.want {
					t.Errorf("got %s, want %s", got, tt.want)
				}
			}
			told(f, tt.labels, "destroy")
			if len(f.ids) != 0 {
				t.Errorf("%d containers are left", len(f.ids))
			}
		})
	}
}
