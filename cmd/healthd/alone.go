package main

import (
	"context"

	"healthd/runtime"
	"healthd/supervisor"
)

// alone is the supervisor of a host without a fleet.
type alone struct{ *supervisor.Supervisor }

// NotServed implements haproxy.Supervisor. Nobody asks whom this host's balancers do not serve: publish.drain ends that wait.
func (alone) NotServed(context.Context, runtime.Run) error { return nil }
