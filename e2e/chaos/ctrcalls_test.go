package chaos

import (
	"healthd/e2e/patience"

	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/pkg/cio"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/errdefs"
)

// What nerdctl and ctr do, with an error where somebody else was faster.

// ctrCall is one act on one container.
type ctrCall struct {
	context.Context
	id string
	c  client.Container
	of *ctrChaos
}

func (c *ctrChaos) call(s *ctrTarget) (*ctrCall, context.CancelFunc, error) {
	ctx, cancel := c.context()
	ctx = namespaces.WithNamespace(ctx, s.kind.space())
	id := c.snapshot(s).id
	loaded, err := c.e.Client().LoadContainer(ctx, id)
	return &ctrCall{ctx, id, loaded, c}, cancel, err
}

// label sets the label that nerdctl sets before it ends a container.
func (k *ctrCall) label(value string) error {
	_, err := k.c.SetLabels(k, map[string]string{"containerd.io/restart.explicitly-stopped": value})
	return err
}

// signal sends a signal to the task. That there is none is no error.
func (k *ctrCall) signal(sig syscall.Signal) error {
	task, err := k.c.Task(k, nil)
	if err == nil {
		err = task.Kill(k, sig)
	}
	if errdefs.IsNotFound(err) {
		return nil
	}
	return err
}

// deleteTask deletes the task, also one that runs if it is forced.
func (k *ctrCall) deleteTask(forced bool) error {
	task, err := k.c.Task(k, nil)
	if err == nil && forced {
		_, err = task.Delete(k, client.WithProcessKill)
	} else if err == nil {
		_, err = task.Delete(k)
	}
	if errdefs.IsNotFound(err) {
		return nil
	}
	return err
}

// othersWork is how long somebody else may be at a container.
const othersWork = patience.Limit

// start makes that the container runs, whoever else starts it at the same time.
func (k *ctrCall) start() error {
	if err := k.of.await(othersWork, k.startOnce); err != nil {
		return fmt.Errorf("it does not start: %w", err)
	}
	return k.label("false")
}

// startOnce returns nil when the container runs.
func (k *ctrCall) startOnce() error {
	task, err := k.c.Task(k, nil)
	if errdefs.IsNotFound(err) {
		if task, err = k.c.NewTask(k, cio.LogFile(k.of.e.LogFile(k.id))); err == nil {
			err = task.Start(k)
		}
		return err
	}
	if err != nil {
		return err
	}
	status, err := task.Status(k)
	switch {
	case err != nil:
		return err
	case status.Status == client.Running:
		return nil
	case status.Status == client.Stopped:
		_, err = task.Delete(k)
	}
	return errors.Join(errors.New("it is "+string(status.Status)), err)
}

func (k *ctrCall) pause() error {
	task, err := k.c.Task(k, nil)
	if err == nil {
		err = task.Pause(k)
	}
	return err
}

func (k *ctrCall) unpause() error {
	task, err := k.c.Task(k, nil)
	if err == nil {
		err = task.Resume(k)
	}
	return err
}

// remove is nerdctl rm -f.
func (k *ctrCall) remove() error {
	return k.of.await(othersWork, func() error {
		err := k.deleteTask(true)
		if err == nil {
			err = k.c.Delete(k, client.WithSnapshotCleanup)
		}
		if errdefs.IsNotFound(err) {
			return nil
		}
		return err
	})
}
