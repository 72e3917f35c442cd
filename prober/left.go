package prober

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"
)

const (
	// leftCheckTimeout bounds one call to the engine about a command that it could not end.
	leftCheckTimeout = 5 * time.Second
	sweepTimeout     = time.Second
	// A command is looked at again after a tenth of its age, within these bounds.
	leftPollMin = time.Second
	leftPollMax = 10 * time.Second
)

// unended is an Execer's error about a command that it could not end.
type unended interface {
	error
	StillRuns(ctx context.Context) (bool, error)
}

// leftCommand is a command that could not be ended.
type leftCommand struct {
	unended
	container string
	line      string // see lineOf

	mu      sync.Mutex
	started time.Time // or when it was first seen running; zero: it was not
	seen    time.Time // when it was last seen running
	why     error     // it could not be ended then
}

// lineOf is the same for two commands that do the same. It is short: values of variables are in the command.
func lineOf(argv []string) string {
	sum := sha256.New()
	for _, word := range argv {
		_, _ = io.WriteString(sum, word)
		_, _ = sum.Write([]byte{0})
	}
	return string(sum.Sum(nil))
}

// sawRunning takes in that the command runs.
func (l *leftCommand) sawRunning(now time.Time, why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.started.IsZero() {
		l.started = now
	}
	l.seen, l.why = now, why
}

// runsFor returns for how long a command that was seen running has been running at least.
func (l *leftCommand) runsFor(now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return now.Sub(l.started)
}

// seenRecently says whether the command was seen running a short time ago, and why it
// could not be ended then. A probe that asks often must not keep the engine busy.
func (l *leftCommand) seenRecently(now time.Time) (why error, recently bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.why, !l.seen.IsZero() && now.Sub(l.seen) < leftPause(l.seen.Sub(l.started))
}

// leftPause returns when to look at a command of that age again.
func leftPause(age time.Duration) time.Duration {
	return min(max(leftPollMin, age/10), leftPollMax)
}

func (c *commands) addLeft(l *leftCommand) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left[l.container] = append(c.left[l.container], l)
}

// sweep looks at two commands that could not be ended. It is called for each new one:
// nobody asks about a container that is gone, so its commands would stay here for ever.
func (c *commands) sweep() {
	ctx, cancel := context.WithTimeout(context.Background(), sweepTimeout)
	defer cancel()
	for _, l := range c.someLeft(2) {
		_, _ = c.checkAtTimes(ctx, l)
	}
}

// someLeft returns up to n commands, chosen by chance, of as many containers.
func (c *commands) someLeft(n int) []*leftCommand {
	c.mu.Lock()
	defer c.mu.Unlock()
	var some []*leftCommand
	for _, left := range c.left {
		if len(some) == n {
			break
		}
		some = append(some, left[0])
	}
	return some
}

func (c *commands) leftIn(container string) []*leftCommand {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.left[container])
}

// checkAtTimes is check, unless the command was seen running a short time ago.
func (c *commands) checkAtTimes(ctx context.Context, l *leftCommand) (bool, error) {
	if why, recently := l.seenRecently(time.Now()); recently {
		return true, why
	}
	return c.check(ctx, l)
}

// check asks whether the command still runs, and has the engine try again to end it. A
// command that has ended is forgotten. The results are those of StillRuns.
func (c *commands) check(ctx context.Context, l *leftCommand) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, leftCheckTimeout)
	defer cancel()
	runs, err := l.StillRuns(ctx)
	if runs {
		l.sawRunning(time.Now(), err)
	}
	if runs || err != nil {
		return runs, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	rest := slices.DeleteFunc(c.left[l.container], func(other *leftCommand) bool { return other == l })
	if c.left[l.container] = rest; len(rest) == 0 {
		delete(c.left, l.container)
	}
	return false, nil
}

// findLeft returns a command of the container that could not be ended, with the same
// words; nil if there is none.
func (c *commands) findLeft(container, line string) *leftCommand {
	for _, l := range c.leftIn(container) {
		if l.line == line {
			return l
		}
	}
	return nil
}

// askLeft answers for a command that could not be ended and still runs: another one with
// the same words is not started, as it would hang, too. It is a Failure once the command
// has run for the timeout. askLeft returns false when there is no such command, or not
// any more.
func (p *execProbe) askLeft(ctx context.Context, timeout time.Duration) (Result, bool) {
	check := p.commands.checkAtTimes
	if !p.asked { // this may be a new run, in which nothing of the old one runs
		p.asked, check = true, p.commands.check
	}
	for {
		l := p.commands.findLeft(p.container, p.line)
		if l == nil {
			return Result{}, false
		}
		runs, err := check(ctx, l)
		switch {
		case ctx.Err() != nil:
			return notAsked("probe cancelled"), true
		case !runs && err != nil:
			return notAsked("healthd does not know whether the previous command still runs: " + p.words.hide(err.Error())), true
		case !runs:
			continue
		}
		age := l.runsFor(time.Now())
		if age >= timeout {
			return p.stillRuns(age, timeout, err), true
		}
		select {
		case <-time.After(min(leftPause(age), timeout-age)):
		case <-ctx.Done():
		}
	}
}

func (p *execProbe) stillRuns(age, timeout time.Duration, why error) Result {
	text := fmt.Sprintf("command timed out: %q timed out after %v and still runs after %v", p.words, timeout, age.Round(time.Second))
	if why != nil {
		text += ": " + p.words.hide(why.Error())
	}
	return Result{Outcome: Failure, Cause: Timeout, Output: clean(text)}
}
