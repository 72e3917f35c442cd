package docker

import (
	"context"
	"maps"
	"slices"
	"strconv"

	"github.com/docker/docker/api/types/container"

	"healthd/runtime"
)

// Creation returns what the container was made with, its image included. The error wraps runtime.ErrNotFound when
// there is no such container.
func (e *Engine) Creation(ctx context.Context, id string) (runtime.Creation, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	c, err := e.client(ctx)
	if err != nil {
		return runtime.Creation{}, err
	}
	in, err := inspect(ctx, c, id)
	if err != nil {
		return runtime.Creation{}, e.containerError(err, "inspect", id)
	}
	return creationOf(&in), nil
}

func creationOf(in *container.InspectResponse) runtime.Creation {
	var made runtime.Creation
	if in.HostConfig != nil && in.HostConfig.RestartPolicy.Name == container.RestartPolicyOnFailure {
		made.RestartMax = max(0, in.HostConfig.RestartPolicy.MaximumRetryCount)
	}
	for _, m := range in.Mounts {
		made.HasSocket = made.HasSocket || runtime.IsEngineSocket(m.Source) || runtime.IsEngineSocket(m.Destination)
	}
	if in.Config == nil {
		return made
	}
	if h := in.Config.Healthcheck; h != nil && len(h.Test) > 0 && h.Test[0] != "NONE" {
		made.Healthcheck = &runtime.Healthcheck{
			Test: h.Test, Interval: h.Interval, Timeout: h.Timeout, StartPeriod: h.StartPeriod, StartInterval: h.StartInterval, Retries: h.Retries,
		}
	}
	for _, exposed := range slices.Sorted(maps.Keys(in.Config.ExposedPorts)) {
		if n, err := strconv.Atoi(exposed.Port()); err == nil && n > 0 && exposed.Proto() == "tcp" {
			made.Ports = append(made.Ports, n)
		}
	}
	return made
}
