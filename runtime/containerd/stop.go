package containerd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/containerd/containerd/api/services/tasks/v1"
	"github.com/containerd/containerd/api/types/task"
	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"

	"healthd/runtime"
)

const (
	// killTimeout is from SIGKILL to the end of the task.
	killTimeout = 30 * time.Second
	// waitPause is the time between two questions whether a task has ended, where containerd
	// does not tell by itself.
	waitPause = 100 * time.Millisecond
	// waitTime bounds a call that waits for a task: it may be about another one than that of the stop.
	waitTime = time.Second
)

// Stop sends the container's stop signal, and SIGKILL after grace. It returns when the
// container has ended. A container that is not running is no error. A paused one gets the
// signal when it is resumed; SIGKILL ends it at once.
//
// The task stays, with its exit code, until the container is started again.
func (e *Engine) Stop(ctx context.Context, id string, grace time.Duration) error {
	grace = max(grace, 0)
	ctx, cancel := context.WithTimeout(ctx, grace+killTimeout+callTimeout)
	defer cancel()
	k, err := e.key(id)
	if err != nil {
		return err
	}
	c, err := e.client()
	if err != nil {
		return err
	}
	l, err := e.look(ctx, c, k)
	if err != nil {
		return e.containerError(err, "stop", k)
	}
	found := e.describe(l)
	e.records.save()
	if !found.State.Alive() || l.process == nil {
		return nil
	}
	s := &stopCall{engine: e, key: k, pid: l.process.Pid}
	return e.containerError(s.stop(in(ctx, k.namespace), found, grace), "stop", k)
}

// noteStop notes that the Engine sends the run its stop signal now, on the disk as well.
func (e *Engine) noteStop(k key, run runtime.Run) {
	now, before := e.clock.now(), e.records.get(k)
	e.recallStops(k, &before)
	e.calls.stopping(k, run, now)
	e.records.change(k, func(rec *record) {
		if rec.OwnStops++; rec.OwnStops == 1 {
			rec.OwnStop = now.UnixNano()
		}
	})
	e.records.save()
}

// recallStops notes the stops of earlier healthds, as stops of the Engine's.
func (e *Engine) recallStops(k key, rec *record) {
	run := rec.id(e.id(k))
	if len(e.calls.stopsOf(k, run)) > 0 {
		return
	}
	for i := range rec.OwnStops {
		e.calls.stopping(k, run, time.Unix(0, rec.OwnStop+int64(i))) // no two at one moment
	}
}

// stopCall is one stop of one task.
type stopCall struct {
	engine *Engine
	key    key
	pid    uint32
	sent   bool // a signal, perhaps
}

// stop has containerd's restart plugin leave the container alone until healthd starts it. Where no signal was sent, the
// container runs on or has ended by itself: then the plugin looks after it again.
func (s *stopCall) stop(ctx context.Context, found *runtime.Container, grace time.Duration) error {
	if found.RestartPolicy == policyNone {
		return s.run(ctx, found, grace)
	}
	// Not "stopped", as which the plugin would kill the container before its grace period is over.
	err := s.engine.setLabel(ctx, s.key, labelRestartStatus, statusCreated)
	if err != nil && !errdefs.IsNotFound(err) {
		return err
	}
	if err = s.run(ctx, found, grace); !s.sent {
		// If that fails as well, the plugin does nothing, so that healthd's own policy decides after the exit.
		_ = s.engine.setLabel(context.WithoutCancel(ctx), s.key, labelRestartStatus, statusRunning)
	}
	return err
}

func (s *stopCall) run(ctx context.Context, found *runtime.Container, grace time.Duration) error {
	waiting, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		defer close(ended)
		ended <- s.wait(waiting)
	}()
	defer func() {
		cancel()
		for range ended {
		}
	}()
	s.engine.noteStop(s.key, found.Run())
	for _, step := range []struct {
		signal unix.Signal
		wait   time.Duration
	}{{unix.Signal(found.StopSignalNumber()), grace}, {unix.SIGKILL, killTimeout}} {
		if err := s.signal(ctx, step.signal); err != nil {
			return err
		}
		over := time.NewTimer(step.wait)
		defer over.Stop()
		select {
		case err := <-ended:
			return err
		case <-over.C:
		}
	}
	return fmt.Errorf("it still runs %v after SIGKILL", killTimeout)
}

// signal sends a signal to the task. One that has ended is no error, nor that another one has
// taken its place: a call names the container only.
func (s *stopCall) signal(ctx context.Context, sig unix.Signal) error {
	asking, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	c, err := s.engine.client()
	if err != nil {
		return err
	}
	if p, err := s.engine.process(asking, c, s.key.id); err == nil && (p == nil || p.Pid != s.pid) {
		return nil
	}
	_, err = c.TaskService().Kill(asking, &tasks.KillRequest{ContainerID: s.key.id, Signal: uint32(sig)})
	switch err = native(err); {
	case err == nil:
		s.sent = true
	case errdefs.IsNotFound(err):
		return nil
	case asking.Err() != nil:
		if s.sent = true; ctx.Err() == nil {
			return errHung
		}
	}
	return err
}

// wait returns when the task has ended, or another one has taken its place. A restart of containerd does not end it.
func (s *stopCall) wait(ctx context.Context) error {
	for {
		c, err := s.engine.client()
		if err != nil {
			return err
		}
		waiting, cancel := context.WithTimeout(ctx, waitTime)
		_, err = c.TaskService().Wait(waiting, &tasks.WaitRequest{ContainerID: s.key.id})
		cancel()
		if err == nil {
			return nil
		}
		p, err := s.engine.process(ctx, c, s.key.id)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil && (p == nil || p.Status == task.Status_STOPPED || p.Pid != s.pid):
			return nil
		}
		select {
		case <-time.After(waitPause):
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		}
	}
}
