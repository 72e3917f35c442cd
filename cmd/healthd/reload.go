package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"go.uber.org/zap"

	"healthd/configs"
)

// reloads are the requests to reload the configuration, and how to read it.
type reloads struct {
	asked chan struct{} // has room for one; more would read the same files
	read  func() (*configs.Config, error)
}

func newReloads(read func() (*configs.Config, error)) reloads {
	return reloads{make(chan struct{}, 1), read}
}

// request asks for a reload. It never blocks.
func (r reloads) request() { signalChannel(r.asked) }

func signalChannel(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// handleReloads carries out the requests until ctx ends.
func (d *daemon) handleReloads(ctx context.Context) {
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
		d.notifier.reloadDone(statusLine(d.supervisor.Board().Views()), reloadFailure(err))
	}
}

// reload applies the configuration as it is in its files now, or changes nothing and
// returns an error.
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
	// After the supervisor: it must have the specs of the containers that watchers report.
	d.config.Store(next)
	for _, e := range d.engines {
		signalChannel(e.refresh)
	}
	d.logWarnings(next)
	if keys := d.begun.NeedsRestart(next); len(keys) > 0 {
		d.log.Warn("some changed settings need a restart of healthd", zap.Strings("keys", keys))
	}
	d.log.Info("the configuration was reloaded", zap.Strings("specs", next.SpecNames()))
	return nil
}

// logProblems logs every problem of a configuration.
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
	const inside = `probes and hooks with via = "container" cannot run, nor those of containers without an address`
	switch {
	case d.cannotEnter == nil:
	case c.AsksInside():
		d.log.Warn(inside, zap.Error(d.cannotEnter))
	default:
		d.log.Info(inside, zap.Error(d.cannotEnter))
	}
}

// reloadFailure says for systemctl status why a reload was refused; it is empty when it was
// not.
func reloadFailure(err error) string {
	if err == nil {
		return ""
	}
	if problems, ok := errors.AsType[configs.Problems](err); ok {
		return fmt.Sprintf("not reloaded: %s in the configuration, see the log", plural(len(problems), "problem"))
	}
	text, _, _ := strings.Cut(err.Error(), "\n")
	return "not reloaded: " + line(text)
}
