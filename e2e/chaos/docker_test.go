package chaos

import (
	"healthd/e2e/patience"

	"context"
	"errors"
	"time"

	"github.com/docker/docker/api/types/container"

	"healthd/e2e/harness"
)

func (c *chaos) stop(s *target) {
	c.stopByOperator(s, "docker stop", func(k snapshot, since time.Time) (time.Time, bool) {
		// As many as healthd sent are its own.
		return k.termAt, !k.termAt.Before(since) && k.terms > k.stops
	}, func(ctx context.Context, id string) error {
		two := 2
		return c.e.Client().ContainerStop(ctx, id, container.StopOptions{Timeout: &two})
	})
}

func (c *chaos) kill(s *target) {
	c.stopByOperator(s, "docker kill", func(k snapshot, since time.Time) (time.Time, bool) {
		return k.killedAt, !k.killedAt.Before(since) && k.stops == 0
	}, func(ctx context.Context, id string) error { return c.e.Client().ContainerKill(ctx, id, "KILL") })
}

// stopByOperator ends a running container as an operator does. The engine's stream shows
// whether healthd can know that: a signal that came too late, or that may have been
// healthd's own, does not count as an operator's.
func (c *chaos) stopByOperator(s *target, what string, certain func(snapshot, time.Time) (time.Time, bool), do func(context.Context, string) error) {
	ctx, cancel := c.context()
	defer cancel()
	k := c.snapshot(s)
	if !k.runs || k.paused {
		return
	}
	begun := time.Now()
	err := do(ctx, k.id)
	if err == nil {
		err = c.waitForDie(s, begun)
	}
	k = c.snapshot(s)
	at, sure := certain(k, begun)
	switch {
	case s.kind.rm: // the stream shows whether it was removed
	case err != nil || !sure || k.runs:
		c.setWanted(s, wantedUnclear, begun)
	case k.startCall.After(at.Add(noticed)):
		c.fail(s.name, "healthd started it at %v, while the operator stopped it at %v", k.startCall, at)
	case k.startCall.After(at):
		c.setWanted(s, wantedUnclear, begun)
	default:
		c.setWanted(s, wantedStopped, at)
	}
	c.note(s, "%s (%v)", what, err)
}

// waitForDie waits until the engine's stream has the container's die event.
func (c *chaos) waitForDie(s *target, since time.Time) error {
	return c.await(patience.Limit, func() error {
		if c.snapshot(s).diedAt.Before(since) {
			return errors.New("the stream has no die event")
		}
		return nil
	})
}

func (c *chaos) start(s *target) {
	if k := c.snapshot(s); k.runs || k.paused {
		return
	}
	if c.snapshot(s).wanted == wantedRemoved {
		c.recreate(s)
		return
	}
	c.startByOperator(s, "docker start", func(ctx context.Context, id string) error {
		return c.e.Client().ContainerStart(ctx, id, container.StartOptions{})
	})
}

func (c *chaos) restart(s *target) {
	if k := c.snapshot(s); k.paused || k.wanted == wantedRemoved || s.kind.rm {
		return
	}
	c.startByOperator(s, "docker restart", func(ctx context.Context, id string) error {
		two := 2
		return c.e.Client().ContainerRestart(ctx, id, container.StopOptions{Timeout: &two})
	})
}

// startByOperator starts a container: from the request on, it is wanted running.
func (c *chaos) startByOperator(s *target, what string, do func(context.Context, string) error) {
	ctx, cancel := c.context()
	defer cancel()
	c.setWanted(s, wantedUnclear, time.Time{})
	err := do(ctx, c.snapshot(s).id)
	if err == nil {
		c.setWanted(s, wantedRunning, time.Time{})
	}
	c.note(s, "%s (%v)", what, err)
}

func (c *chaos) pauseContainer(s *target) {
	ctx, cancel := c.context()
	defer cancel()
	if k := c.snapshot(s); !k.runs || k.paused || s.kind.ends || c.e.Client().ContainerPause(ctx, k.id) != nil {
		return
	}
	c.change(func() { s.paused = true })
	c.note(s, "docker pause")
}

func (c *chaos) unpause(s *target) {
	ctx, cancel := c.context()
	defer cancel()
	k := c.snapshot(s)
	if !k.paused {
		return
	}
	err := c.e.Client().ContainerUnpause(ctx, k.id)
	if errors.Is(err, context.DeadlineExceeded) { // Docker 20.10 that was killed while it ran a command in it
		c.setWanted(s, wantedUnclear, time.Time{})
	}
	c.change(func() { s.paused = false })
	c.note(s, "docker unpause (%v)", err)
}

// recreate removes the container, if it exists, and creates another of the same name.
func (c *chaos) recreate(s *target) {
	ctx, cancel := c.context()
	defer cancel()
	old := c.snapshot(s).id
	if old != "" {
		c.setWanted(s, wantedUnclear, time.Time{})
		err := c.e.Client().ContainerRemove(ctx, old, container.RemoveOptions{Force: true})
		// One with --rm may be on its way out.
		err = errors.Join(err, c.await(patience.Limit, func() error {
			_, err := c.e.Client().ContainerInspect(ctx, s.name)
			return harness.Gone(err)
		}))
		c.note(s, "docker rm -f (%v)", err)
	}
	made, err := c.e.Client().ContainerCreate(ctx, &container.Config{
		Image: c.e.Image, Cmd: s.kind.cmd, Labels: map[string]string{"e2e": s.kind.name},
	}, &container.HostConfig{
		AutoRemove: s.kind.rm, RestartPolicy: container.RestartPolicy{Name: s.kind.engine},
	}, nil, nil, s.name)
	if err != nil {
		c.note(s, "docker create (%v)", err)
		return
	}
	c.mu.Lock()
	delete(c.byID, old)
	c.byID[made.ID] = s
	s.id, s.paused, s.runs, s.unhealthy, s.taken = made.ID, false, false, false, false
	c.mu.Unlock()
	c.startByOperator(s, "docker start of a new one", func(ctx context.Context, id string) error {
		return c.e.Client().ContainerStart(ctx, id, container.StartOptions{})
	})
}
