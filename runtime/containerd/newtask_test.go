package containerd

import (
	"context"
	"testing"
	"time"

	"github.com/containerd/containerd/api/services/tasks/v1"
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
