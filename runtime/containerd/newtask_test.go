package containerd

import (
	"context"
	"testing"
	"time"

	"github.com/containerd/containerd/api/services/tasks/v1"
	"github.com/containerd/containerd/api/types/task"
	"github.com/containerd/containerd/v2/client"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// emptyShim is a shim without a task, as somebody leaves it who is killed while he deletes the
// task. containerd deletes the shim with the next attempt, and finds no task.
type emptyShim struct {
	tasks.TasksClient
	deleted int
}

var errNotCreated = status.Error(codes.NotFound, "container not created: not found")

func (s *emptyShim) Get(context.Context, *tasks.GetRequest, ...grpc.CallOption) (*tasks.GetResponse, error) {
	return nil, errNotCreated
}

func (s *emptyShim) Delete(context.Context, *tasks.DeleteTaskRequest, ...grpc.CallOption) (*tasks.DeleteResponse, error) {
	s.deleted++
	return nil, errNotCreated
}

// killedShim is that of a task whose process was killed before it was started. Its end is not told yet, or it is deleted.
type killedShim struct {
	tasks.TasksClient
	deleted bool
}

func (killedShim) Start(context.Context, *tasks.StartRequest, ...grpc.CallOption) (*tasks.StartResponse, error) {
	return nil, status.Error(codes.Unknown, "OCI runtime start failed: cannot start a container that has stopped: unknown")
}

func (s killedShim) Get(context.Context, *tasks.GetRequest, ...grpc.CallOption) (*tasks.GetResponse, error) {
	if s.deleted {
		return nil, errNotCreated
	}
	return &tasks.GetResponse{Process: &task.Process{Pid: 7, Status: task.Status_CREATED}}, nil
}

// containerd's restart plugin may kill a task that healthd has made, and make another one: the next try finds that.
func TestTaskIsKilledBeforeItsStart(t *testing.T) {
	e, err := New(Config{FIFODir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	for _, deleted := range []bool{false, true} {
		c, err := client.New("", client.WithServices(client.WithTaskClient(killedShim{deleted: deleted})))
		if err != nil {
			t.Fatal(err)
		}
		if again, err := e.startTask(t.Context(), c, key{"default", "web"}); !again || err == nil {
			t.Errorf("deleted: %v: tried again: %v, %v", deleted, again, err)
		}
	}
}

func TestEmptyShimIsDeleted(t *testing.T) {
	e, err := New(Config{FIFODir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	shim := &emptyShim{}
	c, err := client.New("", client.WithServices(client.WithTaskClient(shim)))
	if err != nil {
		t.Fatal(err)
	}
	if err := e.awaitMade(t.Context(), c, key{"default", "web"}, 0); err != nil || shim.deleted != 1 {
		t.Errorf("deleted %d times, %v", shim.deleted, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := e.awaitMade(ctx, c, key{"default", "web"}, time.Hour); err == nil || shim.deleted != 1 {
		t.Errorf("deleted %d times while somebody may make a task, %v", shim.deleted, err)
	}
}

// noTask is a container without a task until one is made.
type noTask struct {
	tasks.TasksClient
	made    bool
	atStart func()
}

func (n *noTask) Get(context.Context, *tasks.GetRequest, ...grpc.CallOption) (*tasks.GetResponse, error) {
	if !n.made {
		return nil, errNotCreated
	}
	return &tasks.GetResponse{Process: &task.Process{Pid: 7, Status: task.Status_RUNNING}}, nil
}

func (n *noTask) Create(context.Context, *tasks.CreateTaskRequest, ...grpc.CallOption) (*tasks.CreateTaskResponse, error) {
	n.made = true
	return &tasks.CreateTaskResponse{Pid: 7}, nil
}

func (n *noTask) Start(context.Context, *tasks.StartRequest, ...grpc.CallOption) (*tasks.StartResponse, error) {
	n.atStart()
	return &tasks.StartResponse{Pid: 7}, nil
}

// containerd's restart plugin would start the container at the same time, and in 2.x kill the task that healthd makes.
func TestRestartPluginDuringAStart(t *testing.T) {
	for before, after := range map[string]string{statusCreated: statusRunning, statusStopped: statusRunning, "": ""} {
		e, err := New(Config{FIFODir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		store, during := &labelStore{labels: map[string]string{labelRestartStatus: before}}, ""
		shim := &noTask{atStart: func() { during = store.labels[labelRestartStatus] }}
		if e.current, err = client.New("", client.WithServices(client.WithTaskClient(shim), client.WithContainerStore(store))); err != nil {
			t.Fatal(err)
		}
		err = e.Start(t.Context(), "web")
		got := store.labels[labelRestartStatus]
		if err != nil || during == statusRunning || during == statusStopped || got != after {
			t.Errorf("%q before, %q as the task starts, %q afterwards, %v", before, during, got, err)
		}
	}
}
