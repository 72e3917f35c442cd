package prober

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// killGrace is what an engine gets on top of a command's timeout to start it, to
// kill it and to say so.
const killGrace = 10 * time.Second

// execProbe runs a command inside the container.
type execProbe struct {
	engine    Execer
	container string
	argv      []string
	slots     chan struct{} // one send each command that runs
	running   atomic.Bool   // a command of this probe has not ended
}

// execReply is what Execer.Exec returned.
type execReply struct {
	output   []byte
	code     int
	timedOut bool
	err      error
}

func (p *Prober) execProbe(h *Exec, t Target) (asker, error) {
	if len(h.Command) == 0 {
		return nil, errors.New("command is empty")
	}
	e, err := p.engine(t)
	if err != nil {
		return nil, err
	}
	return &execProbe{
		engine:    e,
		container: t.ID,
		argv:      slices.Clone(h.Command),
		slots:     p.execSlots,
	}, nil
}

// Drain waits until no command runs any more. Commands whose Ask has ended with
// its context are still being killed for a moment; a program that exits before
// leaves them to their containers. No Ask should begin meanwhile.
func (p *Prober) Drain(ctx context.Context) error {
	taken := 0
	defer func() {
		for range taken {
			<-p.execSlots
		}
	}()
	for range cap(p.execSlots) {
		select {
		case p.execSlots <- struct{}{}:
			taken++
		case <-ctx.Done():
			return fmt.Errorf("cannot end all commands of probes: %w", context.Cause(ctx))
		}
	}
	return nil
}

func (p *execProbe) ask(ctx context.Context, timeout time.Duration) (Result, error) {
	if !p.running.CompareAndSwap(false, true) {
		return notAsked("previous command still running"), nil
	}
	if err := p.acquire(ctx, timeout); err != nil {
		p.running.Store(false)
		return notAsked(err.Error()), nil
	}
	start := time.Now()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	replies := make(chan execReply, 1)
	// The engine may be unable to kill a command. The goroutine then stays with
	// it, and running keeps it the only one of this probe.
	go func() {
		var r execReply
		defer func() {
			<-p.slots
			p.running.Store(false)
			replies <- r
		}()
		r.output, r.code, r.timedOut, r.err = p.engine.Exec(ctx, p.container, p.argv, timeout, MaxOutput)
	}()
	overdue := time.NewTimer(timeout + killGrace)
	defer overdue.Stop()
	select {
	case r := <-replies:
		return p.judge(r, timeout, time.Since(start))
	case <-ctx.Done():
		return notAsked("probe cancelled"), nil
	case <-overdue.C:
		return notAsked(fmt.Sprintf("engine did not end the command within %v", timeout+killGrace)), nil
	}
}

// acquire waits for a slot.
func (p *execProbe) acquire(ctx context.Context, timeout time.Duration) error {
	select {
	case p.slots <- struct{}{}:
		return nil
	default:
	}
	tooLong := time.NewTimer(timeout)
	defer tooLong.Stop()
	select {
	case p.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-tooLong.C:
		return fmt.Errorf("%d other commands run, none ended within %v", cap(p.slots), timeout)
	}
}

func (p *execProbe) judge(r execReply, timeout, latency time.Duration) (Result, error) {
	res := Result{Output: clean(string(r.output)), Latency: latency}
	switch {
	case r.timedOut: // also when it could not be killed: the verdict is the same
		res.Outcome, res.Cause = Failure, Timeout
		res.Output = fmt.Sprintf("command timed out: %q timed out after %v", strings.Join(p.argv, " "), timeout)
		if r.err != nil {
			res.Output += ": " + r.err.Error()
		}
		res.Output = clean(res.Output)
	case r.err != nil:
		return Result{Latency: latency}, fmt.Errorf("cannot run the command: %w", r.err)
	case r.code != 0:
		res.Outcome, res.Cause = Failure, ExitCode
		if res.Output == "" {
			res.Output = fmt.Sprintf("command exited with code %d", r.code)
		}
	default:
		res.Outcome = Success
	}
	return res, nil
}
