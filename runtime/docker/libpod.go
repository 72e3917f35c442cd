package docker

import (
	"context"
	"fmt"
	"net/url"
	"syscall"
	"time"

	"healthd/runtime"
)

// Podman's events tell of few stops, and of no signal's number. Its own API, libpod, tells
// from 4.7 on whether somebody asked for the end of a run. Whether an engine has that API, it says in
// the answer to a ping, so Docker is never asked.

// libpodContainer is what libpod tells of a container.
type libpodContainer struct {
	State struct {
		Status                string
		StartedAt, FinishedAt time.Time
		ExitCode              int
		OOMKilled             bool
		// StoppedByUser is set by every request for a stop or a restart, and by every signal,
		// HUP as well. A start takes it back.
		StoppedByUser bool
	}
	Config struct {
		StopSignal any // a name, and up to 4.9 a number
	}
}

// survivedAfter is how long after a signal a run must go on to count as one that survived it.
const survivedAfter = 30 * time.Second

// addLibpodStop adds to the signals of a run the one that ended it, as far as libpod tells.
// version is that of the API.
func (e *Engine) addLibpodStop(ctx context.Context, version string, run runtime.Run, kills []runtime.Event) ([]runtime.Event, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	c, err := e.client(ctx)
	if err != nil {
		return kills, err
	}
	var in libpodContainer
	// Without a version, Podman does not know the path.
	err = e.getUnversioned(ctx, c, "/v"+url.PathEscape(version)+"/libpod/containers/"+url.PathEscape(run.ID)+"/json", &in)
	switch {
	case isRefused(err): // or the container is gone
		return kills, nil
	case err != nil:
		return kills, fmt.Errorf("cannot ask Podman who ended a run: %w", e.explain(err))
	case in.State.StartedAt.UnixNano() != run.Started || !in.endedByRequest(kills):
		return kills, nil
	}
	return append(kills, runtime.Event{ID: run.ID, Action: runtime.ActionKill, Signal: in.stopSignal(), Time: in.State.FinishedAt}), nil
}

// endedByRequest says that somebody asked for the end of the run. kills are the signals to it,
// without their numbers.
func (c *libpodContainer) endedByRequest(kills []runtime.Event) bool {
	s := &c.State
	switch {
	case !s.StoppedByUser || stateOf(s.Status).Alive():
		return false
	case len(kills) == 0: // so it was a stop or a restart
		return true
	case s.FinishedAt.Sub(kills[len(kills)-1].Time) <= survivedAfter:
		return true
	}
	// The run went on after a signal, such as HUP to read its files again. Only how it ended
	// tells whether there was a stop later.
	const bySignal = 128
	return s.ExitCode == 0 || s.ExitCode == bySignal+c.stopSignal() || s.ExitCode == bySignal+int(syscall.SIGKILL) && !s.OOMKilled
}

// stopSignal returns the signal that a stop of the container begins with.
func (c *libpodContainer) stopSignal() int {
	return (&runtime.Container{StopSignal: fmt.Sprint(c.Config.StopSignal)}).StopSignalNumber()
}
