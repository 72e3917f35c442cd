package configs

import (
	"time"

	"healthd/supervisor/core"
)

// maxRecorderTimeout bounds what a stop may wait for a flight record.
const maxRecorderTimeout = time.Minute

// recorder reads what a flight record asks inside the container.
func (t *table) recorder() core.Recorder {
	if t.n == nil {
		return core.Recorder{}
	}
	r := core.Recorder{Command: t.command("command")}
	r.Timeout = t.duration("timeout", core.DefaultRecorderTimeout, span[time.Duration]{core.MinTimeout, maxRecorderTimeout})
	t.done()
	return r
}
