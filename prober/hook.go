package prober

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"time"
)

// Hook returns the hook h of t. The errors are those of Probe; for a run that cannot be
// asked it returns a hook that fails with NotAsked.
func (p *Prober) Hook(h LifecycleHandler, t Target) (Hook, error) {
	hook, err := p.hook(h, t)
	if why, ok := errors.AsType[cannotAsk](err); ok {
		return why, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot run a hook of container %s: %w", t.ID, err)
	}
	return hook, nil
}

func (p *Prober) hook(h LifecycleHandler, t Target) (Hook, error) {
	switch {
	case h.HTTPGet != nil:
		return p.httpHook(h.HTTPGet, t)
	case h.TCPSocket != nil:
		return newTCPHook(h.TCPSocket, t)
	case h.Exec != nil:
		return p.execHook(h.Exec, t)
	case h.Sleep != nil:
		return newSleepHook(h.Sleep)
	}
	return nil, errNoHandler
}

// late says that the hook's time was over long ago: healthd did not run then, and an answer may have been in time. See
// probe.unlessLate.
func late(ctx context.Context) bool {
	over, ok := ctx.Deadline()
	return ok && time.Since(over) >= lateBy
}

// noTimeout: only the context ends the command.
const noTimeout = time.Duration(math.MaxInt64)

// execHook runs a command inside the container.
type execHook struct{ command }

func (p *Prober) execHook(h *Exec, t Target) (Hook, error) {
	c, err := p.command(h, t, func(e *engine) *commands { return e.hooks })
	if err != nil {
		return nil, err
	}
	return &execHook{c}, nil
}

// Run implements Hook.
func (h *execHook) Run(ctx context.Context) HookResult {
	t, err := h.commands.begin(ctx, h.container, noTimeout)
	if err != nil {
		return HookResult{Err: fmt.Errorf("command %q was not begun: %w", h.words, err), NotAsked: true}
	}
	x := h.start(ctx, t, noTimeout, func() {})
	select {
	case r := <-x.replies:
		return h.toResult(ctx, r)
	case <-ctx.Done():
		return h.endedEarly(ctx)
	}
}

func (h *execHook) toResult(ctx context.Context, r execReply) HookResult {
	switch {
	case r.err != nil && ctx.Err() != nil:
		return h.endedEarly(ctx)
	case r.err != nil:
		why := "cannot run the command: " + h.words.hide(r.err.Error())
		unable, ok := errors.AsType[interface {
			error
			NotStarted() bool
		}](r.err)
		return HookResult{Err: errors.New(clean(why)), NotAsked: !ok || !unable.NotStarted()}
	case r.code != 0:
		why := fmt.Sprintf("command %q exited with code %d", h.words, r.code)
		if output, _ := h.output(r); strings.TrimSpace(output) != "" {
			why += ": " + strings.TrimSpace(output)
		}
		return HookResult{Err: errors.New(clean(why))}
	}
	return HookResult{}
}

func (h *execHook) endedEarly(ctx context.Context) HookResult {
	return HookResult{Err: fmt.Errorf("command %q did not end in time: %w", h.words, context.Cause(ctx))}
}

// tcpHook opens a connection, and closes it.
type tcpHook struct{ probe *tcpProbe }

func newTCPHook(h *TCPSocket, t Target) (Hook, error) {
	p, err := newTCPProbe(h, t)
	if err != nil {
		return nil, err
	}
	return tcpHook{p}, nil
}

// Run implements Hook.
func (h tcpHook) Run(ctx context.Context) HookResult {
	err := ctx.Err()
	if err == nil {
		err = h.probe.connect(ctx, time.Time{})
	}
	switch {
	case err == nil:
		return HookResult{}
	// The deadline of ctx may be seen at the socket before it is seen at ctx.
	case ctx.Err() != nil, errors.Is(err, os.ErrDeadlineExceeded):
		return HookResult{Err: fmt.Errorf("dial tcp %s: no connection in time", h.probe.address), NotAsked: late(ctx)}
	}
	return HookResult{Err: errors.New(h.probe.dialError(err)), NotAsked: classify(err) == NotAsked}
}

// sleepHook waits.
type sleepHook time.Duration

func newSleepHook(h *Sleep) (Hook, error) {
	if h.Duration < 0 {
		return nil, fmt.Errorf("cannot sleep for %v", h.Duration)
	}
	return sleepHook(h.Duration), nil
}

var errSleepCut = errors.New("container terminated before sleep hook finished")

// Run implements Hook.
func (h sleepHook) Run(ctx context.Context) HookResult {
	if ctx.Err() != nil {
		return HookResult{Err: errSleepCut}
	}
	if h == 0 {
		return HookResult{}
	}
	over := time.NewTimer(time.Duration(h))
	defer over.Stop()
	select {
	case <-over.C:
		return HookResult{}
	case <-ctx.Done():
		return HookResult{Err: errSleepCut}
	}
}
