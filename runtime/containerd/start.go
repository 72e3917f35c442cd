package containerd

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/containerd/containerd/api/services/tasks/v1"
	"github.com/containerd/containerd/api/types/task"
	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/containerd/v2/pkg/cio"
	"github.com/containerd/errdefs"
	"github.com/containerd/typeurl/v2"
	"github.com/opencontainers/runtime-spec/specs-go"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"
)

const (
	startTimeout = 2 * time.Minute
	// startTries is how often Start looks again after somebody else was faster.
	startTries = 20
	// makingTime is how long a client takes at most to make a task, with its network.
	makingTime = 10 * time.Second
	// noLog is where the output goes of a container whose last one went to a client's FIFO.
	// With no output at all its standard output would be read-only.
	noLog = "file:///dev/null"
	// noTerminalLog is the same with a terminal, whose output containerd 1.6 writes into no file.
	noTerminalLog = "/dev/null"
)

// Start starts the container in place: it deletes the task that has ended and makes another
// one with the same log. A container that is running is no error, nor one that somebody else
// starts at the same moment.
func (e *Engine) Start(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	k, err := e.key(id)
	if err != nil {
		return err
	}
	for range startTries {
		var again bool
		if again, err = e.startOnce(ctx, k); !again {
			break
		}
	}
	return e.containerError(err, "start", k)
}

// startOnce does what the present state of the container asks for. again says that somebody
// else changed the state meanwhile; err is then why that could be seen.
func (e *Engine) startOnce(ctx context.Context, k key) (again bool, err error) {
	c, err := e.client()
	if err != nil {
		return false, err
	}
	l, err := e.look(ctx, c, k)
	if err != nil {
		return false, err
	}
	e.describe(l) // keeps the exit code and the log, which go with the task
	e.records.save()
	again, err = e.startAs(in(ctx, k.namespace), c, l)
	status := l.container.Labels[labelRestartStatus]
	if err == nil && (status == statusCreated || status == statusStopped) {
		// Not before the start: the restart plugin might start it as well, and kill the new task.
		err = e.setLabel(ctx, k, labelRestartStatus, statusRunning)
	}
	return again, err
}

// startAs is startOnce for a container that is as l shows it.
func (e *Engine) startAs(ctx context.Context, c *client.Client, l *look) (again bool, err error) {
	k := l.key
	if p := l.process; p != nil {
		switch p.Status {
		case task.Status_STOPPED:
			if err := e.deleteTask(ctx, c, k, p.Pid); err != nil {
				now, look := e.process(ctx, c, k.id)
				return look == nil && (now == nil || now.Pid != p.Pid), err
			}
		case task.Status_CREATED:
			return e.startMade(ctx, c, k, p.Pid)
		default:
			return false, nil
		}
	}
	if settled, wait := e.calls.unsettled(k); settled != nil {
		select {
		case <-settled:
		case <-time.After(wait):
		case <-ctx.Done():
			return false, ctx.Err()
		}
		return true, errors.New("somebody else has deleted its task")
	}
	if err := e.prepare(ctx, c, l); err != nil {
		return false, err
	}
	return e.newTask(ctx, c, l)
}

// deleteTask deletes a task that has ended.
func (e *Engine) deleteTask(ctx context.Context, c *client.Client, k key, pid uint32) error {
	e.calls.deleting(k, int(pid))
	_, err := c.TaskService().Delete(ctx, &tasks.DeleteTaskRequest{ContainerID: k.id})
	if err = native(err); err != nil {
		e.calls.notDeleted(k, int(pid))
	}
	return err
}

