package prober

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// engineProbe asks the engine what its own health check says.
type engineProbe struct {
	engine    HealthReader
	container string
}

func (p *Prober) engineProbe(t Target) (asker, error) {
	e, err := p.engine(t)
	if err != nil {
		return nil, err
	}
	return &engineProbe{engine: e, container: t.ID}, nil
}

func (p *engineProbe) ask(ctx context.Context, timeout time.Duration) (Result, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	status, output, err := p.engine.Health(ctx, p.container)
	if err != nil {
		return Result{}, fmt.Errorf("cannot read the engine's health check: %w", err)
	}
	output = clean(output)
	switch status {
	case "healthy":
		return Result{Outcome: Success, Output: output}, nil
	case "unhealthy":
		if strings.TrimSpace(output) == "" { // as of test -f
			output = "HEALTHCHECK failed and printed nothing"
		}
		return Result{Outcome: Failure, Cause: Status, Output: output}, nil
	case "starting":
		return Result{Outcome: Unknown, Cause: Pending, Output: output}, nil
	case "none", "":
		return notAsked("container has no HEALTHCHECK"), nil
	}
	return notAsked(fmt.Sprintf("engine reports unknown health status %q", status)), nil
}
