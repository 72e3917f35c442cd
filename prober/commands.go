package prober

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

const (
	// maxPerContainer bounds the commands of one container: those that wait for their
	// start, those that run, and those that could not be ended. At most two probes of a
	// container, or one hook, run at once by themselves; operators may ask, too.
	maxPerContainer = 4
	// maxRunning bounds the commands that run on one engine. Each takes a connection and
	// about 90 kB here, and more in the engine.
	maxRunning = 4096
)

// commands are all commands of probes, or all of hooks, or all of inquiries, on one engine.
type commands struct {
	kind   string // "probes", "hooks" or "flight records"
	places *places
	waits  waitCounts
	most   int // that run

	mu      sync.Mutex
	running int
	begun   map[string]int            // that wait for their start or run, by container
	asked   map[string][]*turn        // that probes have begun, by container
	left    map[string][]*leftCommand // that could not be ended, by container
	drained []chan struct{}           // are closed when none runs
}

func newCommands(kind string, starts int) *commands {
	return &commands{
		kind: kind, places: newPlaces(starts), most: maxRunning,
		begun: map[string]int{}, asked: map[string][]*turn{}, left: map[string][]*leftCommand{},
	}
}

// turn is the right to run one command. Its owner calls ended and finished at the end.
type turn struct {
	commands  *commands
	container string
	place     *place

	line string          // of a probe's command: see lineOf
	ask  context.Context // of a probe's command: what asked for it
}

// begin waits until a command may start in the container. It returns an error when ctx
// ends, when patience is over, or when too many commands run already.
func (c *commands) begin(ctx context.Context, container string, patience time.Duration) (*turn, error) {
	if err := c.enter(ctx, container); err != nil {
		return nil, err
	}
	t, asked := &turn{commands: c, container: container}, time.Now()
	place, err := c.places.acquire(ctx, container, patience)
	if err != nil {
		c.waits.hadNoTurn(ctx)
		c.leave(t)
		return nil, err
	}
	c.waits.hadTurn(time.Since(asked))
	if t.place = place; !c.run() {
		place.release()
		c.leave(t)
		return nil, fmt.Errorf("%d commands of %s run on the engine already, and no more may", c.most, c.kind)
	}
	return t, nil
}

// enter counts a command of the container, unless there are too many.
func (c *commands) enter(ctx context.Context, container string) error {
	if c.tryEnter(container) {
		return nil
	}
	for _, l := range c.leftIn(container) { // some may have ended, such as those of an older run
		_, _ = c.checkAtTimes(ctx, l)
	}
	if c.tryEnter(container) {
		return nil
	}
	why := fmt.Sprintf("%d commands of %s run in the container already, and no more may", maxPerContainer, c.kind)
	if n := len(c.leftIn(container)); n > 0 {
		why += fmt.Sprintf("; healthd cannot kill %d of them, but a restart of the container ends them", n)
	}
	return errors.New(why)
}

func (c *commands) tryEnter(container string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.begun[container]+len(c.left[container]) >= maxPerContainer {
		return false
	}
	c.begun[container]++
	return true
}

func (c *commands) leave(t *turn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.begun[t.container]--; c.begun[t.container] == 0 {
		delete(c.begun, t.container)
	}
	rest := slices.DeleteFunc(c.asked[t.container], func(other *turn) bool { return other == t })
	if c.asked[t.container] = rest; len(rest) == 0 {
		delete(c.asked, t.container)
	}
}

func (c *commands) run() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running >= c.most {
		return false
	}
	c.running++
	return true
}

// started says that the process runs, or has run.
func (t *turn) started() { t.place.started() }

// askedBy says that a probe has begun a command of these words.
func (t *turn) askedBy(ctx context.Context, line string) {
	c := t.commands
	c.mu.Lock()
	defer c.mu.Unlock()
	t.ask, t.line = ctx, line
	c.asked[t.container] = append(c.asked[t.container], t)
}

// isEnding says that a probe's command of these words has not ended, although its probe was
// cancelled: a probe that takes its place may not begin another one beside it.
func (c *commands) isEnding(container, line string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(c.asked[container], func(t *turn) bool { return t.line == line && t.ask.Err() != nil })
}

// ended says that the command has ended, or could not be ended: then it is left.
func (t *turn) ended(left *leftCommand) {
	t.place.release()
	if left != nil {
		t.commands.addLeft(left)
	}
	t.commands.leave(t)
}

// finished says that drain need not wait any more.
func (t *turn) finished() {
	c := t.commands
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running--; c.running > 0 {
		return
	}
	for _, ch := range c.drained {
		close(ch)
	}
	c.drained = nil
}

// drain waits until none runs. It does not wait for those that could not be ended.
func (c *commands) drain(ctx context.Context) error {
	none := make(chan struct{})
	c.mu.Lock()
	if c.running == 0 {
		c.mu.Unlock()
		return nil
	}
	c.drained = append(c.drained, none)
	c.mu.Unlock()
	select {
	case <-none:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("cannot end all commands of %s: %w", c.kind, context.Cause(ctx))
	}
}
