package containerd

import (
	"context"
	"testing"

	"github.com/containerd/containerd/api/services/tasks/v1"
	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/containers"
	"google.golang.org/grpc"
)

// cutShort ends the caller's context while it answers.
type cutShort struct {
	tasks.TasksClient
	cancel context.CancelFunc
}

func (c *cutShort) List(context.Context, *tasks.ListTasksRequest, ...grpc.CallOption) (*tasks.ListTasksResponse, error) {
	c.cancel()
	return &tasks.ListTasksResponse{}, nil
}

// oneContainer is what containerd keeps: a container.
type oneContainer struct{ containers.Store }

func (oneContainer) List(context.Context, ...string) ([]containers.Container, error) {
	return []containers.Container{{ID: "web"}}, nil
}

// A list that is cut short is not an empty one: what is known of the containers would be lost.
func TestListCutShort(t *testing.T) {
	e, err := New(Config{FIFODir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	e.current, err = client.New("", client.WithServices(client.WithTaskClient(&cutShort{cancel: cancel}), client.WithContainerStore(oneContainer{})))
	if err != nil {
		t.Fatal(err)
	}
	e.records.change(key{"default", "web"}, func(rec *record) { rec.Created = 1 })
	if list, err := e.List(ctx); err == nil {
		t.Errorf("got %+v and no error", list)
	}
	if e.records.get(key{"default", "web"}).Created == 0 {
		t.Error("what was known of the container is lost")
	}
}
