package main

import (
	"strings"
	"testing"

	"healthd/runtime"
	"healthd/supervisor"
	"healthd/supervisor/core"
)

// A container that waits for the completion of a service says that this is a job.
func TestJobWarnings(t *testing.T) {
	view := func(project, service, depends string, policy core.RestartPolicy) *core.View {
		return &core.View{Spec: &core.Spec{RestartPolicy: policy}, State: core.NewState(), Container: &runtime.Container{
			ID: project + service, Name: project + "-" + service + "-1",
			Labels: map[string]string{core.ComposeProject: project, core.ComposeService: service, core.ComposeNumber: "1", composeDepends: depends},
		}}
	}
	const onMigrate = "db:service_healthy:false,migrate:service_completed_successfully:false"
	for _, tt := range []struct {
		name  string
		views []*core.View
		want  string // all warnings begin with
	}{
		{"a job under Always", []*core.View{view("shop", "api", onMigrate, core.Always), view("shop", "migrate", "", core.Always), view("shop", "db", "", core.Always)},
			"shop-migrate-1 is a job, as shop-api-1 waits for its completion"},
		{"under OnFailure", []*core.View{view("shop", "api", onMigrate, core.Always), view("shop", "migrate", "", core.OnFailure)}, ""},
		{"of another project", []*core.View{view("shop", "api", onMigrate, core.Always), view("blog", "migrate", "", core.Always)}, ""},
		{"which others only want started", []*core.View{view("shop", "api", "migrate:service_started:false", core.Always), view("shop", "migrate", "", core.Always)}, ""},
	} {
		got := strings.Join(jobWarnings(supervisor.NewBoard(nil, tt.views...)), "\n")
		if !strings.HasPrefix(got, tt.want) || (got == "") != (tt.want == "") || strings.Contains(got, "\n") {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}
