package importer

import (
	"strings"
	"testing"
	"time"

	"healthd/supervisor/core"
)

// Kubernetes ends a job that fails again and again, also where the manifest does not say so.
func TestJobsEnd(t *testing.T) {
	const year = 365 * 24 * time.Hour
	for _, tt := range []struct {
		kind, spec, policy string
		want               core.RestartPolicy
		restarts           int
		within             time.Duration
	}{
		{"Job", "", "OnFailure", core.OnFailure, 6, year},
		{"Job", "backoffLimit: 2", "OnFailure", core.OnFailure, 2, year},
		{"Job", "backoffLimit: 0", "OnFailure", core.Never, 0, 0},
		{"Job", "backoffLimit: 1000", "OnFailure", core.OnFailure, core.MaxGiveUp, year},
		{"Job", "backoffLimit: x", "OnFailure", core.OnFailure, 6, year},
		{"Job", "", "Never", core.Never, 0, 0},
		{"CronJob", "backoffLimit: 2", "OnFailure", core.OnFailure, 2, 24 * time.Hour},
		{"Deployment", "", "Always", core.Always, 0, 0},
	} {
		job := "template: {spec: {restartPolicy: " + tt.policy + ", containers: [{name: a}]}}"
		if tt.spec != "" {
			job += ", " + tt.spec
		}
		if tt.kind == "CronJob" {
			job = "jobTemplate: {spec: {" + job + "}}"
		}
		of, text := resolvedText(t, Kubernetes, "kind: "+tt.kind+"\nmetadata: {name: web}\nspec: {"+job+"}\n")
		if spec := of("", "web"); spec.RestartPolicy != tt.want || spec.GiveUp.Restarts != tt.restarts || tt.restarts > 0 && spec.GiveUp.Within != tt.within {
			t.Errorf("%+v: %s, %v:\n%s", tt, spec.RestartPolicy, spec.GiveUp, text)
		}
	}
}

// What a manifest says in other words means the same.
func TestOtherWords(t *testing.T) {
	of, text := resolvedText(t, Kubernetes, `# Source: web/templates/empty.yaml
---
---
kind: Deployment
metadata: {name: web, namespace: default}
x-probe: &probe {periodSeconds: 010, timeoutSeconds: 3, comment: x}
spec:
  template:
    metadata: {labels: {<<: {app: web}, tier: front}}
    spec:
      containers:
      - name: a
        ports: [{name: http, containerPort: 8080}]
        livenessProbe: {<<: *probe, timeoutSeconds: 5, tcpSocket: {port: http}}
---
kind: Service
metadata: {name: shop}
spec: {selector: {app: web}, ports: [{port: 80, targetPort: http}], publishNotReadyAddresses: True}
---
kind: Rollout
metadata: {name: canary}
spec: {template: {spec: {containers: [{name: c, livenessProbe: {tcpSocket: {port: 1}}}]}}}
`)
	spec := of("", "web")
	if live := spec.Probes[core.Liveness]; live.Period != 8*time.Second || live.Timeout != 5*time.Second {
		t.Errorf("%+v", live)
	}
	if spec.Publish.Service != "shop" || spec.Publish.Port != 8080 {
		t.Errorf("%+v", spec.Publish)
	}
	for _, want := range []string{"Not carried over: publishNotReadyAddresses", "Not carried over: livenessProbe.comment", "Not carried over: Rollout canary (f:20): healthd does not know this kind"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in:\n%s", want, text)
		}
	}
}

// A short file may not stand for more than a machine has.
func TestYAMLBombs(t *testing.T) {
	const pod = "kind: Pod\nmetadata: {name: a}\nspec:\n  containers:\n  - name: a\n    livenessProbe: {exec: {command: ["
	for name, tt := range map[string]struct{ text, want string }{
		"a long word often": {"x: &a " + strings.Repeat("x", 1<<20) + "\n" + pod + strings.Repeat("*a,", 100) + "*a]}}\n", "f:1: with its aliases it has more than 16 MiB: split it"},
		"in itself":         {"x: &a [*a]\n" + pod + "a]}}\n", "f:1: with its aliases it has more than 16 MiB: split it"},
		"laughs": {"a: &a [x,x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\n" +
			"e: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e,*e]\ng: &g [*f,*f,*f,*f,*f,*f,*f,*f,*f,*f]\nh: [*g,*g,*g,*g,*g,*g,*g,*g,*g,*g]\n" + pod + "a]}}\n", "f:1: with its aliases it has more than 16 MiB"},
		"a key twice":     {"kind: Pod\nspec:\n  containers: []\n  containers: []\n", "f:4: has the key \"containers\" twice, also in line 3: remove one"},
		"an endless name": {"kind: Pod\nmetadata: {name: " + strings.Repeat("x", 254) + "}\nspec: {containers: [{name: a}]}\n", "f:1: the name of the Pod has more than 253 characters"},
	} {
		if doc, err := Kubernetes([]File{{"f", []byte(tt.text)}}); err == nil || !strings.Contains(err.Error(), tt.want) || doc != nil {
			t.Errorf("%s: %.300v, want %s", name, err, tt.want)
		}
	}
}

// The kubelet's own readings of what manifests say.
func TestLikeTheKubelet(t *testing.T) {
	of, text := resolvedText(t, Kubernetes, `kind: Deployment
metadata: {name: web}
spec:
  minReadySeconds: 0
  template:
    spec:
      terminationGracePeriodSeconds: 0
      containers:
      - name: a
        ports: [{name: dns, containerPort: 53, protocol: UDP}, {name: dns-tcp, containerPort: 53, protocol: TCP}]
        startupProbe: {tcpSocket: {port: dns-tcp}}
        livenessProbe: {tcpSocket: {port: "9090"}, terminationGracePeriodSeconds: 0}
        readinessProbe: {httpGet: {port: dns}}
`)
	spec := of("", "web")
	if spec.TerminationGracePeriod != time.Second || spec.Probes[core.Liveness].TerminationGracePeriod != time.Second || spec.Probes[core.Liveness].Handler.TCPSocket.Port != 9090 ||
		spec.Probes[core.Startup] == nil || spec.Probes[core.Readiness] != nil {
		t.Errorf("%+v", spec)
	}
	for word, want := range map[string]int{"minReadySeconds": 0, "Not carried over: readiness": 1, "that port of the container is UDP": 1, "0 there; healthd gives a container at least 1s": 2} {
		if got := strings.Count(text, word); got != want {
			t.Errorf("%q is there %d times, want %d", word, got, want)
		}
	}
	if t.Failed() {
		t.Log(text)
	}
}
