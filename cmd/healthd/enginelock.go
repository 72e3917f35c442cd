package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"healthd/runtime"
	"healthd/runtime/hostproc"
)

// engineLock is an engine's Source that lets one healthd of the host supervise the engine: each of two would take the
// other's stops for an operator's, and leave the containers down.
type engineLock struct {
	runtime.Source
	shared   bool // another healthd may supervise other containers of the engine
	identify func(ctx context.Context) ([]string, error)
	held     map[string]*hostproc.Lock
	foreign  context.CancelCauseFunc // called when another healthd has the engine
}

// errOtherHealthd is that another healthd has the engine.
type errOtherHealthd struct{ error }

// Subscribe implements runtime.Source.
func (l *engineLock) Subscribe(ctx context.Context, since time.Time) (runtime.Stream, error) {
	if err := l.take(ctx); err != nil {
		return nil, err
	}
	return l.Source.Subscribe(ctx, since)
}

// take takes the locks of the engine that this healthd does not have yet. An engine may become another one.
func (l *engineLock) take(ctx context.Context) error {
	if l.shared {
		return nil
	}
	all, err := l.identify(ctx)
	if err != nil {
		return err
	}
	for _, name := range all {
		if l.held[name] != nil {
			continue
		}
		lock, err := hostproc.TakeLock(ctx, name)
		if holder, ok := errors.AsType[*hostproc.Held](err); ok {
			err = errOtherHealthd{fmt.Errorf("another healthd supervises this engine: %w. Only one may: end one of them, or set exclusive = false for both where they "+
				"supervise different containers", holder)}
			l.foreign(err)
		}
		if err != nil {
			return err
		}
		if l.held == nil {
			l.held = map[string]*hostproc.Lock{}
		}
		l.held[name] = lock
	}
	return nil
}

// whileFree watches the engine. Under systemd healthd waits for an engine that another healthd has; else it ends.
func (l *engineLock) whileFree(ctx context.Context, watch func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if l.foreign = cancel; underSystemd() {
		l.foreign = func(error) {}
	}
	err := watch(ctx)
	if taken, ok := errors.AsType[errOtherHealthd](context.Cause(ctx)); ok {
		return taken
	}
	return err
}

// release gives the locks back.
func (l *engineLock) release() {
	for _, lock := range l.held {
		if lock != nil {
			lock.Release()
		}
	}
}
