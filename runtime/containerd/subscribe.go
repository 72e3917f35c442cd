package containerd

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/events"
	"google.golang.org/protobuf/types/known/emptypb"

	"go.uber.org/zap"

	"healthd/runtime"
)

const (
	// queueSize is how many events may wait to be taken in. containerd keeps an unbounded queue
	// for a slow reader, so they are read at once.
	queueSize = 8192
	// markerPause is the time between two markers, until one comes back.
	markerPause = 2 * time.Millisecond

	markerTopic = "/healthd/subscribed/"
	// topics are those of the events that say something of a container.
	topics = "^/(tasks/(create|start|exit|delete|oom|paused|resumed)|containers/(create|update|delete))$"
)

// errBehind ends a stream whose queue is full.
var errBehind = errors.New("too many events to take in")

// Subscribe returns all events from now on, until ctx ends. containerd has none of the past.
// The first event is of the moment since: what came after it is in the state that containerd
// shows, as far as EventHistory says so. That does not show which containers nobody has watched
// yet, so the creations of those that were made since then follow.
func (e *Engine) Subscribe(ctx context.Context, since time.Time) (runtime.Stream, error) {
	e.fifos.removeLeft() // before anybody asks the shims that wait for them
	c, err := e.renewClient(ctx)
	if err != nil {
		return nil, fmt.Errorf("cannot subscribe to events: %w", err)
	}
	s := &stream{engine: e, ctx: ctx, labels: map[key]labelSet{}, exits: map[key]exit{}, queue: make(chan *events.Envelope, queueSize), ended: make(chan error, 1)}
	if !since.IsZero() {
		s.ready = []runtime.Event{{Action: runtime.ActionExec, Time: since}}
	}
	if err := s.open(c); err != nil {
		return nil, fmt.Errorf("cannot subscribe to events: %w", e.explain(err))
	}
	if err := s.readContainers(c, since); err != nil {
		return nil, fmt.Errorf("cannot subscribe to events: %w", err)
	}
	return s, nil
}

// open subscribes. containerd answers before it listens, so that events of a short time would
// be lost without notice: markers are sent until one has come.
func (s *stream) open(c *client.Client) error {
	marker := markerTopic + rand.Text()
	filters := []string{fmt.Sprintf("topic==%q", marker)}
	for _, namespace := range s.engine.conf.Namespaces {
		filters = append(filters, fmt.Sprintf("namespace==%s,topic~=%q", namespace, topics))
	}
	// The stream's goroutine ends with this context.
	messages, errs := c.EventService().Subscribe(s.ctx, filters...)
	arrived := make(chan struct{})
	go s.read(messages, errs, marker, arrived)
	namespace := in(s.ctx, s.engine.conf.Namespaces[0])
	tick := time.NewTicker(markerPause)
	defer tick.Stop()
	for {
		if err := c.EventService().Publish(namespace, marker, &emptypb.Empty{}); err != nil {
			return err
		}
		select {
		case <-arrived:
			return nil
		case err := <-s.ended:
			return err
		case <-tick.C:
		}
	}
}

// read moves events into the queue. It never waits for whoever takes them in.
func (s *stream) read(messages <-chan *events.Envelope, errs <-chan error, marker string, arrived chan struct{}) {
	for {
		select {
		case m := <-messages:
			if m.Topic == marker {
				if arrived != nil {
					close(arrived)
					arrived = nil
				}
				continue
			}
			select {
			case s.queue <- m:
			default:
				s.ended <- errBehind
				return
			}
		case err := <-errs:
			if err == nil {
				err = errors.New("containerd has ended it")
			}
			s.ended <- err
			return
		case <-s.ctx.Done():
			s.ended <- s.ctx.Err()
			return
		}
	}
}

// readContainers reads which containers there are, and their labels: an event has all labels of
// its container, but not what they were before.
func (s *stream) readContainers(c *client.Client, since time.Time) error {
	e := s.engine
	now, tellsNew := e.clock.now(), e.recordsReach(since)
	for _, namespace := range e.conf.Namespaces {
		ctx, cancel := context.WithTimeout(in(s.ctx, namespace), callTimeout)
		all, err := c.ContainerService().List(ctx)
		cancel()
		if err != nil {
			return e.explain(err)
		}
		for _, found := range all {
			k, labels := key{namespace, found.ID}, labelSet(found.Labels)
			s.labels[k] = labels
			rec := e.records.change(k, func(rec *record) { rec.noteStopped(labels.stopped(), now) })
			told := e.clock.fromWall(found.CreatedAt)
			// A creation says nothing of who ended it: what an operator has stopped is to stay so.
			if tellsNew && !labels.stopped() && rec.madeSince(since, found.CreatedAt, told, time.Now()) {
				s.add(k, runtime.Event{Action: runtime.ActionCreate, Time: told})
			}
			if rec.stoppedSince() { // told each time: who heard it last may have died before it was written
				s.addStop(k, &rec, labels)
			}
		}
	}
	e.records.tellNoneAgain()
	e.records.save()
	e.warnOfMissingNamespaces(s.ctx, c)
	return nil
}

// warnOfMissingNamespaces warns of those that containerd does not have. They may come later.
func (e *Engine) warnOfMissingNamespaces(ctx context.Context, c *client.Client) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	names, err := c.NamespaceService().List(ctx)
	if err != nil {
		return
	}
	for _, name := range e.conf.Namespaces {
		if !slices.Contains(names, name) && name != defaultNamespace {
			e.log.Warn("containerd has no such namespace yet", zap.String("namespace", name), zap.Strings("it has", names))
		}
	}
}
