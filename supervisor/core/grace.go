package core

import (
	"time"

	"healthd/runtime"
)

// grace returns the grace period of a stop, which is the time from the stop signal to the
// KILL: as configured, but at least MinGrace.
func grace(spec *Spec, c *runtime.Container, cause Cause) time.Duration {
	return max(configuredGrace(spec, c, cause), MinGrace)
}

// othersGrace returns the time from the stop signal of others to the KILL, as far as healthd can know it: the container's
// stop timeout, else the engine's default. Where the spec gives more, others may give as much.
func othersGrace(spec *Spec, c *runtime.Container) time.Duration {
	own := engineStopTimeout
	if c.StopTimeout >= 0 {
		own = c.StopTimeout
	}
	return max(own, grace(spec, c, NoCause))
}

// engineStopTimeout is the time that engines give a container without a stop timeout of its own.
const engineStopTimeout = 10 * time.Second

// configuredGrace returns the failed probe's grace period, else the spec's, else the
// container's own stop timeout, else DefaultGrace.
func configuredGrace(spec *Spec, c *runtime.Container, cause Cause) time.Duration {
	g := DefaultGrace
	if c.StopTimeout >= 0 {
		g = c.StopTimeout
	}
	if spec.TerminationGracePeriod > 0 {
		g = spec.TerminationGracePeriod
	}
	var p *ProbeSpec
	switch cause {
	case ByLiveness:
		p = spec.Probes[Liveness]
	case ByStartup:
		p = spec.Probes[Startup]
	}
	if p != nil && p.TerminationGracePeriod > 0 {
		g = p.TerminationGracePeriod
	}
	return g
}
