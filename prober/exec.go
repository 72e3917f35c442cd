package prober

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// killGrace is added to a command's timeout: the engine needs time to start it, to kill
// it and to answer.
const killGrace = 10 * time.Second

// command is what an exec probe or hook runs inside the container.
type command struct {
	engine    Execer
	container string
	words     words
	slots     chan struct{} // holds one value for each running command
}

// execProbe is the asker that runs a command inside the container.
type execProbe struct {
	command
	running atomic.Bool // a command of this probe has not ended
}

// execReply is what Execer.Exec returned.
type execReply struct {
	output   []byte
	code     int
	timedOut bool
	err      error
}

func (p *Prober) execProbe(h *Exec, t Target) (asker, error) {
	c, err := p.command(h, t, p.execSlots)
	if err != nil {
		return nil, err
	}
	return &execProbe{command: c}, nil
}

func (p *Prober) command(h *Exec, t Target, slots chan struct{}) (command, error) {
	if len(h.Command) == 0 {
		return command{}, errors.New("command is empty")
	}
	e, err := p.engine(t)
	if err != nil {
		return command{}, err
	}
	w, err := expandWords(h.Command, t.Env)
	if err != nil {
		return command{}, err
	}
	return command{engine: e, container: t.ID, words: w, slots: slots}, nil
}

// Drain waits until no command of a probe or a hook runs, or returns an error when ctx
// ends. A command whose Ask or Run ended with its context is still being killed for a
// moment, and would survive if the program exited before. No Ask and no Run should
// begin meanwhile.
func (p *Prober) Drain(ctx context.Context) error {
	if err := drain(ctx, p.execSlots); err != nil {
		return fmt.Errorf("cannot end all commands of probes: %w", err)
	}
	if err := drain(ctx, p.hookSlots); err != nil {
		return fmt.Errorf("cannot end all commands of hooks: %w", err)
	}
	return nil
}

// drain waits until all slots are free at once.
func drain(ctx context.Context, slots chan struct{}) error {
	taken := 0
	defer func() {
		for range taken {
			<-slots
		}
	}()
	for range cap(slots) {
		select {
		case slots <- struct{}{}:
			taken++
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// start runs c, for which the caller has acquired a slot, and returns the channel of
// the reply. When the engine cannot kill a command, its goroutine and slot stay in use
// until it ends. ended is called when both are free.
func (c *command) start(ctx context.Context, timeout time.Duration, ended func()) <-chan execReply {
	replies := make(chan execReply, 1)
	go func() {
		var r execReply
		defer func() {
			<-c.slots
			ended()
			replies <- r
		}()
		r.output, r.code, r.timedOut, r.err = c.engine.Exec(ctx, c.container, c.words.argv, timeout, MaxOutput+c.words.longestValue)
	}()
	return replies
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
	replies := p.start(ctx, timeout, func() { p.running.Store(false) })
	overdue := time.NewTimer(timeout + killGrace)
	defer overdue.Stop()
	select {
	case r := <-replies:
		return p.toResult(r, timeout, time.Since(start))
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

func (p *execProbe) toResult(r execReply, timeout, latency time.Duration) (Result, error) {
	res := Result{Output: clean(p.words.maskValues(string(r.output))), Latency: latency}
	switch {
	case r.timedOut: // a Failure, even when it could not be killed
		res.Outcome, res.Cause = Failure, Timeout
		res.Output = fmt.Sprintf("command timed out: %q timed out after %v", p.words, timeout)
		if r.err != nil {
			res.Output += ": " + p.words.maskValues(r.err.Error())
		}
		res.Output = clean(res.Output)
	case r.err != nil:
		return Result{Latency: latency}, errors.New("cannot run the command: " + p.words.maskValues(r.err.Error()))
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
