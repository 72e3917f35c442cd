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

const (
	// survivedAfter is how long after a signal a run must go on to count as one that survived it.
	survivedAfter = 30 * time.Second
	// logPatience is for Podman's log of events, which has no limit: whoever asks who ended a run does
	// not wait long.
	logPatience = time.Second
)

// libpodStop returns the signal that ended a run, as far as libpod tells. version is that of the API.
func (e *Engine) libpodStop(ctx context.Context, version string, run runtime.Run) ([]runtime.Event, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	c, err := e.client(ctx)
	if err != nil {
		return nil, err
	}
	var in libpodContainer
	// Without a version, Podman does not know the path.
	err = e.getUnversioned(ctx, c, "/v"+url.PathEscape(version)+"/libpod/containers/"+url.PathEscape(run.ID)+"/json", &in)
	switch {
	case isRefused(err): // or the container is gone
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("cannot ask Podman who ended a run: %w", e.explain(err))
	case in.State.StartedAt.UnixNano() != run.Started, !in.State.StoppedByUser, stateOf(in.State.Status).Alive():
		return nil, nil
	case !in.endedAsStopped() && e.survivedSignal(ctx, run, in.State.FinishedAt):
		return nil, nil
	}
	return []runtime.Event{{ID: run.ID, Action: runtime.ActionKill, Signal: in.stopSignal(), Time: in.State.FinishedAt}}, nil
}

// endedAsStopped says that the run ended as one does that is stopped.
func (c *libpodContainer) endedAsStopped() bool {
	const bySignal = 128
	s := &c.State
	return s.ExitCode == 0 || s.ExitCode == bySignal+c.stopSignal() || s.ExitCode == bySignal+int(syscall.SIGKILL) && !s.OOMKilled
}

// survivedSignal says that the run went on after its last signal, such as HUP to read its files again.
// A stop has no event. Where the log does not tell, somebody's request counts as one for the end.
func (e *Engine) survivedSignal(ctx context.Context, run runtime.Run, ended time.Time) bool {
	ctx, cancel := context.WithTimeout(ctx, logPatience)
	defer cancel()
	// The log finds what came since a moment.
	kills, err := e.pastKills(ctx, run, pastQuery{from: time.Unix(0, run.Started).Add(-timeRounding), podman: true})
	return err == nil && len(kills) > 0 && ended.Sub(kills[len(kills)-1].Time) > survivedAfter
}

// stopSignal returns the signal that a stop of the container begins with.
func (c *libpodContainer) stopSignal() int {
	return (&runtime.Container{StopSignal: fmt.Sprint(c.Config.StopSignal)}).StopSignalNumber()
}
