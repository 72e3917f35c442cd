package supervisor

import (
	"context"
	"fmt"
	"time"

	"healthd/prober"
	"healthd/runtime"
	"healthd/supervisor/core"
)

// Probe implements Prober. The port says which probe it is.
func (d *worldDaemon) Probe(h prober.Handler, t prober.Target) (prober.Probe, error) {
	return &worldProbe{d: d, id: t.ID, probe: core.ProbeType(h.TCPSocket.Port)}, nil
}

// Hook implements Prober.
func (d *worldDaemon) Hook(h prober.LifecycleHandler, t prober.Target) (prober.Hook, error) {
	return &worldHook{d: d, id: t.ID, duration: h.Sleep.Duration}, nil
}

type worldProbe struct {
	d     *worldDaemon
	id    string
	probe core.ProbeType
}

func (p *worldProbe) Close() {}

// Ask asks the process, whatever the state of the engine is.
func (p *worldProbe) Ask(ctx context.Context, timeout time.Duration) prober.Result {
	h, what := p.d.host, "probe"+p.probe.String()
	if h.turns != nil {
		h.turns.look(p.d)
	}
	if err := p.d.wait(ctx, h.randomDuration(what, p.id, time.Millisecond, 20*time.Millisecond)); err != nil {
		return prober.Result{Cause: prober.Pending, Output: err.Error()}
	}
	h.mu.Lock()
	c := h.engine.find(p.id)
	ok := c != nil && c.answersProbe(p.probe)
	paused := c != nil && c.info.State == runtime.Paused
	hostile := c != nil && c.template.hostile
	unasked := !h.quiet && h.roll("unasked "+what, p.id, 40) == 0
	h.mu.Unlock()
	switch {
	case hostile:
		return h.tenant.answer(ctx, p.d, timeout)
	case unasked:
		return prober.Result{Cause: prober.NotAsked, Output: "too many open files"}
	case paused:
		_ = p.d.wait(ctx, timeout)
		return refused
	case !ok:
		return refused
	}
	return prober.Result{Outcome: prober.Success, Latency: time.Millisecond}
}

type worldHook struct {
	d        *worldDaemon
	id       string
	duration time.Duration
}

// Run takes the hook's time and sometimes fails.
func (h *worldHook) Run(ctx context.Context) prober.HookResult {
	err := h.d.wait(ctx, h.duration+h.d.host.randomDuration("hook", h.id, 1, time.Millisecond))
	h.d.host.mu.Lock()
	defer h.d.host.mu.Unlock()
	switch n := h.d.host.roll("hook result", h.id, 20); {
	case err != nil:
	case h.d.host.quiet || n > 2:
		return prober.HookResult{}
	case n == 0:
		return prober.HookResult{Err: errUnreachable, NotAsked: true}
	default:
		err = fmt.Errorf("command exited with code 1")
	}
	return prober.HookResult{Err: err}
}
