package core

import (
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

// GroupOf returns the name of the container's group: PROJECT/SERVICE of Docker Compose,
// else the container's own name. A container of `docker compose run` has the labels of the
// service's first member, but is no member.
func GroupOf(c *runtime.Container) string {
	project, service := c.Labels[ComposeProject], c.Labels[ComposeService]
	if !composeName(project) || !composeName(service) || c.Labels[composeOneOff] == "True" {
		return c.Name
	}
	return project + "/" + service
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
	number := c.Labels[ComposeNumber]
	if g := GroupOf(c); g != c.Name && composeName(number) {
		return g + "/" + number
	}
	return c.Name
}
