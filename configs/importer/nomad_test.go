package importer

import (
	"strings"
	"testing"
	"time"

	"healthd/supervisor/core"
)

// What the task does not say is as the group says, attribute by attribute, and then as Nomad does by default.
func TestNomadRestarts(t *testing.T) {
	for _, tt := range []struct {
		kind, group, task string
		want              core.RestartPolicy
		restarts          int
		within            time.Duration
	}{
		{"service", "", "", core.Always, 0, 0},
		{"service", "attempts = 0", "delay = \"1s\"", core.Never, 0, 0},
		{"service", "attempts = 0", "attempts = 4", core.Always, 4, 30 * time.Minute},
		{"service", "interval = \"5m\"", "", core.Always, 2, 5 * time.Minute},
		{"service", "attempts = 10", "interval = \"1h\"", core.Always, 10, time.Hour},
		{"service", "mode = \"delay\"", "", core.Always, 0, 0},
		{"system", "", "", core.Always, 2, 30 * time.Minute},
		{"batch", "", "", core.OnFailure, 3, 24 * time.Hour},
		{"batch", "attempts = 0", "", core.Never, 0, 0},
		{"sysbatch", "delay = \"1s\"", "", core.OnFailure, 3, 24 * time.Hour},
		{"${meta.kind}", "", "", core.OnFailure, 3, 24 * time.Hour},
	} {
		of, text := resolvedText(t, Nomad, "job \"j\" {\n  type = \""+tt.kind+"\"\n  group \"web\" {\n    restart {\n"+tt.group+"\n}\n    task \"t\" {\n      driver = \"docker\"\n      restart {\n"+tt.task+"\n}\n    }\n  }\n}\n")
		if spec := of("", "web"); spec.RestartPolicy != tt.want || spec.GiveUp.Restarts != tt.restarts || tt.restarts > 0 && spec.GiveUp.Within != tt.within {
			t.Errorf("%+v: %s, %v:\n%s", tt, spec.RestartPolicy, spec.GiveUp, text)
		}
	}
}

// The JSON that a file becomes has null for what is not set; that of a server has all defaults.
func TestNomadRestartsOfJSON(t *testing.T) {
	for text, want := range map[string]core.GiveUp{
		`"RestartPolicy": {"Attempts": 5, "Delay": null, "Interval": null, "Mode": null}, "Tasks": [{"Driver": "docker"}]`: {Restarts: 5, Within: 30 * time.Minute},
		`"RestartPolicy": {"Attempts": 0, "Delay": 15000000000, "Interval": 1800000000000, "Mode": "fail"},
			"Tasks": [{"Driver": "docker", "RestartPolicy": {"Attempts": 2, "Delay": 15000000000, "Interval": 1800000000000, "Mode": "fail"}}]`: {Restarts: 2, Within: 30 * time.Minute},
		`"RestartPolicy": {"Attempts": 2, "Delay": 15000000000, "Interval": 1800000000000, "Mode": "fail"},
			"Tasks": [{"Driver": "docker", "RestartPolicy": {"Attempts": 2, "Delay": 15000000000, "Interval": 1800000000000, "Mode": "fail"}}]`: {},
	} {
		of, doc := resolvedText(t, Nomad, `{"Job": {"Type": "service", "Periodic": {}, "TaskGroups": [{"Name": "web", `+text+`}]}}`)
		if spec := of("", "web"); spec.RestartPolicy != core.Always || spec.GiveUp.Restarts != want.Restarts || want.Restarts > 0 && spec.GiveUp != want {
			t.Errorf("%s: %s, %v, want %v:\n%s", text, spec.RestartPolicy, spec.GiveUp, want, doc)
		}
		if !strings.Contains(doc, "Not carried over: periodic of") {
			t.Errorf("no word of periodic:\n%s", doc)
		}
	}
}

