package configs

import (
	"fmt"
	"strings"
	"testing"

	"healthd/supervisor/core"
)

// The start of a container that another orchestrator manages is left to that one, unless the spec says otherwise.
func TestOrchestrated(t *testing.T) {
	const (
		swarm = "com.docker.swarm.task.id=x8k2"
		nomad = "com.hashicorp.nomad.alloc_id=7d1a"
		pod   = "io.kubernetes.pod.uid=1b2c"
	)
	for _, tt := range []struct {
		name, settings string
		labels         []string
		want           string // manager, policy, on_failure, observed, number of rules
	}{
		{"none", "", nil, "- Always restart false 1"},
		{"Swarm", "", []string{swarm}, "Docker Swarm Never stop false 0"},
		{"Nomad", "", []string{nomad}, "Nomad Never stop false 0"},
		{"Kubernetes", "", []string{pod}, "Kubernetes Never stop false 0"},
		{"stop", `orchestrated = "stop"`, []string{swarm}, "Docker Swarm Never stop false 0"},
		{"leave", `orchestrated = "leave"`, []string{swarm}, "Docker Swarm Never stop true 0"},
		{"leave, and no orchestrator made it", `orchestrated = "leave"`, nil, "- Always restart false 1"},
		{"restart", `orchestrated = "restart"`, []string{swarm}, "- Always restart false 1"},
		{"failures are only told", `on_failure = "none"`, []string{swarm}, "Docker Swarm Never none false 0"},
		{"observed", `mode = "observe"`, []string{swarm}, "Docker Swarm Never stop true 0"},
		{"a label says so", "", []string{swarm, "healthd.orchestrated=restart"}, "- Always restart false 1"},
		{"a label is before the file", `orchestrated = "restart"`, []string{swarm, "healthd.orchestrated=leave"}, "Docker Swarm Never stop true 0"},
	} {
		c := mustParse(t, "[[spec]]\nname = \"web\"\nmatch = { app = \"web\" }\n"+tt.settings+`
[spec.lifecycle.pre_stop.sleep]
duration = "1s"
[[spec.restart_rules]]
exit_codes = [42]
operator = "In"
action = "Restart"
`)
		for range 2 { // the second time from the drafts
			spec := resolved(t, c, append(tt.labels, "app=web")...)
			manager := spec.ManagedElsewhere
			if manager == "" {
				manager = "-"
			}
			got := fmt.Sprint(manager, " ", spec.RestartPolicy, " ", spec.OnFailure, " ", spec.Observe, " ", len(spec.RestartRules))
			if got != tt.want {
				t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
			}
			if hooked := spec.Lifecycle != (core.Lifecycle{}); hooked == spec.Observe {
				t.Errorf("%s: observed %v, and it has hooks: %v", tt.name, spec.Observe, hooked)
			}
			if alone := resolved(t, c, "app=web"); alone.ManagedElsewhere != "" {
				t.Errorf("%s: a container without the label has the draft of one with it", tt.name)
			}
		}
	}
}

// The settings say which label changed them.
func TestOrchestratedSettings(t *testing.T) {
	c := mustParse(t, "[[spec]]\nname = \"web\"\norchestrated = \"leave\"\nmatch = { app = \"web\" }\n"+
		"[[spec.restart_rules]]\nexit_codes = [42]\noperator = \"In\"\naction = \"Restart\"\n")
	var got []string
	for _, v := range resolved(t, c, "app=web", "com.docker.swarm.task.id=x").Settings()[:5] {
		got = append(got, fmt.Sprintf("%s = %s (%s)", v.Path, v.Value, v.Origin))
	}
	const want = `restart_policy = "Never" (label com.docker.swarm.task.id)
on_failure = "stop" (label com.docker.swarm.task.id)
mode = "observe" (label com.docker.swarm.task.id)
termination_grace_period = the container's stop timeout, else "30s" (default)
orchestrated = "leave" (healthd.toml:3)`
	if text := strings.Join(got, "\n"); text != want {
		t.Errorf("got\n%s\nwant\n%s", text, want)
	}
}
