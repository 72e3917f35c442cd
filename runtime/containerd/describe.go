package containerd

import (
	"fmt"
	"strings"
	"time"

	"github.com/containerd/containerd/api/types/task"
	"github.com/containerd/containerd/v2/core/containers"

	"healthd/runtime"
)

// Reasons for which an exit code is not known.
const (
	lostTask   = "its exit code is not known: its task is gone"
	lostReboot = "its exit code is not known: the host was restarted"
	lostShim   = "its exit code is not known: its shim died"
)

// look is what one question to containerd has shown of a container.
type look struct {
	key
	container containers.Container
	process   *task.Process // the main process; nil: there is no task
	err       error         // why nothing is known of the task
}

// describe returns the container as l shows it, but for what it has from a container whose
// network it uses. What is new in it goes into the records, which the caller saves.
func (e *Engine) describe(l *look) *runtime.Container {
	labels := labelSet(l.container.Labels)
	spec := e.specs.read(l.key, &l.container)
	rec := e.records.change(l.key, func(rec *record) { rec.look(e.clock, l) })
	c := &runtime.Container{
		Runtime: e.conf.Name, ID: e.id(l.key), Name: runtime.ClipName(labels.name(l.id)), SharesName: true, Image: l.container.Image,
		Labels: runtime.SharedKeys(labels.lasting()), Env: spec.env, State: rec.state(l.process),
		RestartPolicy: labels.restartPolicy(), RestartsUsedUp: labels.restartsUsedUp(), AutoRemove: labels.autoRemove(),
		StopSignal: labels[labelStopSignal], StopTimeout: labels.stopTimeout(),
		Resources: spec.resources, HasHealthcheck: labels.hasHealthcheck(),
	}
	if rec.Started != 0 {
		c.StartedAt = time.Unix(0, rec.Started)
	}
	if rec.Ended != 0 {
		c.FinishedAt, c.ExitCode, c.OOMKilled, c.Error = time.Unix(0, rec.Ended), rec.Code, rec.OOM, rec.Lost
	}
	c.Namespace = shownNamespace(l.namespace)
	if owner := labels.networkOwner(); owner != "" && spec.joinsNetwork {
		c.NetworkOwner = e.id(key{l.namespace, owner})
	}
	if c.State.Alive() {
		c.Pid = rec.Pid
		e.reach(c, l.key, spec)
	}
	c.Fingerprint = fmt.Sprintf("%s %d %d %x %x", c.State, rec.Pid, rec.Ended, labels.hash(), spec.sum)
	return c
}

// look takes in what containerd shows.
func (rec *record) look(c clock, l *look) {
	now, labels := c.now(), labelSet(l.container.Labels)
	if created := l.container.CreatedAt.UnixNano(); rec.Created != created {
		if rec.Created != 0 { // another container of this ID
			*rec = record{version: rec.version}
		}
		rec.Created, rec.Seen = created, now.UnixNano()
	}
	rec.noteStopped(labels.stopped(), now)
	p := l.process
	if p == nil {
		rec.lookWithoutTask(c, labels, c.fromWall(l.container.CreatedAt), now)
		return
	}
	if strings.Contains(p.Stdout, "://") {
		rec.LogURI = p.Stdout
	}
	switch p.Status {
	case task.Status_RUNNING, task.Status_PAUSED, task.Status_PAUSING:
		before := rec.Started
		rec.alive(c, int(p.Pid), ticksOf(int(p.Pid)), now)
		if rec.Started != before {
			rec.adoptStop(c.fromWall(l.container.UpdatedAt))
		}
	case task.Status_STOPPED:
		rec.exited(c, int(p.Pid), int(p.ExitStatus), c.fromWall(p.ExitedAt.AsTime()))
	case task.Status_CREATED:
		if !rec.isRun(c.boot, int(p.Pid), 0) {
			rec.gone(now, lostTask)
		}
	}
}

func (rec *record) lookWithoutTask(c clock, labels labelSet, created, now time.Time) {
	switch {
	case rec.Started == 0 && labels.stopped(): // it ran before anybody watched
		rec.begin(c, 0, 0, created)
		rec.gone(now, lostTask)
		rec.KillAt = now.UnixNano()
	case rec.Boot != c.boot:
		rec.gone(c.began(), lostReboot)
	default:
		rec.gone(now, lostTask)
	}
}

// state returns the container's state. The records may be newer than the process.
func (rec *record) state(p *task.Process) runtime.State {
	switch {
	case rec.Started == 0:
		return runtime.Created
	case rec.Ended != 0:
		return runtime.Exited
	case p != nil && (p.Status == task.Status_PAUSED || p.Status == task.Status_PAUSING):
		return runtime.Paused
	}
	return runtime.Running
}

// share completes a container that uses the network of another one; nil: that is gone.
func share(c, owner *runtime.Container) {
	c.Address, c.Network, c.Networks, c.HostPorts, c.HostNetwork = "", "", nil, nil, false
	switch {
	case owner == nil:
		c.NetworkOwnerGone = true
	case owner.State.Alive():
		c.NetworkOwnerStartedAt = owner.StartedAt
		if c.State.Alive() {
			c.Address, c.Network, c.Networks = owner.Address, owner.Network, owner.Networks
			c.HostPorts, c.HostNetwork = owner.HostPorts, owner.HostNetwork
		}
	}
}
