package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"go.uber.org/zap"

	"healthd/runtime"
	"healthd/runtime/hostproc"
)

// engineLock is an engine's Source that lets one healthd of the host supervise the engine: each of two would take the
// other's stops for an operator's, and leave the containers down.
type engineLock struct {
	runtime.Source
	name     string
	log      *zap.Logger
	shared   bool // another healthd may supervise other containers of the engine
	identify func(ctx context.Context) ([]string, error)
	held     []*hostproc.Lock
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

// take takes the locks of the engine, which this healthd then keeps to its end.
func (l *engineLock) take(ctx context.Context) error {
	if l.shared || len(l.held) > 0 {
		return nil
	}
	all, err := l.identify(ctx)
	if err != nil {
		l.foreign = func(error) {} // healthd runs on without an engine that was away at the start
		return err
	}
	var held []*hostproc.Lock
	for _, name := range all {
		lock, err := hostproc.TakeLock(ctx, name)
		if holder, ok := errors.AsType[*hostproc.Held](err); ok && holder.Stranger {
			l.log.Warn("the lock of an engine is not another healthd's: it does not bind", zap.String("runtime", l.name), zap.Error(err))
			continue
		}
		if err != nil {
			release(held)
			return l.refuse(err)
		}
		held = append(held, lock)
	}
	l.held = held
	return nil
}

// refuse is for an engine that another healthd has.
func (l *engineLock) refuse(err error) error {
	holder, ok := errors.AsType[*hostproc.Held](err)
	switch {
	case ok && holder.PID == os.Getpid():
		return errors.New("another runtime of this healthd says that it is the same engine, or a copy with its ID: remove one of them, " +
			"or set exclusive = false for both")
	case ok:
		err = errOtherHealthd{fmt.Errorf("another healthd supervises this engine: %w. Only one may: end one of them, "+
			"or set exclusive = false for both where they supervise different containers", holder)}
		l.foreign(err)
	}
	return err
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
func (l *engineLock) release() { release(l.held) }

func release(all []*hostproc.Lock) {
	for _, lock := range all {
		lock.Release()
	}
}
