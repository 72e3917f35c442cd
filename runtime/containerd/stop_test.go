package containerd

import (
	"context"
	"errors"
	"maps"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/containerd/api/services/tasks/v1"
	"github.com/containerd/containerd/api/types/task"
	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/containers"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
)

// labelStore has one container, whose labels can be changed.
type labelStore struct {
	containers.Store
	labels map[string]string
}

func (s *labelStore) Get(_ context.Context, id string) (containers.Container, error) {
	return containers.Container{ID: id, Labels: maps.Clone(s.labels)}, nil
}

func (s *labelStore) Update(_ context.Context, c containers.Container, fields ...string) (containers.Container, error) {
	for _, field := range fields {
		name := strings.TrimPrefix(field, "labels.")
		s.labels[name] = c.Labels[name]
	}
	return c, nil
}

// oneTask answers a signal with refusal, and is what next says from then on; nil: it goes on.
type oneTask struct {
	tasks.TasksClient
	now      atomic.Pointer[task.Process]
	next     *task.Process
	refusal  error
	atSignal func()
}

func (o *oneTask) Get(context.Context, *tasks.GetRequest, ...grpc.CallOption) (*tasks.GetResponse, error) {
	return &tasks.GetResponse{Process: o.now.Load()}, nil
}

func (o *oneTask) Kill(context.Context, *tasks.KillRequest, ...grpc.CallOption) (*emptypb.Empty, error) {
	o.atSignal()
	if o.next != nil {
		o.now.Store(o.next)
	}
	return &emptypb.Empty{}, o.refusal
}

// Wait waits for the task that there is now.
func (o *oneTask) Wait(ctx context.Context, _ *tasks.WaitRequest, _ ...grpc.CallOption) (*tasks.WaitResponse, error) {
	<-ctx.Done()
	return nil, status.FromContextError(ctx.Err()).Err()
}

// stopOne stops a container that the restart plugin keeps running, and returns the status label that is there as the
// signal leaves, and afterwards.
func stopOne(t *testing.T, o *oneTask) (during, after string, err error) {
	t.Helper()
	e, err := New(Config{FIFODir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	store := &labelStore{labels: map[string]string{labelRestartStatus: statusRunning, labelRestartPolicy: "always"}}
	o.now.Store(&task.Process{Pid: 7, Status: task.Status_RUNNING})
	o.atSignal = func() { during = store.labels[labelRestartStatus] }
	if e.current, err = client.New("", client.WithServices(client.WithTaskClient(o), client.WithContainerStore(store))); err != nil {
		t.Fatal(err)
	}
	err = e.Stop(t.Context(), "web", time.Minute)
	return during, store.labels[labelRestartStatus], err
}

// A call about a task names its container only: another client may have made another task meanwhile, which runs on.
func TestStopEndsWhenTheTaskIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if _, _, err := stopOne(t, &oneTask{next: &task.Process{Pid: 8, Status: task.Status_RUNNING}}); err != nil || time.Since(began) >= time.Minute {
			t.Errorf("got %v after %v", err, time.Since(began))
		}
	})
}

// The restart plugin does nothing while healthd's signal may end the container. It goes on with one that got no signal.
func TestRestartPluginDuringAStop(t *testing.T) {
	ended := &task.Process{Pid: 7, Status: task.Status_STOPPED}
	for name, tt := range map[string]struct {
		task  *oneTask
		after string
	}{
		"goes on in spite of SIGKILL": {&oneTask{}, statusCreated},
		"ended by the signal":         {&oneTask{next: ended}, statusCreated},
		"refused":                     {&oneTask{refusal: errors.New("not allowed")}, statusRunning},
		"has ended by itself":         {&oneTask{next: ended, refusal: status.Error(codes.NotFound, "process already finished")}, statusRunning},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				during, after, err := stopOne(t, tt.task)
				if during != statusCreated || after != tt.after {
					t.Errorf("got %q during the stop and %q afterwards, want %q and %q (%v)", during, after, statusCreated, tt.after, err)
				}
			})
		})
	}
}
