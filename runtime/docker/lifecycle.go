package docker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"

	"healthd/runtime"
)

// Stop sends the container's stop signal, and SIGKILL after grace, which is rounded up
// to whole seconds. It returns when the container has ended. A container that is not
// running is no error.
func (e *Engine) Stop(ctx context.Context, id string, grace time.Duration) error {
	seconds := int((max(grace, 0) + time.Second - 1) / time.Second)
	limited, cancel := context.WithTimeout(ctx, time.Duration(seconds)*time.Second+stopMargin)
	defer cancel()
	c, err := e.client(limited)
	if err != nil {
		return err
	}
	err = e.containerError(c.ContainerStop(limited, id, container.StopOptions{Timeout: &seconds}), "stop", id)
	if err == nil || errors.Is(err, runtime.ErrNotFound) || ctx.Err() != nil {
		return err
	}
	// The answer may have been lost after the work was done.
	if now, look := e.Inspect(ctx, id); look == nil && !now.State.Alive() && now.State != runtime.Restarting {
		return nil
	}
	return err
}

// Start starts the container. A container that is running is no error. One that is being removed
// is not found.
func (e *Engine) Start(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	c, err := e.client(ctx)
	if err != nil {
		return err
	}
	err = c.ContainerStart(ctx, id, container.StartOptions{})
	if errdefs.IsConflict(err) && strings.Contains(err.Error(), "marked for removal") {
		err = fmt.Errorf("it is being removed: %w", runtime.ErrNotFound)
	}
	return e.containerError(err, "start", id)
}
