package chaos

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	eventtypes "github.com/containerd/containerd/api/events"
	"github.com/containerd/containerd/api/services/tasks/v1"
	"github.com/containerd/containerd/api/types/task"
	"github.com/containerd/containerd/v2/core/events"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/errdefs"
	"github.com/containerd/errdefs/pkg/errgrpc"
	"github.com/containerd/typeurl/v2"
	"google.golang.org/protobuf/types/known/emptypb"
)

// watch follows containerd's events without the proxy. After each end of the stream it reads
// all states: containerd tells no past events.
func (c *ctrChaos) watch() {
	ctx, cancel := context.WithCancel(context.WithoutCancel(c.t.Context()))
	defer cancel()
	go func() {
		<-c.over
		cancel()
	}()
	for ctx.Err() == nil {
		c.follow(ctx)
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// follow follows one stream. Subscribe returns before containerd listens, so markers are sent
// until one comes back.
func (c *ctrChaos) follow(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	marker := "/chaos/" + rand.Text()
	messages, errs := c.e.Client().EventService().Subscribe(ctx, fmt.Sprintf("topic==%q", marker), `topic~="^/tasks/(start|exit)$"`)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for listening := false; ; {
		select {
		case <-tick.C:
			if !listening && c.e.Client().EventService().Publish(namespaces.WithNamespace(ctx, "default"), marker, &emptypb.Empty{}) != nil {
				return
			}
		case m := <-messages:
			if m.Topic == marker {
				if !listening {
					listening = true
					c.readStates(ctx)
					select {
					case c.heard <- struct{}{}:
					default:
					}
				}
				continue
			}
			c.onEvent(m)
		case <-errs:
			return
		}
	}
}

func (c *ctrChaos) onEvent(m *events.Envelope) {
	message, err := typeurl.UnmarshalAny(m.Event)
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch ev := message.(type) {
	case *eventtypes.TaskStart:
		if s := c.byKey[m.Namespace+"/"+ev.ContainerID]; s != nil {
			c.lines = append(c.lines, chaosLine{m.Timestamp, s.name, "containerd: start"})
			c.began(s, ev.Pid)
		}
	case *eventtypes.TaskExit:
		if s := c.byKey[m.Namespace+"/"+ev.ContainerID]; s != nil && ev.ID == ev.ContainerID {
			c.lines = append(c.lines, chaosLine{m.Timestamp, s.name, "containerd: exit"})
			c.ended(s, ev.Pid, ev.ExitStatus)
		}
	}
}

// readStates reads what no event has told.
func (c *ctrChaos) readStates(ctx context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.subjects {
		if s.id == "" {
			continue
		}
		p, err := c.process(ctx, s.kind.space(), s.id, "")
		switch {
		case errdefs.IsNotFound(err):
			c.ended(s, s.present.pid, 255)
		case err != nil:
		case p.Status == task.Status_STOPPED:
			c.began(s, p.Pid)
			c.ended(s, p.Pid, p.ExitStatus)
		case p.Status != task.Status_CREATED:
			c.began(s, p.Pid)
		}
	}
}

// process asks for the process of a container, or of a command in it.
func (c *ctrChaos) process(ctx context.Context, namespace, id, exec string) (*task.Process, error) {
	ctx, cancel := context.WithTimeout(namespaces.WithNamespace(ctx, namespace), 5*time.Second) // waits: the next look asks again
	defer cancel()
	answer, err := c.e.Client().TaskService().Get(ctx, &tasks.GetRequest{ContainerID: id, ExecID: exec})
	return answer.GetProcess(), errgrpc.ToNative(err)
}
