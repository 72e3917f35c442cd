package configs

import (
	"slices"
	"strings"

	"healthd/supervisor/core"
)

// orchestratedKey says what healthd does with a container that another orchestrator manages.
const (
	orchestratedKey     = "orchestrated"
	orchestratedStop    = "stop"    // stops it when its probe fails, and never starts it
	orchestratedLeave   = "leave"   // only observes it
	orchestratedRestart = "restart" // what it does with any other
)

// managers are the labels that orchestrators put on the containers that they make.
var managers = []struct{ label, name string }{
	{"com.docker.swarm.task.id", "Docker Swarm"},
	{"com.hashicorp.nomad.alloc_id", "Nomad"},
	{"io.kubernetes.pod.uid", "Kubernetes"},
}

// managerOf returns the orchestrator that manages a container, and the label that says so.
func managerOf(labels map[string]string) (name, label string) {
	for _, m := range managers {
		if _, ok := labels[m.label]; ok {
			return m.name, m.label
		}
	}
	return "", ""
}

// leaveStart leaves the start of a container that another orchestrator manages to that: it makes a new one when this
// one ends, and both would run.
func leaveStart(r *reader, spec *core.Spec, merged *node, labels map[string]string) {
	drop := func(is func(path string) bool) {
		r.values = slices.DeleteFunc(r.values, func(v core.Value) bool { return is(v.Path) })
	}
	manager, label := managerOf(labels)
	mode := orchestratedStop
	switch n := merged.below(orchestratedKey); {
	case n != nil:
		mode = n.text
	case manager == "": // most have nothing to do with it
		drop(func(path string) bool { return path == orchestratedKey })
	}
	if manager == "" || mode == orchestratedRestart {
		return
	}
	origin := "label " + label
	change := func(path, value string) { r.change(path, quoteTOML(value), origin) }
	spec.ManagedElsewhere = manager
	spec.RestartPolicy, spec.RestartRules = core.Never, nil
	change("restart_policy", string(core.Never))
	drop(func(path string) bool { return strings.HasPrefix(path, "restart_rules") })
	if spec.OnFailure == core.RestartFailed {
		spec.OnFailure = core.StopFailed
		change("on_failure", string(core.StopFailed))
	}
	if mode == orchestratedLeave && !spec.Observe {
		spec.Observe = true
		change("mode", modeObserve)
	}
}
