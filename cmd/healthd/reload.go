package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"go.uber.org/zap"

	"healthd/configs"
)

// reloads lets the configuration be read again while the daemon runs.
type reloads struct {
	asked chan struct{} // has room for one; more would read the same files
	read  func() (*configs.Config, error)
}

func newReloads(read func() (*configs.Config, error)) reloads {
	return reloads{make(chan struct{}, 1), read}
}

// ask never blocks.
func (r reloads) ask() { nudge(r.asked) }

func nudge(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// obeyReloads reloads whenever it is asked to, until ctx ends.
func (d *daemon) obeyReloads(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.reloads.asked:
		}
		d.notifier.reloading()
		err := d.reload(ctx)
		if ctx.Err() != nil {
			return
		}
		d.notifier.reloaded(statusLine(d.supervisor.Board().Views()), notReloaded(err))
	}
}

// reload takes over the configuration as it is in its files now, or nothing of it.
func (d *daemon) reload(ctx context.Context) error {
	next, err := d.reloads.read()
	if err != nil {
		d.logProblems(err)
		return err
	}
	if err := d.supervisor.Reload(ctx, next.Resolve, next.Guard); err != nil {
		if ctx.Err() == nil {
			d.log.Error("cannot reload the configuration, nothing changes", zap.Error(err))
		}
		return err
	}
	// Not before: the supervisor must know what to do with what watchers report.
	d.config.Store(next)
	for _, e := range d.engines {
		nudge(e.refresh)
	}
	d.logWarnings(next)
	if keys := d.begun.NeedsRestart(next); len(keys) > 0 {
		d.log.Warn("some changed settings need a restart of healthd", zap.Strings("keys", keys))
	}
	d.log.Info("the configuration was reloaded", zap.Strings("specs", next.SpecNames()))
	return nil
}

// logProblems says everything that is wrong with a configuration.
func (d *daemon) logProblems(err error) {
	problems, ok := errors.AsType[configs.Problems](err)
	if !ok {
		d.log.Error("problem in the configuration", zap.Error(err))
	}
	for _, p := range problems {
		d.log.Error("problem in the configuration", zap.Stringer("problem", p))
	}
	d.log.Error("cannot reload the configuration, nothing changes", zap.Int("problems", max(1, len(problems))))
}

func (d *daemon) logWarnings(c *configs.Config) {
	for _, w := range c.Warnings() {
		d.log.Warn("warning about the configuration", zap.String("warning", w))
	}
}

// notReloaded says in a few words, for systemctl status, why a reload was refused,
// and nothing when it was not.
func notReloaded(err error) string {
	if err == nil {
		return ""
	}
	if problems, ok := errors.AsType[configs.Problems](err); ok {
		return fmt.Sprintf("not reloaded: %s in the configuration, see the log", count(len(problems), "problem"))
	}
	text, _, _ := strings.Cut(err.Error(), "\n")
	return "not reloaded: " + line(text)
}
