package e2e

import (
	"context"
	"errors"
	"time"

	"github.com/docker/docker/api/types/container"
)

func (c *chaos) stop(s *subject) {
	c.endIt(s, "docker stop", func(k known, since time.Time) (time.Time, bool) {
		// As many as healthd sent are its own.
		return k.termAt, !k.termAt.Before(since) && k.terms > k.stops
	}, func(ctx context.Context, id string) error {
		two := 2
		return c.e.Client().ContainerStop(ctx, id, container.StopOptions{Timeout: &two})
	})
}

func (c *chaos) kill(s *subject) {
	c.endIt(s, "docker kill", func(k known, since time.Time) (time.Time, bool) {
		return k.killedAt, !k.killedAt.Before(since) && k.stops == 0
	}, func(ctx context.Context, id string) error { return c.e.Client().ContainerKill(ctx, id, "KILL") })
}

// endIt ends a running container as an operator does. Whether that is a wish that
// healthd can know of is told by the engine's stream: a signal that came too late, or
// that may have been healthd's own, is none.
func (c *chaos) endIt(s *subject, what string, certain func(known, time.Time) (time.Time, bool), do func(context.Context, string) error) {
	ctx, cancel := c.context()
	defer cancel()
	k := c.now(s)
	if !k.runs || k.paused {
		return
	}
	begun := time.Now()
	err := do(ctx, k.id)
	if err == nil {
		err = c.awaitDeath(s, begun)
	}
	k = c.now(s)
	at, sure := certain(k, begun)
	switch {
	case s.kind.rm: // the stream has told, if it is so
	case err != nil || !sure || k.runs:
		c.wishes(s, wishVague, begun)
	case k.startCall.After(at.Add(noticed)):
		c.wrong(s.name, "healthd started it at %v, while the operator stopped it at %v", k.startCall, at)
	case k.startCall.After(at):
		c.wishes(s, wishVague, begun)
	default:
		c.wishes(s, wishDown, at)
	}
	c.note(s, "%s (%v)", what, err)
}

// awaitDeath waits until the engine's stream has told of the container's end.
func (c *chaos) awaitDeath(s *subject, since time.Time) error {
	return c.await(5*time.Second, func() error {
		if c.now(s).diedAt.Before(since) {
			return errors.New("its end was not told")
		}
		return nil
	})
}

func (c *chaos) start(s *subject) {
	if k := c.now(s); k.runs || k.paused {
		return
	}
	if c.now(s).wish == wishGone {
		c.recreate(s)
		return
	}
	c.revive(s, "docker start", func(ctx context.Context, id string) error {
		return c.e.Client().ContainerStart(ctx, id, container.StartOptions{})
	})
}

func (c *chaos) restart(s *subject) {
	if k := c.now(s); k.paused || k.wish == wishGone || s.kind.rm {
		return
	}
	c.revive(s, "docker restart", func(ctx context.Context, id string) error {
		two := 2
		return c.e.Client().ContainerRestart(ctx, id, container.StopOptions{Timeout: &two})
	})
}

// revive makes a container run, which is a wish from the beginning.
func (c *chaos) revive(s *subject, what string, do func(context.Context, string) error) {
	ctx, cancel := c.context()
	defer cancel()
	c.wishes(s, wishVague, time.Time{})
	err := do(ctx, c.now(s).id)
	if err == nil {
		c.wishes(s, wishUp, time.Time{})
	}
	c.note(s, "%s (%v)", what, err)
}

func (c *chaos) pauseIt(s *subject) {
	ctx, cancel := c.context()
	defer cancel()
	if k := c.now(s); !k.runs || k.paused || s.kind.ends || c.e.Client().ContainerPause(ctx, k.id) != nil {
		return
	}
	c.change(func() { s.paused = true })
	c.note(s, "docker pause")
}

func (c *chaos) unpause(s *subject) {
	ctx, cancel := c.context()
	defer cancel()
	k := c.now(s)
	if !k.paused {
		return
	}
	err := c.e.Client().ContainerUnpause(ctx, k.id)
	c.change(func() { s.paused = false })
	c.note(s, "docker unpause (%v)", err)
}

// recreate removes the container, if it is there, and makes another of the same name.
func (c *chaos) recreate(s *subject) {
	ctx, cancel := c.context()
	defer cancel()
	old := c.now(s).id
	if old != "" {
		c.wishes(s, wishVague, time.Time{})
		err := c.e.Client().ContainerRemove(ctx, old, container.RemoveOptions{Force: true})
		// One with --rm may be on its way out.
		err = errors.Join(err, c.await(10*time.Second, func() error {
			_, err := c.e.Client().ContainerInspect(ctx, s.name)
			return gone(err)
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
	s.id, s.paused, s.runs, s.sick, s.taken = made.ID, false, false, false, false
	c.mu.Unlock()
	c.revive(s, "docker start of a new one", func(ctx context.Context, id string) error {
		return c.e.Client().ContainerStart(ctx, id, container.StartOptions{})
	})
}
