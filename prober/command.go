package prober

import (
	"context"
	"errors"
	"time"
)

// command is what an exec probe, a hook or an inquiry runs inside the container.
type command struct {
	engine    Execer
	container string
	words     words
	line      string
	limit     int // bytes of output that are kept
	commands  *commands
}

// execReply is what Execer.Exec returned.
type execReply struct {
	output   []byte
	code     int
	timedOut bool
	err      error
}

// command returns the command of h in t. It counts among the commands that of returns.
func (p *Prober) command(h *Exec, t Target, of func(*engine) *commands) (command, error) {
	if len(h.Command) == 0 {
		return command{}, errors.New("command is empty")
	}
	e, err := p.engine(t)
	if err != nil {
		return command{}, err
	}
	w, err := expandWords(h.Command, t)
	if err != nil {
		return command{}, err
	}
	return command{engine: e, container: t.ID, words: w, line: lineOf(w.argv), limit: MaxOutput, commands: of(e)}, nil
}

// output returns what a reply has of the command's output, at most c.limit bytes, and whether there may be more.
func (c *command) output(r execReply) (text string, cut bool) {
	m := c.words.mask
	if len(r.output) < c.limit+m.Longest {
		text = m.Text(string(r.output), c.limit)
		return text, len(text) == c.limit
	}
	return m.CutText(string(r.output), c.limit), true
}

// execution is one command that was begun.
type execution struct {
	started chan struct{}  // closed when its process runs
	replies chan execReply // has room for the one reply
}

// start runs c at its turn. When the engine cannot end a command, its goroutine and turn
// stay in use until it does. ended is called before the reply is sent.
func (c *command) start(ctx context.Context, t *turn, timeout time.Duration, ended func()) execution {
	x := execution{make(chan struct{}), make(chan execReply, 1)}
	go func() {
		var r execReply
		var startedAt time.Time
		r.output, r.code, r.timedOut, r.err = c.engine.Exec(ctx, c.container, c.words.argv, timeout, c.limit+c.words.mask.Longest, func() {
			startedAt = time.Now()
			t.started()
			close(x.started)
		})
		if r.err == nil {
			t.started() // even if it has ended before that was noticed
		}
		var left *leftCommand
		if u, ok := errors.AsType[unended](r.err); ok {
			left = &leftCommand{unended: u, container: c.container, line: c.line, started: startedAt}
		}
		t.ended(left)
		ended()
		x.replies <- r
		if left != nil {
			c.commands.sweep()
		}
		t.finished()
	}()
	return x
}
