package prober

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"
)

// engineGrace is the engine's time to start a command, and its time to kill one and to
// answer.
const engineGrace = 10 * time.Second

// execProbe is the asker that runs a command inside the container.
type execProbe struct {
	command
	warning []int       // exit codes
	running atomic.Bool // a command of this probe has not ended
	asked   bool        // at least once; guarded by running
}

func (p *Prober) execProbe(h *Exec, t Target) (asker, error) {
	c, err := p.command(h, t, func(e *engine) *commands { return e.probes })
	if err != nil {
		return nil, err
	}
	return &execProbe{command: c, warning: h.WarningExitCodes}, nil
}

// Drain waits until no command of a probe, a hook or an inquiry runs, or returns an error when ctx
// ends. A command whose Ask, Run or Inquire ended with its context is still being killed for a
// moment, and would survive if the program exited before. No Ask and no Run should
// begin meanwhile.
func (p *Prober) Drain(ctx context.Context) error {
	for _, e := range p.engines {
		for _, c := range []*commands{e.probes, e.hooks, e.inquiries} {
			if err := c.drain(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *execProbe) ask(ctx context.Context, timeout time.Duration) (Result, error) {
	if !p.running.CompareAndSwap(false, true) {
		return notAsked("previous command still running"), nil
	}
	ended := func() { p.running.Store(false) }
	if p.commands.isEnding(p.container, p.line) {
		ended()
		return notAsked("previous command is still being ended"), nil
	}
	if r, answered := p.askLeft(ctx, timeout); answered {
		ended()
		return r, nil
	}
	t, err := p.commands.begin(ctx, p.container, timeout)
	if err != nil {
		ended()
		return notAsked(err.Error()), nil
	}
	t.askedBy(ctx, p.line)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	return p.await(ctx, p.start(ctx, t, timeout, ended), timeout)
}

// await waits for the reply of a command. The engine has engineGrace to start it, and then
// the timeout and engineGrace to end it.
func (p *execProbe) await(ctx context.Context, x execution, timeout time.Duration) (Result, error) {
	began := time.Now()
	started := x.started
	what := fmt.Sprintf("engine did not start the command within %v", engineGrace)
	overdue := time.NewTimer(engineGrace)
	defer overdue.Stop()
	for {
		select {
		case r := <-x.replies:
			return p.toResult(r, timeout, time.Since(began))
		case <-started:
			started = nil
			what = fmt.Sprintf("engine did not end the command within %v", timeout+engineGrace)
			overdue.Reset(timeout + engineGrace)
		case <-ctx.Done():
			return notAsked("probe cancelled"), nil
		case <-overdue.C:
			return notAsked(what), nil
		}
	}
}

func (p *execProbe) toResult(r execReply, timeout, latency time.Duration) (Result, error) {
	output, _ := p.output(r)
	res := Result{Output: clean(output), Latency: latency}
	switch {
	case r.timedOut: // a Failure, even when it could not be killed
		res.Outcome, res.Cause = Failure, Timeout
		res.Output = fmt.Sprintf("command timed out: %q timed out after %v", p.words, timeout)
		if r.err != nil {
			res.Output += ": " + p.words.hide(r.err.Error())
		}
		res.Output = clean(res.Output)
	case r.err != nil:
		return Result{Latency: latency}, errors.New("cannot run the command: " + p.words.hide(r.err.Error()))
	case r.code != 0:
		res.Outcome, res.Cause = Failure, ExitCode
		if slices.Contains(p.warning, r.code) {
			res.Outcome, res.Cause, res.Warning = Success, Warned, true
		}
		if res.Output == "" {
			res.Output = fmt.Sprintf("command exited with code %d", r.code)
		}
	default:
		res.Outcome = Success
	}
	return res, nil
}