// newTask makes a task and starts it. One whose start fails is deleted.
func (e *Engine) newTask(ctx context.Context, c *client.Client, l *look) (again bool, err error) {
	loaded, err := c.LoadContainer(ctx, l.id)
	if err != nil {
		return errdefs.IsNotFound(err), err
	}
	_, err = loaded.NewTask(ctx, e.output(l))
	if errdefs.IsAlreadyExists(err) {
		return true, errors.Join(err, e.awaitMade(ctx, c, l.key, makingTime))
	}
	if err != nil {
		beingDeleted := isBundleInUse(err) || e.snapshotGone(ctx, c, l)
		if beingDeleted {
			e.calls.othersDelete(l.key)
		}
		return beingDeleted || errdefs.IsNotFound(err), err
	}
	again, err = e.startTask(ctx, c, l.key)
	if err != nil && !again {
		cleaning, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
		defer cancel()
		if p, look := e.process(cleaning, c, l.id); look == nil && p != nil {
			made := &stopCall{engine: e, key: l.key, pid: p.Pid}
			if made.signal(cleaning, unix.SIGKILL) == nil && made.wait(cleaning) == nil {
				_ = e.deleteTask(cleaning, c, l.key, p.Pid)
			}
		}
	}
	return again, err
}

// awaitMade waits for the task that somebody else makes. If there is none after that time, only its
// shim is there: whoever deleted the task was killed meanwhile, and another deletion removes the shim.
func (e *Engine) awaitMade(ctx context.Context, c *client.Client, k key, patience time.Duration) error {
	for over := time.Now().Add(patience); ; {
		if p, err := e.process(ctx, c, k.id); p != nil || err != nil {
			return err
		}
		if !time.Now().Before(over) {
			break
		}
		select {
		case <-time.After(waitPause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	_, err := c.TaskService().Delete(ctx, &tasks.DeleteTaskRequest{ContainerID: k.id})
	if err = native(err); errdefs.IsNotFound(err) {
		return nil
	}
	return err
}

// isBundleInUse says that no task was made because somebody else made or deleted one meanwhile: the
// directory of the container's task was still there, or gone while the shim was started in it.
func isBundleInUse(err error) bool {
	text := err.Error()
	return strings.Contains(text, "file exists") ||
		strings.Contains(text, "failed to start shim") && strings.Contains(text, "no such file or directory")
}

// snapshotGone says that the container has no file system any more: whoever removes a container
// begins with that.
func (e *Engine) snapshotGone(ctx context.Context, c *client.Client, l *look) bool {
	_, err := c.SnapshotService(l.container.Snapshotter).Stat(ctx, l.container.SnapshotKey)
	return errdefs.IsNotFound(err)
}

// startMade starts a task that somebody else has made, if that one does not: it may have died.
func (e *Engine) startMade(ctx context.Context, c *client.Client, k key, pid uint32) (again bool, err error) {
	for begun := time.Now(); time.Since(begun) < settleTime; {
		p, err := e.process(ctx, c, k.id)
		if err != nil {
			return false, err
		}
		if p == nil || p.Pid != pid || p.Status != task.Status_CREATED {
			return true, errors.New("somebody else starts it")
		}
		select {
		case <-time.After(waitPause):
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
	return e.startTask(ctx, c, k)
}

// startTask starts a task that was made. Somebody else may have done it.
func (e *Engine) startTask(ctx context.Context, c *client.Client, k key) (again bool, err error) {
	_, err = c.TaskService().Start(ctx, &tasks.StartRequest{ContainerID: k.id})
	if err = native(err); err == nil {
		return false, nil
	}
	// It was killed since it was made, as containerd's restart plugin does, which makes another one. The task that is
	// there now may be that one, or the end of this one is not told yet, or both are deleted.
	if strings.Contains(err.Error(), "a container that has stopped") {
		return true, err
	}
	p, look := e.process(ctx, c, k.id)
	if look != nil || p != nil && p.Status == task.Status_CREATED {
		return false, err
	}
	return errdefs.IsNotFound(err) || p != nil, err
}

// output keeps the log of the newest task: logs go on.
func (e *Engine) output(l *look) cio.Creator {
	uri := e.records.get(l.key).LogURI
	if uri == "" {
		uri = e.nerdctlLog(labelSet(l.container.Labels))
	}
	s := e.specs.read(l.key, &l.container)
	config := cio.Config{Terminal: s.process != nil && s.process.Terminal, Stdout: uri, Stderr: uri}
	if u, err := url.Parse(uri); err != nil || u.Scheme == "" {
		config.Stdout, config.Stderr = noLog, noLog
		if config.Terminal {
			config.Stdout, config.Stderr = noTerminalLog, ""
		}
	}
	return func(string) (cio.IO, error) { return logIO{config}, nil }
}

// nerdctlLog returns where the output goes that nerdctl keeps; empty: it does not keep it.
func (e *Engine) nerdctlLog(labels labelSet) string {
	nerdctl, err := exec.LookPath("nerdctl")
	if err == nil && labels.loggedBy(nerdctl, e.conf.NerdctlDir) {
		return labels[labelLogURI]
	}
	return ""
}

// logIO is output that the shim writes to a log.
type logIO struct{ config cio.Config }

func (l logIO) Config() cio.Config { return l.config }
func (l logIO) Cancel()            {}
func (l logIO) Wait()              {}
func (l logIO) Close() error       { return nil }

// prepare does what nerdctl's start does before it makes a task. It takes back nerdctl's label
// of an operator's stop, so that the next stop shows, and the restart plugin's order to keep the
// container stopped, which would kill the new task. It joins the network of the container that it
// shares one with: the specification names a process of that one's last run.
func (e *Engine) prepare(ctx context.Context, c *client.Client, l *look) error {
	labels := labelSet(l.container.Labels)
	if labels.stopped() {
		if err := e.setLabel(ctx, l.key, labelStopped, "false"); err != nil {
			return err
		}
		e.records.change(l.key, func(rec *record) { rec.noteStopped(false, e.clock.now()) })
		e.records.save()
	}
	if labels[labelRestartStatus] == statusStopped {
		if err := e.setLabel(ctx, l.key, labelRestartStatus, statusCreated); err != nil {
			return err
		}
	}
	if owner := labels.networkOwner(); owner != "" && e.specs.read(l.key, &l.container).joinsNetwork {
		return e.joinNetwork(ctx, c, l, owner)
	}
	return nil
}

// setLabel changes a label of the container.
func (e *Engine) setLabel(ctx context.Context, k key, name, value string) error {
	ctx, cancel := context.WithTimeout(in(ctx, k.namespace), callTimeout)
	defer cancel()
	c, err := e.client()
	if err != nil {
		return err
	}
	change := containers.Container{ID: k.id, Labels: map[string]string{name: value}}
	if _, err = c.ContainerService().Update(ctx, change, "labels."+name); err != nil {
		return fmt.Errorf("cannot set the label %s: %w", name, err)
	}
	return nil
}

func (e *Engine) joinNetwork(ctx context.Context, c *client.Client, l *look, owner string) error {
	p, err := e.process(ctx, c, owner)
	switch {
	case err != nil:
		return fmt.Errorf("cannot find the network of container %s: %w", short(owner), err)
	case p == nil || p.Status != task.Status_RUNNING:
		return fmt.Errorf("container %s, whose network it uses, does not run", short(owner))
	}
	var oci specs.Spec
	if err := typeurl.UnmarshalTo(l.container.Spec, &oci); err != nil {
		return fmt.Errorf("cannot read its specification: %w", err)
	}
	path := fmt.Sprintf("/proc/%d/ns/net", p.Pid)
	if _, err := os.Stat(path); err != nil {
		return fmt.Errorf("cannot find the network of container %s: %w", short(owner), err)
	}
	if oci.Linux == nil {
		return nil
	}
	for i, n := range oci.Linux.Namespaces {
		if n.Type != specs.NetworkNamespace || n.Path == path || !strings.HasPrefix(n.Path, "/proc/") {
			continue
		}
		oci.Linux.Namespaces[i].Path = path
		text, err := typeurl.MarshalAny(&oci)
		if err != nil {
			return err
		}
		e.log.Debug("joining the network of another container", zap.String("container", l.key.String()), zap.String("network of", owner))
		_, err = c.ContainerService().Update(ctx, containers.Container{ID: l.id, Spec: text}, "spec")
		return err
	}
	return nil
}
