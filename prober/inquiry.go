package prober

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// Answer is what a command inside a container said that was asked once.
type Answer struct {
	// Output is stdout, then stderr, valid UTF-8, with $(NAME) in place of the values that the
	// command was given. One that timed out may have said something before.
	Output   string
	Cut      bool // there was more
	ExitCode int
	TimedOut bool  // it was killed
	Err      error // why it was not asked, or its end is not known; nil: it ended or timed out
}

// Inquire runs a command inside the container once, and kills it after the timeout. It keeps at most
// so many bytes of what that prints. It returns at once when ctx ends, and may then lose the output:
// give it a timeout that is over before.
func (p *Prober) Inquire(ctx context.Context, h Exec, t Target, timeout time.Duration, bytes int) Answer {
	c, err := p.command(&h, t, func(e *engine) *commands { return e.inquiries })
	if err != nil {
		return Answer{Err: err}
	}
	c.limit = bytes + 1 // to see that there is more
	turn, err := c.commands.begin(ctx, c.container, timeout)
	if err != nil {
		return Answer{Err: err}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	x := c.start(ctx, turn, timeout, func() {})
	select {
	case r := <-x.replies:
		return c.answer(r, bytes)
	case <-ctx.Done():
		return Answer{Err: fmt.Errorf("command %q did not end in time: %w", c.words, context.Cause(ctx))}
	}
}

func (c *command) answer(r execReply, bytes int) Answer {
	output, cut := c.output(r)
	a := Answer{Output: strings.ToValidUTF8(clip(output, bytes), string(utf8.RuneError)), Cut: cut, ExitCode: r.code, TimedOut: r.timedOut}
	if r.err != nil && !r.timedOut {
		a.Err = errors.New(clean("cannot run the command: " + c.words.hide(r.err.Error())))
	}
	return a
}
