package supervisor

import (
	"time"

	"healthd/runtime"
)

// The labels that Docker Compose gives its containers.
const (
	composeProject = "com.docker.compose.project"
	composeService = "com.docker.compose.service"
	composeNumber  = "com.docker.compose.container-number"
	composeOneOff  = "com.docker.compose.oneoff"
)

// group returns the members of a service that stand in for one another: compose
// project and service, else the container alone. What compose has made for one command
// (docker compose run) has the labels of the service's first member, but is none.
func group(c *runtime.Container) string {
	project, service := c.Labels[composeProject], c.Labels[composeService]
	if project == "" || service == "" || c.Labels[composeOneOff] == "True" {
		return c.Name
	}
	return project + "/" + service
}

// identity returns what survives the re-creation of a container: compose project,
// service and number, else its name.
func identity(c *runtime.Container) string {
	number := c.Labels[composeNumber]
	if g := group(c); g != c.Name && number != "" {
		return g + "/" + number
	}
	return c.Name
}

// forgetAfter is how long an identity without a container is remembered at least.
const forgetAfter = time.Hour

// pruneMemories is how many memories may gather before old ones are looked for.
const pruneMemories = 1024
