package containerd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/containerd/containerd/api/services/tasks/v1"
	"github.com/containerd/containerd/api/types/task"
	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/errdefs"

	"healthd/runtime"
)

const (
	// asksAtOnce bounds the questions about single tasks that are under way.
	asksAtOnce = 16
	// asksTimeout is for all these questions of one list. What is not answered by then counts
	// as hung.
	asksTimeout = 9 * time.Second
)

// List returns all containers of the configured namespaces, running or not.
//
// Of a container whose shim hangs nothing is known but that it is there. Its Summary fits no
// inspection, so that the Watcher inspects it, which fails: nothing is done with it.
func (e *Engine) List(ctx context.Context) ([]runtime.Summary, error) {
	c, err := e.client()
	if err != nil {
		return nil, err
	}
	e.calling.Go(e.deleteLeft)
	began := e.records.mark()
	var all []look
	for _, namespace := range e.conf.Namespaces {
		looks, err := e.lookAll(in(ctx, namespace), c, namespace)
		if err != nil {
			return nil, fmt.Errorf("cannot list containers: %w", err)
		}
		all = append(all, looks...)
	}
	listed := make(map[key]*runtime.Container, len(all))
	byID := make(map[string]*runtime.Container, len(all))
	for i := range all {
		l := &all[i]
		if listed[l.key] = nil; l.err == nil {
			listed[l.key] = e.describe(l)
			byID[e.id(l.key)] = listed[l.key]
		}
	}
	e.forgetOthers(func(k key) bool { _, ok := listed[k]; return ok }, began)
	e.records.save()
	summaries := make([]runtime.Summary, len(all))
	for i := range all {
		summaries[i] = e.summarize(&all[i], listed[all[i].key], byID)
	}
	return summaries, nil
}

// forgetOthers forgets all containers but those of a list.
func (e *Engine) forgetOthers(listed func(key) bool, since uint64) {
	e.records.dropOthers(listed, since)
	e.specs.dropOthers(listed)
}

func (e *Engine) summarize(l *look, c *runtime.Container, byID map[string]*runtime.Container) runtime.Summary {
	if c == nil {
		labels := labelSet(l.container.Labels)
		return runtime.Summary{
			ID: e.id(l.key), Namespace: shownNamespace(l.namespace), Name: labels.name(l.id), Image: l.container.Image,
			Labels: labels.lasting(), State: runtime.Running, Fingerprint: "not known",
		}
	}
	if c.NetworkOwner != "" {
		share(c, byID[c.NetworkOwner])
	}
	s := runtime.Summary{ID: c.ID, Namespace: c.Namespace, Name: c.Name, Image: c.Image, Labels: c.Labels, State: c.State, Fingerprint: fingerprint(c)}
	switch {
	case c.State.Alive():
		s.EarliestChange, s.LatestChange = c.StartedAt, c.StartedAt
	case c.State == runtime.Exited:
		s.EarliestChange, s.LatestChange = c.FinishedAt, c.FinishedAt
	}
	return s
}

// fingerprint adds the address and the ports, which may be those of another container.
func fingerprint(c *runtime.Container) string {
	return c.Fingerprint + " " + c.Network + " " + c.Address + runtime.HostPortsFingerprint(c.HostPorts)
}

// lookAll looks at all containers of a namespace.
func (e *Engine) lookAll(ctx context.Context, c *client.Client, namespace string) ([]look, error) {
	listing, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	found, err := c.ContainerService().List(listing)
	if err != nil {
		return nil, e.explain(err)
	}
	looks := make([]look, len(found))
	for i := range found {
		looks[i] = look{key: key{namespace, found[i].ID}, container: found[i]}
	}
	if len(looks) == 0 {
		return nil, nil
	}
	processes, err := e.listTasks(ctx, c)
	if err != nil && !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
		return nil, cmp.Or(err, ctx.Err())
	}
	var doubtful []*look
	for i := range looks {
		l := &looks[i]
		l.process = processes[l.id]
		// A list leaves out, or calls unknown, what a shim that hangs does not say.
		rec := e.records.get(l.key)
		if err != nil || l.process == nil && rec.runs() || l.process != nil && l.process.Status == task.Status_UNKNOWN {
			doubtful = append(doubtful, l)
		}
	}
	e.askEach(ctx, c, doubtful)
	return looks, nil
}

// askEach asks for the task of each container by itself.
func (e *Engine) askEach(ctx context.Context, c *client.Client, looks []*look) {
	ctx, cancel := context.WithTimeout(ctx, asksTimeout)
	defer cancel()
	var wg sync.WaitGroup
	defer wg.Wait()
	slots := make(chan struct{}, asksAtOnce)
	for _, l := range looks {
		slots <- struct{}{}
		wg.Go(func() {
			l.process, l.err = e.process(ctx, c, l.id)
			<-slots
		})
	}
}

// listTasks returns the main processes by container. Each shim that hangs delays containerd's
// answer by two seconds.
func (e *Engine) listTasks(ctx context.Context, c *client.Client) (map[string]*task.Process, error) {
	ctx, cancel := context.WithTimeout(ctx, taskTimeout)
	defer cancel()
	all, err := c.TaskService().List(ctx, &tasks.ListTasksRequest{})
	if err != nil {
		return nil, e.explain(err)
	}
	processes := make(map[string]*task.Process, len(all.Tasks))
	for _, p := range all.Tasks {
		processes[p.ID] = p
	}
	return processes, nil
}

// process returns the main process of a container; nil: it has no task. The error wraps
// errHung when the shim does not answer.
func (e *Engine) process(ctx context.Context, c *client.Client, id string) (*task.Process, error) {
	asking, cancel := context.WithTimeout(ctx, taskTimeout)
	defer cancel()
	answer, err := c.TaskService().Get(asking, &tasks.GetRequest{ContainerID: id})
	switch err = native(err); {
	case errdefs.IsNotFound(err):
		return nil, nil
	case err != nil && ctx.Err() == nil && asking.Err() != nil:
		return nil, errHung
	case err != nil:
		return nil, e.explain(err)
	case answer.Process == nil || answer.Process.Status == task.Status_UNKNOWN:
		return nil, errHung
	}
	return answer.Process, nil
}