const nomadChecks = `variable "region" { default = "eu" }
variable "grace" {}
job "j" {
  update { max_parallel = 3 }
  reschedule { attempts = 0 }
  group "web" {
    update { canary = 1 }
    network {
      port "http" { to = 8080 }
      port "up" { to = 9090 }
    }
    service {
      port     = "http"
      provider = "nomad"
      check_restart {
        limit = 4
        grace = "20s"
      }
      check {
        name      = "mine"
        type      = "http"
        path      = "/"
        interval  = "10s"
        timeout   = "2s"
        intervall = "3s"
        check_restart { ignore_warnings = true }
      }
      check {
        name     = "other"
        type     = "script"
        task     = "side"
        command  = "/x"
        interval = "10s"
        timeout  = "2s"
      }
    }
    service {
      port = "up"
      check {
        type     = "tcp"
        interval = "10s"
        timeout  = "2s"
      }
    }
    task "server" {
      driver = "docker"
      leader = true
      config { ports = ["http"] }
    }
    task "side" { driver = "docker" }
  }
  group "logs" {
    network {
      port "http" { to = 8080 }
    }
    service {
      port = "http"
      check {
        type     = "tcp"
        interval = "10s"
        timeout  = "2s"
        check_restart { limit = 3 }
      }
    }
    task "server" { driver = "raw_exec" }
    task "shipper" { driver = "docker" }
  }
  group "slow" {
    network {
      port "http" { to = 8080 }
    }
    service {
      port = "http"
      check {
        type     = "tcp"
        interval = "10s"
        timeout  = "2s"
        check_restart {
          limit = 3
          grace = var.grace
        }
      }
    }
    task "slow" { driver = "docker" }
    task "migrate" {
      driver = "docker"
      lifecycle { hook = "prestart" }
    }
  }
}
`

// A check is of the task that it is of for Nomad, or of none.
func TestNomadChecks(t *testing.T) {
	of, text := resolvedText(t, Nomad, nomadChecks)
	server := of("", "web-server")
	live := server.Probes[core.Liveness]
	if live == nil || live.Handler.HTTPGet == nil || live.FailureThreshold != 4 || live.InitialDelay != 20*time.Second || live.Handler.HTTPGet.Expect != nil {
		t.Errorf("%+v:\n%s", live, text)
	}
	if server.Group.MaxUnavailable.Number != 3 {
		t.Errorf("%+v", server.Group)
	}
	for _, name := range []string{"web-side", "logs-shipper"} {
		if spec := of("", name); spec.Probes[core.Liveness] != nil || spec.Probes[core.Readiness] != nil {
			t.Errorf("%s has probes of another task:\n%s", name, text)
		}
	}
	if slow := of("", "slow-slow"); slow.Probes[core.Liveness] != nil || slow.Probes[core.Readiness] == nil {
		t.Errorf("a liveness probe without the grace that is not known, or no readiness:\n%s", text)
	}
	for _, want := range []string{
		"Job j has the defaults of its variables here: region.", "Not carried over: reschedule of j (f:5)", "Not carried over: leader (f:47)", "Not carried over: check.intervall (f:25)",
		"Not carried over: check other of task side (f:28)", "Not carried over: service of group web (f:37)", "Not carried over: service of group logs (f:56)",
		"Not carried over: check_restart.grace = var.grace (f:80)", "Not carried over: liveness probe: ",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in:\n%s", want, text)
		}
	}
}

// Jobs of before Nomad 0.12 have the container's port in the driver's configuration.
func TestNomadPortMap(t *testing.T) {
	job := `job "j" {
  group "web" {
    task "t" {
      driver = "docker"
      config {
        port_map {
          http = 8080
        }
      }
      resources {
        network {
          port "http" {}
        }
      }
      service {
        port = "http"
        connect { native = true }
        check {
          type = "tcp"
        }
      }
    }
  }
}
`
	for _, text := range []string{
		job,
		strings.Replace(job, "port_map {\n          http = 8080\n        }", `port_map = { "http" = 8080 }`, 1),
		`{"Job": {"TaskGroups": [{"Name": "web", "Tasks": [{"Name": "t", "Driver": "docker", "Config": {"port_map": [{"http": 8080}]},
			"Resources": {"Networks": [{"DynamicPorts": [{"Label": "http", "Value": 0}]}]},
			"Services": [{"PortLabel": "http", "Connect": {"Native": true}, "Checks": [{"Type": "tcp"}]}]}]}]}}`,
	} {
		of, doc := resolvedText(t, Nomad, text)
		spec := of("", "web")
		if p := spec.Probes[core.Readiness]; p == nil || p.Handler.TCPSocket == nil || p.Handler.TCPSocket.Port != 8080 || spec.Publish.Port != 8080 {
			t.Errorf("%+v:\n%s", spec, doc)
		}
		if strings.Count(doc, "Not carried over: connect") != 1 {
			t.Errorf("of connect:\n%s", doc)
		}
	}
	_, doc := resolvedText(t, Nomad, "job \"j\" {\n  group \"web\" {\n    network {\n      port \"http\" {}\n    }\n    service {\n      port = \"http\"\n      check {\n        type = \"tcp\"\n      }\n    }\n    task \"t\" {\n      driver = \"docker\"\n    }\n  }\n}\n")
	if strings.Count(doc, "Nomad chooses it when the job runs") != 1 {
		t.Errorf("one port, several remarks:\n%s", doc)
	}
}
