package files

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"healthd/runtime"
	"healthd/runtime/hostproc"
	"healthd/supervisor"
	"healthd/supervisor/core"
)

// History is where a Publisher tells what failed, and that it does not any more.
type History interface {
	// Record adds an event. It does not block.
	Record(core.Event)
}

// Supervisor is what a Publisher works for.
type Supervisor interface {
	Board() *supervisor.Board
	// Withdrawn says that nobody is told to send new requests to a run any more.
	Withdrawn(ctx context.Context, run runtime.Run) error
}

// File is a file to write. No two of a Publisher have one Path.
type File struct {
	Path     string // absolute
	Template *Template
	Covers   func(service string) bool // which services it has
	Services []string                  // what Covers follows from: a file of which this changes is another one

	Check, Reload []string // nil: none
	MinInterval   time.Duration
	Timeout       time.Duration // of Check and Reload each
	Drain         time.Duration // what its reader needs until its last new request; 0: it sends none, and nobody waits for it
}

// same says whether two files are written in the same way.
func (f *File) same(other *File) bool {
	return f.Path == other.Path && f.Template.Same(other.Template) && slices.Equal(f.Services, other.Services) && (f.Services == nil) == (other.Services == nil) &&
		reflect.DeepEqual(f.Check, other.Check) && reflect.DeepEqual(f.Reload, other.Reload) && f.MinInterval == other.MinInterval && f.Timeout == other.Timeout && f.Drain == other.Drain
}

// Config is what a Publisher works with.
type Config struct {
	History History
	// StateDir is where it keeps what outlives the daemon; empty: nothing does.
	StateDir string
	Files    []File
}

// Publisher writes files that say who is ready. Its methods may be called from any goroutine.
type Publisher struct {
	config   Config
	kept     *keeper
	reload   chan []File
	ended    chan struct{} // closed when Run has returned
	metrics  *metrics
	known    *knowledge
	problems supervisor.Problems // by path; "": of what is kept

	command func(ctx context.Context, words []string) (said string, err error)
	workers func(command []string) nginxLook
}

// New returns a Publisher that does nothing before Run.
func New(c Config) *Publisher {
	p := &Publisher{config: c, reload: make(chan []File), ended: make(chan struct{}), metrics: newMetrics(), known: newKnowledge(), workers: lookAtNginx}
	p.kept = &keeper{dir: c.StateDir, tell: p.tellKept, files: map[string]*entry{}}
	p.metrics.files(c.Files)
	p.command = func(ctx context.Context, words []string) (string, error) {
		return hostproc.RunCommand(ctx, words, hostproc.BareEnvironment(), nil)
	}
	return p
}

// Problems returns which files are not what they should be, and what else is wrong, for people.
func (p *Publisher) Problems() []string { return p.problems.All() }

// Reload replaces the files. One that is the same goes on as it is; one that is gone stays as it is on the disk. It waits
// for Run, and returns the error of ctx or that Run has returned.
func (p *Publisher) Reload(ctx context.Context, files []File) error {
	select {
	case p.reload <- files:
		return nil
	case <-p.ended:
		return supervisor.ErrStopping
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Run writes the files until ctx ends. Then they stay as they are. It returns nil.
func (p *Publisher) Run(ctx context.Context, s Supervisor) error {
	defer close(p.ended)
	if err := p.kept.load(); err != nil {
		p.record(core.EventFileFailed, "Cannot read what was kept of published files: %v: services without containers are not in them any more, and all are reloaded", err)
	}
	c := &crew{p: p, board: s.Board(), all: map[string]*running{}, ending: map[string]*running{}}
	defer c.goroutines.Wait()
	c.goroutines.Go(func() { p.tellWithdrawn(ctx, s) })
	c.use(ctx, p.config.Files)
	p.restoreOthers(c.all)
	for {
		select {
		case <-ctx.Done():
			return nil
		case files := <-p.reload:
			c.use(ctx, files)
		}
	}
}

// restoreOthers puts back old files of paths that are not configured any more.
func (p *Publisher) restoreOthers(configured map[string]*running) {
	for _, path := range p.kept.owing() {
		if configured[path] != nil {
			continue // its goroutine does
		}
		if err := p.putBack(path); err != nil {
			p.record(core.EventFileFailed, "Cannot put back what %s had before its check: %v", path, err)
		}
	}
}

func (p *Publisher) tellKept(err error) {
	if err == nil {
		p.problems.Set("")
		p.record(core.EventFileBack, "What healthd knows of published files is kept again")
		return
	}
	p.problems.Set("", fmt.Sprintf("cannot keep what healthd knows of published files: %v", err))
	p.record(core.EventFileFailed, "Cannot keep what healthd knows of published files: %v: after a restart of healthd they are reloaded, and services without containers are not in them", err)
}

func (p *Publisher) record(reason, format string, args ...any) {
	p.config.History.Record(core.Event{Time: time.Now(), Reason: reason, Message: fmt.Sprintf(format, args...)})
}

// runCommand runs a command within a time, and has the end of its output in the error.
func (p *Publisher) runCommand(ctx context.Context, words []string, timeout time.Duration) error {
	waiting, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	said, err := p.command(waiting, words)
	switch {
	case err == nil:
		return nil
	case ctx.Err() == nil && errors.Is(waiting.Err(), context.DeadlineExceeded):
		err = fmt.Errorf("it takes longer than %v", timeout)
	}
	if said = clipBegin(said); said != "" {
		return fmt.Errorf("%w: %s", err, said)
	}
	return err
}
