package docker

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/client"

	"healthd/runtime"
	"healthd/runtime/hostproc"
)

// Inspect returns the container with the ID, or an error that wraps
// runtime.ErrNotFound.
func (e *Engine) Inspect(ctx context.Context, id string) (*runtime.Container, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	c, err := e.client(ctx)
	if err != nil {
		return nil, err
	}
	in, err := inspect(ctx, c, id)
	if err != nil {
		return nil, e.containerError(err, "inspect", id)
	}
	n, err := e.inspectNetworking(ctx, c, &in, maxNetworkDepth)
	if err != nil {
		return nil, e.containerError(err, "inspect the network of", id)
	}
	return e.describe(&in, n), nil
}

// maxStopTimeout is in seconds: more, which whoever makes a container may ask for, is too long for a
// time.Duration.
const maxStopTimeout = 365 * 24 * 60 * 60

// inspect returns an error for an answer without ID or state, which a proxy, or
// something else that listens there, may give, and for one about another container.
func inspect(ctx context.Context, c *client.Client, id string) (container.InspectResponse, error) {
	in, err := c.ContainerInspect(ctx, id)
	if err == nil && (in.ContainerJSONBase == nil || in.ID == "" || in.State == nil || in.State.Status == "") {
		err = errors.New("the engine's answer describes no container")
	}
	if err == nil && hostproc.IsFullID(id) && id != in.ID {
		err = errors.New("the engine's answer describes another container")
	}
	return in, err
}

// Health returns the status of the container's HEALTHCHECK ("none" without one) and the output of its newest run.
// Docker calls a container unhealthy while it is paused, and afterwards until the next check; and it goes on saying
// what it found last when it checks no more, as before 23.0 after its restart with live-restore. Both are "starting"
// here.
func (e *Engine) Health(ctx context.Context, id string) (status, output string, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	c, err := e.client(ctx)
	if err != nil {
		return "", "", err
	}
	in, err := inspect(ctx, c, id)
	if err != nil {
		return "", "", e.containerError(err, "read the health of", id)
	}
	h := in.State.Health
	if h == nil || h.Status == "" {
		return container.NoHealthcheck, "", nil
	}
	if h.Status == container.Unhealthy && h.FailingStreak < retriesOf(in.Config) {
		return container.Starting, "the engine has not checked it since it was paused", nil
	}
	n := len(h.Log)
	if n == 0 || h.Log[n-1] == nil {
		return h.Status, "", nil
	}
	if newest := h.Log[n-1]; h.Status == container.Starting || !e.OnHost() || !tooOld(newest.End, time.Now(), in.Config) {
		return h.Status, newest.Output, nil
	}
	since := h.Log[n-1].End.Format(time.RFC3339)
	return container.Starting, "the engine calls it " + h.Status + ", but has not checked it since " + since, nil
}

// tooOld says that the engine has left out at least one check since the newest one ended. It compares
// clocks of one host: if that is set ahead, no check counts until the next one; if back, they count for longer.
func tooOld(ended, now time.Time, c *container.Config) bool {
	const usual, slack = 30 * time.Second, 10 * time.Second // Docker's own interval and timeout; a slow engine
	interval, timeout := usual, usual
	if c != nil && c.Healthcheck != nil {
		interval, timeout = cmp.Or(max(0, c.Healthcheck.Interval), usual), cmp.Or(max(0, c.Healthcheck.Timeout), usual)
	}
	late := now.Sub(ended) - slack
	return !ended.IsZero() && late/2 > interval && late-2*interval > timeout // no sum: one may ask for 292 years
}

// retriesOf returns how many failures in a row make a container unhealthy.
func retriesOf(c *container.Config) int {
	const usual = 3 // Docker's own
	if c == nil || c.Healthcheck == nil || c.Healthcheck.Retries <= 0 {
		return usual
	}
	return c.Healthcheck.Retries
}

// inspectNetworking also inspects the container whose network this one shares. That one
// may be gone, or belong to another engine.
func (e *Engine) inspectNetworking(ctx context.Context, c *client.Client, in *container.InspectResponse, depth int) (networking, error) {
	n := networking{alive: stateOf(in.State.Status).Alive(), startedAt: parseTime(in.State.StartedAt)}
	if in.HostConfig != nil {
		n.mode = string(in.HostConfig.NetworkMode)
	}
	if in.NetworkSettings != nil {
		endpoints := make(map[string]endpoint, len(in.NetworkSettings.Networks))
		for name, s := range in.NetworkSettings.Networks {
			if s != nil {
				endpoints[name] = endpoint{s.IPAddress, s.GlobalIPv6Address}
			}
		}
		n.endpoints, n.ports = addressesOf(endpoints), inspectedPorts(in.NetworkSettings)
	}
	other, ok := strings.CutPrefix(n.mode, "container:")
	if !ok || depth == 0 {
		return n, nil
	}
	n.sharedID = other
	shared, err := inspect(ctx, c, other)
	if errdefs.IsNotFound(err) {
		n.sharedGone = true
		return n, nil
	}
	if err != nil {
		return n, err
	}
	s, err := e.inspectNetworking(ctx, c, &shared, depth-1)
	n.shared, n.sharedID = &s, shared.ID
	return n, err
}

