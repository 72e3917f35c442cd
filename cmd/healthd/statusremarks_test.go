package main

import (
	"strings"
	"testing"

	"healthd/supervisor/api"
	"healthd/supervisor/core"
)

// A container that is down says below the table why nobody starts it.
func TestRemarkOfAnEnd(t *testing.T) {
	const (
		missed   = "web has ended, and healthd does not start it: it did not see it end, or only observed it then (healthd explain web)"
		observed = "web has ended, and is only observed: healthd does not start it"
	)
	for _, tt := range []struct {
		name         string
		code         int
		reason       string
		policy       core.RestartPolicy
		mode, engine string
		want         string
	}{
		{"crash", 1, core.ReasonError, core.Always, "", "", missed},
		{"crash, observed", 1, core.ReasonError, core.Always, observe, "", observed},
		{"out of memory", 137, core.ReasonOOMKilled, core.OnFailure, "", "", missed},
		{"job", 0, core.ReasonCompleted, core.OnFailure, "", "", ""},
		{"job, observed", 0, core.ReasonCompleted, core.OnFailure, observe, "", ""},
		{"server", 0, core.ReasonCompleted, core.Always, "", "", missed},
		{"never", 1, core.ReasonError, core.Never, "", "", ""},
		{"operator", 137, core.ReasonStoppedByOperator, core.Always, "", "", ""},
		{"failed probe", 137, core.ReasonLivenessFailed, core.Always, "", "", ""},
		{"engine's policy", 1, core.ReasonError, core.Always, observe, "on-failure",
			"web has ended, and healthd does not start it: the engine's own restart policy decides (on-failure)"},
	} {
		s := api.Status{Name: "web", RestartPolicy: tt.policy, Mode: tt.mode, EnginePolicy: tt.engine,
			State: api.ContainerState{Terminated: &api.Terminated{ExitCode: tt.code, Reason: tt.reason}}}
		if got := remark(s, clock); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// Whoever forgets that healthd only observes waits in vain for a restart.
func TestObservedNote(t *testing.T) {
	const note = "Only observed, not restarted (mode observe): "
	for _, tt := range []struct {
		observed, enforced string
		columns            int
		want               string
	}{
		{"", "ab", 80, ""},
		{"a", "", 80, note + "a"},
		{"ab", "", 80, note + "all of these"},
		{"ab", "c", 80, note + "a and b"},
		{"abcde", "f", 80, note + "a, b, c and 2 more"},
		{"abcde", "f", unlimited, note + "a, b, c, d and e"},
	} {
		var all []api.Status
		for _, name := range tt.observed {
			all = append(all, api.Status{Name: string(name), Mode: observe})
		}
		for _, name := range tt.enforced {
			all = append(all, api.Status{Name: string(name)})
		}
		if got := observedNote(all, tt.columns); got != tt.want {
			t.Errorf("%s observed, %s enforced, %d columns: %q, want %q", tt.observed, tt.enforced, tt.columns, got, tt.want)
		}
		var table strings.Builder
		if err := writeStatuses(&table, &table, all, form(true), false, tt.columns, clock); err != nil || strings.Contains(table.String(), note) != (tt.want != "") {
			t.Errorf("%v: the table is\n%s", err, table.String())
		}
	}
}

// An operator who wants a container of Swarm started must ask Swarm.
func TestManagedNote(t *testing.T) {
	all := []api.Status{{Name: "web.1.x8k2", ManagedBy: "Docker Swarm"}, {Name: "db"}, {Name: "job", ManagedBy: "Nomad"}}
	const want = "Managed by another orchestrator, and never started by healthd: web.1.x8k2 (Docker Swarm) and job (Nomad)"
	var table strings.Builder
	err := writeStatuses(&table, &table, all, form(true), false, 80, clock)
	if text := strings.Join(strings.Fields(table.String()), " "); err != nil || !strings.Contains(text, want) {
		t.Errorf("%v: the table does not say %q:\n%s", err, want, table.String())
	}
	if got := managedNote(all[1:2], 80); got != "" {
		t.Errorf("%q of a container that nothing else manages", got)
	}
	if got := policyText(all[0]); got != "left to Docker Swarm" {
		t.Errorf("explain says %q", got)
	}
}
