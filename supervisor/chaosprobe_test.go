package supervisor

import (
	"context"
	"fmt"
	"time"

	"healthd/prober"
	"healthd/runtime"
	"healthd/supervisor/core"
)

// Probe is Prober's. Who is asked is told apart by the port.
func (d *chaosDaemon) Probe(h prober.Handler, t prober.Target) (prober.Probe, error) {
	return &chaosProbe{d: d, id: t.ID, kind: core.ProbeType(h.TCPSocket.Port)}, nil
}

// Hook is Prober's.
func (d *chaosDaemon) Hook(h prober.LifecycleHandler, t prober.Target) (prober.Hook, error) {
	return &chaosHook{d: d, id: t.ID, takes: h.Sleep.Duration}, nil
}

type chaosProbe struct {
	d    *chaosDaemon
	id   string
	kind core.ProbeType
}

// Ask asks the process, which knows nothing of its engine.
func (p *chaosProbe) Ask(ctx context.Context, timeout time.Duration) prober.Result {
	w, what := p.d.w, "probe"+p.kind.String()
	if err := p.d.pass(ctx, w.between(what, p.id, time.Millisecond, 20*time.Millisecond)); err != nil {
		return prober.Result{Cause: prober.Pending, Output: err.Error()}
	}
	w.mu.Lock()
	c := w.engine.find(p.id)
	ok := c != nil && c.answers(p.kind)
	paused := c != nil && c.c.State == runtime.Paused
	unasked := !w.calm && w.roll("unasked "+what, p.id, 40) == 0
	w.mu.Unlock()
	switch {
	case unasked:
		return prober.Result{Cause: prober.NotAsked, Output: "too many open files"}
	case paused:
		_ = p.d.pass(ctx, timeout)
		return refused
	case !ok:
		return refused
	}
	return prober.Result{Outcome: prober.Success, Latency: time.Millisecond}
}

type chaosHook struct {
	d     *chaosDaemon
	id    string
	takes time.Duration
}

// Run lets a hook take its time and, now and then, fail.
func (h *chaosHook) Run(ctx context.Context) prober.HookResult {
	err := h.d.pass(ctx, h.takes+h.d.w.between("hook", h.id, 1, time.Millisecond))
	h.d.w.mu.Lock()
	defer h.d.w.mu.Unlock()
	switch luck := h.d.w.roll("hook luck", h.id, 20); {
	case err != nil:
	case h.d.w.calm || luck > 2:
		return prober.HookResult{}
	case luck == 0:
		return prober.HookResult{Err: errAway, NotAsked: true}
	default:
		err = fmt.Errorf("command exited with code 1")
	}
	return prober.HookResult{Err: err}
}
