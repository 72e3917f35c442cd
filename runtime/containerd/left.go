package containerd

import (
	"context"
	"sync"
	"time"

	"github.com/containerd/containerd/api/services/tasks/v1"
	"github.com/containerd/errdefs"
	"go.uber.org/zap"
)

const (
	// lateCreation is how long after its answer was lost a call may still make a command.
	lateCreation = 30 * time.Second
	// leftTimeout bounds one attempt to delete all that is left.
	leftTimeout = 2 * time.Second
)

// leftCommands are commands that containerd may still have, since the answer to a call about
// them was lost. Until somebody deletes it, a command stays in its task.
type leftCommands struct {
	deleting sync.Mutex

	mu  sync.Mutex
	all map[taskExec]time.Time // since when
}

// taskExec is one command.
type taskExec struct {
	key
	exec string
}

func (l *leftCommands) add(x taskExec) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all == nil || len(l.all) >= callsKept {
		l.all = map[taskExec]time.Time{}
	}
	l.all[x] = time.Now()
}

func (l *leftCommands) list() map[taskExec]time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make(map[taskExec]time.Time, len(l.all))
	for x, since := range l.all {
		all[x] = since
	}
	return all
}

func (l *leftCommands) remove(x taskExec) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.all, x)
}

// deleteLeft deletes what is left of commands. What runs on, or cannot be deleted now, is left
// for the next time.
func (e *Engine) deleteLeft() {
	if !e.left.deleting.TryLock() {
		return
	}
	defer e.left.deleting.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), leftTimeout)
	defer cancel()
	for x, since := range e.left.list() {
		if ctx.Err() != nil {
			return
		}
		err := e.deleteCommand(ctx, x)
		if err == nil || errdefs.IsNotFound(err) && time.Since(since) > lateCreation {
			e.left.remove(x)
		}
	}
}

func (e *Engine) deleteCommand(ctx context.Context, x taskExec) error {
	c, err := e.client()
	if err != nil {
		return err
	}
	_, err = c.TaskService().DeleteProcess(in(ctx, x.namespace), &tasks.DeleteProcessRequest{ContainerID: x.id, ExecID: x.exec})
	return native(err)
}

// forget makes containerd forget the command.
func (x *execution) forget() {
	ctx, cancel := context.WithTimeout(context.Background(), deleteTimeout)
	defer cancel()
	of := taskExec{x.key, x.id}
	if err := x.engine.deleteCommand(ctx, of); err != nil && !errdefs.IsNotFound(err) {
		x.engine.left.add(of)
		x.engine.log.Debug("a command cannot be deleted yet", zap.String("container", x.key.String()), zap.Error(err))
	}
}
