package core

import (
	"cmp"
	"strings"

	"healthd/runtime"
)

// The labels that Docker Compose gives its containers.
const (
	ComposeProject = "com.docker.compose.project"
	ComposeService = "com.docker.compose.service"
	ComposeNumber  = "com.docker.compose.container-number"
	composeOneOff  = "com.docker.compose.oneoff"
)

// ProjectOf returns the Docker Compose project that labels tell of, empty for none.
func ProjectOf(labels map[string]string) string {
	if project := labels[ComposeProject]; composeName(project) {
		return project
	}
	return ""
}

// ServiceOf returns PROJECT/SERVICE of Docker Compose, empty when labels tell of no such service.
// A container of `docker compose run` has the labels of the service's first member, but is no
// member.
func ServiceOf(labels map[string]string) string {
	project, service := ProjectOf(labels), labels[ComposeService]
	if project == "" || !composeName(service) || OneOff(labels) {
		return ""
	}
	return project + "/" + service
}

// OneOff says whether Compose made the container for one command (docker compose run). It ends
// with the command.
func OneOff(labels map[string]string) bool { return labels[composeOneOff] == "True" }

// GroupOf returns the name of the container's group: see ServiceOf, else the container's own name.
func GroupOf(c *runtime.Container) string {
	return cmp.Or(ServiceOf(c.Labels), c.Name)
}

// composeName says that a label is what Compose could have written. Others may have written it, and it
// becomes a part of names.
func composeName(s string) bool {
	const most = 128
	odd := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_' && r != '.'
	}
	return s != "" && len(s) <= most && !strings.ContainsFunc(s, odd)
}

// IdentityOf returns the name that survives the re-creation of the container:
// PROJECT/SERVICE/NUMBER of Docker Compose, else the container's name.
func IdentityOf(c *runtime.Container) string {
	service, number := ServiceOf(c.Labels), c.Labels[ComposeNumber]
	if service != "" && composeName(number) {
		return service + "/" + number
	}
	return c.Name
}
