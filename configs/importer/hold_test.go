package importer

import (
	"strings"
	"testing"

	"healthd/supervisor/core"
)

// A default in place of a setting that is lost would restart what is well.
func TestLossesRestartNothing(t *testing.T) {
	for _, tt := range []struct {
		name, container   string
		startup, liveness bool
	}{
		{"nothing lost", `startupProbe: {exec: {command: [a]}, failureThreshold: 60}, livenessProbe: {exec: {command: [a]}}`, true, true},
		{"a field nobody knows", `livenessProbe: {exec: {command: [a]}, comment: hello}`, false, true},
		{"startup without its port", `startupProbe: {httpGet: {port: nope}, failureThreshold: 60}, livenessProbe: {httpGet: {port: 80}}`, false, false},
		{"startup with a path that is none", `startupProbe: {httpGet: {port: 80, path: "a b"}}, livenessProbe: {httpGet: {port: 80}}`, false, false},
		{"startup threshold beyond bounds", `startupProbe: {exec: {command: [a]}, failureThreshold: 2147483647}, livenessProbe: {exec: {command: [a]}}`, false, false},
		{"liveness threshold beyond bounds", `livenessProbe: {exec: {command: [a]}, failureThreshold: 2147483647}`, false, false},
		{"liveness delay beyond bounds", `startupProbe: {exec: {command: [a]}}, livenessProbe: {exec: {command: [a]}, initialDelaySeconds: 2147483647}`, true, false},
		{"liveness delay that is no number", `livenessProbe: {exec: {command: [a]}, initialDelaySeconds: 2001-01-01}`, false, false},
		{"liveness timeout that is no number", `livenessProbe: {exec: {command: [a]}, timeoutSeconds: .nan}`, false, false},
	} {
		of, text := resolvedText(t, Kubernetes, "kind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: a, readinessProbe: {tcpSocket: {port: 80}}, "+tt.container+"}]}\n")
		spec := of("", "web")
		startup, liveness := spec.Probes[core.Startup] != nil, spec.Probes[core.Liveness] != nil
		if startup != tt.startup || liveness != tt.liveness || spec.Probes[core.Readiness] == nil {
			t.Errorf("%s: startup %v, liveness %v:\n%s", tt.name, startup, liveness, text)
		}
		if lost := strings.Contains(text, "Not carried over: liveness probe"); lost == (tt.liveness) {
			t.Errorf("%s: the loss of the liveness probe is told: %v:\n%s", tt.name, lost, text)
		}
	}
}

// healthd's default for a restart policy is Always, which an unknown one need not mean.
func TestUnknownRestartPolicy(t *testing.T) {
	doc, err := Kubernetes([]File{{"f", []byte("kind: Pod\nmetadata: {name: web}\nspec: {restartPolicy: never, containers: [{name: a}]}\n")}})
	if err != nil {
		t.Fatal(err)
	}
	if checked(t, doc); doc.Specs != 0 || !strings.Contains(doc.Text, "restart_policy: must be") {
		t.Errorf("%d specs:\n%s", doc.Specs, doc.Text)
	}
}