func (e *Engine) describe(in *container.InspectResponse, n networking) *runtime.Container {
	c := &runtime.Container{
		Runtime: e.conf.Name, ID: in.ID, Name: runtime.ClipName(strings.TrimPrefix(in.Name, "/")), ImageID: runtime.Shared(in.Image),
		State: stateOf(in.State.Status), StartedAt: parseTime(in.State.StartedAt), FinishedAt: parseTime(in.State.FinishedAt),
		ExitCode: in.State.ExitCode, OOMKilled: in.State.OOMKilled, Error: in.State.Error,
		NetworkOwner: n.sharedID, NetworkOwnerGone: n.sharedGone, RestartPolicy: string(container.RestartPolicyDisabled), StopTimeout: -1,
	}
	if c.State.Alive() && e.OnHost() {
		c.Pid = max(0, in.State.Pid)
	}
	if n.shared != nil && n.shared.alive {
		c.NetworkOwnerStartedAt = n.shared.startedAt
	}
	if h := in.State.Health; h != nil {
		c.HasHealthcheck = h.Status != "" && h.Status != container.NoHealthcheck
	}
	c.Address, c.Network = n.address(e.conf.Network)
	c.Networks = n.addresses()
	c.HostPorts, c.HostNetwork = n.published()
	c.Fingerprint = fingerprint(c.State, c.ExitCode, n)
	if in.Config != nil {
		c.Image, c.StopSignal = runtime.Shared(in.Config.Image), in.Config.StopSignal
		c.Labels, c.Env = e.labels.keep(in.ID, runtime.SharedKeys(in.Config.Labels)), runtime.SharedAll(in.Config.Env)
		c.EnvClipped = clipped(in.Config.Env)
		if t := in.Config.StopTimeout; t != nil {
			c.StopTimeout = time.Duration(min(max(*t, -1), maxStopTimeout)) * time.Second
		}
	}
	if h := in.HostConfig; h != nil {
		c.AutoRemove = h.AutoRemove
		c.Resources = resources(&h.Resources)
		if h.RestartPolicy.Name != "" {
			c.RestartPolicy = string(h.RestartPolicy.Name)
			most := h.RestartPolicy.MaximumRetryCount
			c.RestartsUsedUp = most > 0 && in.RestartCount >= most
		}
	}
	return c
}

// clipped says that a clipper may have left out a part of texts: they are as long, in JSON, as it lets them be.
func clipped(texts []string) bool {
	size := 0
	for _, text := range texts {
		quoted, _ := json.Marshal(text) // escapes no less than an engine does
		n := len(quoted) - len(`""`)
		if size += n; n >= maxText {
			return true
		}
	}
	return size > maxTexts
}

// stateOf returns a state as Docker calls it. Podman has two more: a container is asked to end,
// and it has ended, but is not tidied up yet.
func stateOf(status string) runtime.State {
	switch status {
	case "stopping":
		return runtime.Running
	case "stopped":
		return runtime.Exited
	}
	return runtime.State(status)
}

// resources lists the limits that are set. A 0 means no limit.
func resources(r *container.Resources) string {
	var set []string
	number := func(name string, n int64) {
		if n != 0 {
			set = append(set, fmt.Sprintf("%s=%d", name, n))
		}
	}
	number("memory", r.Memory)
	number("memory-swap", r.MemorySwap)
	number("memory-reservation", r.MemoryReservation)
	number("nano-cpus", r.NanoCPUs)
	number("cpu-quota", r.CPUQuota)
	number("cpu-period", r.CPUPeriod)
	number("cpu-shares", r.CPUShares)
	if r.CpusetCpus != "" {
		set = append(set, "cpuset-cpus="+r.CpusetCpus)
	}
	if r.CpusetMems != "" {
		set = append(set, "cpuset-mems="+r.CpusetMems)
	}
	if r.PidsLimit != nil && *r.PidsLimit > 0 { // -1 is none as well
		number("pids", *r.PidsLimit)
	}
	return strings.Join(set, " ")
}

// parseTime returns zero for the engine's "never", which is in the year 1.
func parseTime(s string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil || t.Year() <= 1 {
		return time.Time{}
	}
	return t
}
