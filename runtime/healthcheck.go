package runtime

import (
	"path"
	"slices"
	"time"
)

// Healthcheck is the check that an engine runs in a container, its HEALTHCHECK. What is zero is as the
// engine does it by default.
type Healthcheck struct {
	// Test begins with "CMD" before the words of a command, or with "CMD-SHELL" before a line for a shell.
	Test          []string
	Interval      time.Duration
	Timeout       time.Duration
	StartPeriod   time.Duration // failures in it do not count before the first success
	StartInterval time.Duration // between checks in StartPeriod
	Retries       int           // failures in a row that make the container unhealthy
}

// Creation is what a container was made with that healthd itself does not need: what follows
// from it, such as the health, the engine tells otherwise.
type Creation struct {
	Healthcheck *Healthcheck // nil: none, neither of its own nor of its image
	RestartMax  int          // of the restart policy "on-failure"; 0: no limit
	Ports       []int        // TCP ports that the container or its image says it listens on
	HasSocket   bool         // the engine's own socket is mounted: it may act on other containers
}

// IsEngineSocket says whether a path is called as engines call their sockets.
func IsEngineSocket(file string) bool {
	return slices.Contains([]string{"docker.sock", "podman.sock"}, path.Base(file))
}
