package core

import "healthd/runtime"

// The labels that Docker Compose gives its containers.
const (
	ComposeProject = "com.docker.compose.project"
	ComposeService = "com.docker.compose.service"
	ComposeNumber  = "com.docker.compose.container-number"
	composeOneOff  = "com.docker.compose.oneoff"
)

// GroupOf returns the members of a service that stand in for one another: compose
// project and service, else the container alone. What compose has made for one command
// (docker compose run) has the labels of the service's first member, but is none.
func GroupOf(c *runtime.Container) string {
	project, service := c.Labels[ComposeProject], c.Labels[ComposeService]
	if project == "" || service == "" || c.Labels[composeOneOff] == "True" {
		return c.Name
	}
	return project + "/" + service
}

// IdentityOf returns what survives the re-creation of a container: compose project,
// service and number, else its name.
func IdentityOf(c *runtime.Container) string {
	number := c.Labels[ComposeNumber]
	if g := GroupOf(c); g != c.Name && number != "" {
		return g + "/" + number
	}
	return c.Name
}
