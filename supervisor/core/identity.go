package core

import "healthd/runtime"

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
	if project == "" || service == "" || c.Labels[composeOneOff] == "True" {
		return c.Name
	}
	return project + "/" + service
}

// IdentityOf returns the name that survives the re-creation of the container:
// PROJECT/SERVICE/NUMBER of Docker Compose, else the container's name.
func IdentityOf(c *runtime.Container) string {
	number := c.Labels[ComposeNumber]
	if g := GroupOf(c); g != c.Name && number != "" {
		return g + "/" + number
	}
	return c.Name
}
