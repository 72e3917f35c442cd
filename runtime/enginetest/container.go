package enginetest

import "time"

// Container is what an engine shows of a container to its operator.
type Container struct {
	Running    bool
	Pid        int       // of the main process, on the host
	StartedAt  time.Time // of the present run, or the last one; zero where the engine does not tell
	FinishedAt time.Time // of the last run that ended
}
