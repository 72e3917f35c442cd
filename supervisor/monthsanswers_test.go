package supervisor_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"healthd/runtime"
)

// What healthd asks of a monthsEngine: it is a runtime.Source, a supervisor.Restarter and a prober.Engine.

func (e *monthsEngine) Subscribe(ctx context.Context, since time.Time) (runtime.Stream, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.down {
		return nil, errMonthsDown
	}
	s := &monthsStream{ctx: ctx, events: make(chan runtime.Event, 4*monthsHistory)}
	for _, ev := range e.history {
		if !ev.Time.Before(since) {
			s.events <- ev
		}
	}
	e.streams[s] = true
	context.AfterFunc(ctx, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.streams, s)
	})
	return s, nil
}

func (e *monthsEngine) List(context.Context) ([]runtime.Summary, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.down {
		return nil, errMonthsDown
	}
	all := make([]runtime.Summary, 0, len(e.containers))
	for _, c := range e.containers {
		all = append(all, runtime.Summary{
			ID: c.info.ID, Name: c.info.Name, Image: c.info.Image, Labels: c.info.Labels, State: c.info.State, Fingerprint: c.info.Fingerprint,
		})
	}
	return all, nil
}

func (e *monthsEngine) Inspect(_ context.Context, id string) (*runtime.Container, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	c := e.containers[id]
	switch {
	case e.down:
		return nil, errMonthsDown
	case e.failLooks > 0:
		e.failLooks--
		return nil, errors.New("the engine is busy")
	case c == nil:
		return nil, fmt.Errorf("container %s: %w", id, runtime.ErrNotFound)
	}
	copied := c.info
	if owner := e.containers[copied.NetworkOwner]; owner != nil {
		copied.NetworkOwnerStartedAt = owner.info.StartedAt
	} else {
		copied.NetworkOwnerGone = copied.NetworkOwner != ""
	}
	return &copied, nil
}

func (e *monthsEngine) EventHistory(_ context.Context, at time.Time) (runtime.EventHistory, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	h := runtime.EventHistory{Full: len(e.history) == monthsHistory}
	for _, ev := range e.history {
		h.HasEvent = h.HasEvent || ev.Time.Equal(at)
	}
	if len(e.history) > 0 {
		h.Oldest = e.history[0].Time
	}
	if h.Full && !h.HasEvent {
		h.Began = e.began
	}
	return h, nil
}

func (e *monthsEngine) KillEvents(_ context.Context, run runtime.Run) ([]runtime.Event, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	kills := runtime.FindKillsOf(run, monthsHistory)
	for _, ev := range e.history {
		kills.Add(ev)
	}
	return kills.Kills(), nil
}

func (e *monthsEngine) Clock(context.Context) (time.Time, error) { return time.Now(), nil }

func (e *monthsEngine) Ping(context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.down {
		return errMonthsDown
	}
	return nil
}

func (e *monthsEngine) Accept(ctx context.Context) error { return e.Ping(ctx) }

func (e *monthsEngine) Stop(_ context.Context, id string, _ time.Duration) error {
	c, err := e.find(id)
	if err == nil {
		e.stop(c)
	}
	return err
}

func (e *monthsEngine) Start(_ context.Context, id string) error {
	c, err := e.find(id)
	if err == nil {
		e.begin(c)
	}
	return err
}

func (e *monthsEngine) find(id string) (*monthsContainer, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch c := e.containers[id]; {
	case e.down:
		return nil, errMonthsDown
	case c == nil:
		return nil, fmt.Errorf("container %s: %w", id, runtime.ErrNotFound)
	default:
		return c, nil
	}
}

// Exec answers the command of a liveness or startup probe.
func (e *monthsEngine) Exec(_ context.Context, id string, _ []string, _ time.Duration, _ int, started func()) (output []byte, exitCode int, timedOut bool, err error) {
	c, err := e.find(id)
	if err != nil {
		return nil, 0, false, err
	}
	started()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.probes.Add(1)
	if c.failures > 0 {
		c.failures--
		return fmt.Appendf(nil, "no answer since %v", e.clock.Unix()), 1, false, nil
	}
	return nil, 0, false, nil
}

// Health answers a readiness probe.
func (e *monthsEngine) Health(_ context.Context, id string) (status, output string, err error) {
	c, err := e.find(id)
	if err != nil {
		return "", "", err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.probes.Add(1)
	if c.unready > 0 {
		c.unready--
		return "unhealthy", "busy", nil
	}
	return "healthy", "", nil
}
