package containerd_test

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	eventtypes "github.com/containerd/containerd/api/events"
	"github.com/containerd/containerd/api/services/tasks/v1"
	"github.com/containerd/errdefs"
	"github.com/containerd/errdefs/pkg/errgrpc"
	"github.com/containerd/typeurl/v2"

	"healthd/e2e/patience"
	"healthd/runtime/containerd/containerdtest"
	"healthd/runtime/enginetest"
	"healthd/runtime/enginetest/scenarios"
)

// The answer that a command was made may come when nobody waits for it any more. The next list
// is a sign that containerd answers.
func TestExecWhoseAnswerIsLostIsDeleted(t *testing.T) {
	e, private := engine(t)
	id := private.Run(t, containerdtest.RunOptions{Cmd: []string{"sleep", "1000"}})
	made, errs := private.Client().EventService().Subscribe(t.Context(), `topic=="/tasks/exec-added"`)
	shim := private.Shim(t, id)
	if err := enginetest.Freeze(shim); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second) // waits: it must fail
	defer cancel()
	_, _, _, err := e.Exec(ctx, id, []string{"true"}, time.Minute, 100, nil)
	if continued := syscall.Kill(shim, syscall.SIGCONT); err == nil || continued != nil {
		t.Fatal(err, continued)
	}
	request := &tasks.GetRequest{ContainerID: id}
	for request.ExecID == "" {
		select {
		case m := <-made:
			if ev, err := typeurl.UnmarshalAny(m.Event); err != nil {
				t.Fatal(err)
			} else if ev := ev.(*eventtypes.TaskExecAdded); ev.ContainerID == id {
				request.ExecID = ev.ExecID
			}
		case err := <-errs:
			t.Fatal(err)
		case <-time.After(patience.Limit):
			t.Fatal("the command was not made")
		}
	}
	scenarios.Eventually(t, "the command is deleted", func() bool {
		if _, err := e.List(t.Context()); err != nil {
			t.Fatal(err)
		}
		_, err := private.Client().TaskService().Get(private.In(t, ""), request)
		return errdefs.IsNotFound(errgrpc.ToNative(err))
	})
}

// A command that ended in time did not time out, even if containerd tells of it later.
func TestExecWhoseEndIsToldLate(t *testing.T) {
	e, private := engine(t)
	id := private.Run(t, containerdtest.RunOptions{Cmd: []string{"sleep", "1000"}})
	timeout := time.Second
	patience.Until(t, "a command ends in time", func() error { // on a busy machine in a longer one
		_, code, timedOut, err := e.Exec(t.Context(), id, []string{"sh", "-c", "sleep 0.3; exit 7"}, timeout, 100, func() {
			private.Freeze(t)
			time.AfterFunc(2*timeout, func() { private.Thaw(t) })
		})
		timeout *= 3
		if code != 7 || timedOut || err != nil {
			return fmt.Errorf("got %d, %v, %v; want exit code 7", code, timedOut, err)
		}
		return nil
	})
}
