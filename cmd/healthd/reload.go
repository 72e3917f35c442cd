package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"healthd/configs"
	"healthd/supervisor"
	"healthd/supervisor/api"
	"healthd/supervisor/core"
)

// reloads are the requests to reload the configuration, and how to read it.
type reloads struct {
	read  func() (*configs.Config, error)
	asked chan struct{} // has room for one; more would read the same files
	ended chan struct{} // closed when no reload follows

	mu      sync.Mutex
	waiting []chan<- reloadOutcome // for the next reload; each has room for its outcome
}

// reloadOutcome is what a reload led to.
type reloadOutcome struct {
	api.Reload
	err *api.ReloadError
}

func newReloads(read func() (*configs.Config, error)) *reloads {
	return &reloads{read: read, asked: make(chan struct{}, 1), ended: make(chan struct{})}
}

// request asks for a reload. It never blocks.
func (r *reloads) request() { signalChannel(r.asked) }

// wait asks for a reload that reads the files after this moment, and waits for its outcome.
func (r *reloads) wait(ctx context.Context) (api.Reload, *api.ReloadError) {
	outcome := make(chan reloadOutcome, 1)
	r.mu.Lock()
	r.waiting = append(r.waiting, outcome)
	r.mu.Unlock()
	r.request()
	select {
	case o := <-outcome:
		return o.Reload, o.err
	case <-r.ended:
		return api.Reload{}, &api.ReloadError{Text: supervisor.ErrStopping.Error()}
	case <-ctx.Done():
		return api.Reload{}, &api.ReloadError{Text: "the reload takes too long: the log tells how it ends"}
	}
}

// take returns who waits for the reload that begins now.
func (r *reloads) take() []chan<- reloadOutcome {
	r.mu.Lock()
	defer r.mu.Unlock()
	waiting := r.waiting
	r.waiting = nil
	return waiting
}

func signalChannel(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// handleReloads carries out the requests until ctx ends.
func (d *daemon) handleReloads(ctx context.Context) {
	defer close(d.reloads.ended)
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.reloads.asked:
		}
		d.renewControl()
		waiting := d.reloads.take()
		d.notifier.reloading()
		next, left, err := d.reload(ctx)
		if ctx.Err() != nil {
			return
		}
		outcome := d.tellReload(next, left, err, time.Now())
		d.notifier.reloadDone(d.statusText(), reloadFailure(err))
		for _, w := range waiting {
			w <- outcome
		}
	}
}

// renewControl makes the control socket anew if it was removed.
func (d *daemon) renewControl() {
	switch renewed, err := d.listeners.control.renew(); {
	case err != nil:
		d.log.Error("the control socket was removed, and cannot be made anew", zap.Error(err))
	case renewed:
		d.log.Warn("the control socket was removed, and is made anew", zap.String("path", d.begun.Listen.Control))
	}
}

// reload applies the configuration as it is in its files now, or changes nothing and
// returns an error. left says which containers it leaves alone that were supervised; empty: none.
func (d *daemon) reload(ctx context.Context) (next *configs.Config, left string, err error) {
	next, err = d.reloads.read()
	if err != nil {
		d.logProblems(err)
		return nil, "", err
	}
	published, err := filesOf(next)
	if err != nil {
		d.logProblems(err)
		return nil, "", err
	}
	next.KeepDrains(d.begun)
	left = leftAlone(d.supervisor.Board(), next.Resolve)
	if err := d.supervisor.Reload(ctx, next.Resolve, next.Guard); err != nil {
		if ctx.Err() == nil {
			d.log.Error("cannot reload the configuration, nothing changes", zap.Error(err))
		}
		return nil, "", err
	}
	// After the supervisor: it must have the specs of the containers that watchers report.
	d.use(next)
	if err := d.notifications.Reload(ctx, receiversOf(next)); err != nil {
		return nil, "", err
	}
	d.tellFiles(published)
	if err := d.publisher.Reload(ctx, published); err != nil {
		return nil, "", err
	}
	for _, e := range d.engines {
		signalChannel(e.refresh)
	}
	d.logWarnings(next)
	if left != "" {
		d.log.Warn(left)
	}
	if keys := d.begun.NeedsRestart(next); len(keys) > 0 {
		d.log.Warn("some changed settings need a restart of healthd", zap.Strings("keys", keys))
	}
	d.log.Info("the configuration was reloaded", zap.Strings("specs", next.SpecNames()))
	return next, left, nil
}

// leftAlone says which containers of the board get no spec any more, those whose labels are wrong apart.
func leftAlone(b *supervisor.Board, resolve supervisor.Resolver) string {
	var names []string
	for _, v := range b.Views() {
		if spec, err := resolve(v.Container.Traits()); spec == nil && err == nil {
			names = append(names, b.NameOf(v.Container))
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "no longer supervised: " + plural(len(names), "container") + " (" + list(upTo(names, 0, "more")) + ")"
}

// tellReload tells the history, the metrics and whoever asks for warnings how a reload ended.
func (d *daemon) tellReload(next *configs.Config, left string, err error, now time.Time) reloadOutcome {
	d.reloadMetrics.Done(err == nil, now)
	if err == nil {
		d.refused.Store(nil)
		message, warnings := "The configuration was reloaded: "+plural(len(next.SpecNames()), "spec"), append([]string{}, next.Warnings()...)
		if left != "" {
			message, warnings = message+"; "+left, append(warnings, left)
		}
		d.journal.Record(core.Event{Time: now, Reason: core.EventReloaded, Message: message})
		return reloadOutcome{Reload: api.Reload{
			Specs: next.SpecNames(), Warnings: warnings, NeedsRestart: append([]string{}, d.begun.NeedsRestart(next)...),
		}}
	}
	refused := &refusedReload{at: now, text: reloadFailure(err)}
	d.refused.Store(refused)
	failed := &api.ReloadError{Text: "the configuration was not reloaded, nothing changes: " + line(err.Error())}
	if problems, ok := errors.AsType[configs.Problems](err); ok {
		failed.Text = fmt.Sprintf("the configuration was not reloaded, nothing changes: it has %s", plural(len(problems), "problem"))
		for _, p := range problems {
			failed.Problems = append(failed.Problems, p.String())
		}
	}
	d.journal.Record(core.Event{Time: now, Reason: core.EventReloadFailed, Message: sentenceCase(failed.Text) + " (healthd check)"}) // the network reads it: no problem may repeat a secret
	return reloadOutcome{err: failed}
}

// refusedReload is a reload that changed nothing, and was not followed by one that did.
type refusedReload struct {
	at   time.Time
	text string
}

// warning says for status that the files say something else than the daemon does.
func (r *refusedReload) warning() string {
	if r == nil {
		return ""
	}
	return fmt.Sprintf("the reload of %s changed nothing (%s): the configuration before it is in force (healthd check shows the problems)", formatTime(r.at), r.text)
}

func sentenceCase(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

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
