package containerd

import (
	"context"
	"time"

	eventtypes "github.com/containerd/containerd/api/events"
	"github.com/containerd/containerd/v2/core/events"
	"go.uber.org/zap"

	"healthd/runtime"
)

// shimDeath is how soon after the exit that it invents containerd tells that it has deleted the
// task of a shim that has died: half a millisecond later. A client's deletion takes some 30.
const shimDeath = 5 * time.Millisecond

// batchMax is how many events are taken in with one write to the disk.
const batchMax = 256

// stream is the event stream. One goroutine calls Next.
type stream struct {
	engine *Engine
	ctx    context.Context
	queue  chan *events.Envelope
	ended  chan error
	ready  []runtime.Event  // taken in, not returned yet
	labels map[key]labelSet // of all containers, as last told
	exits  map[key]exit     // the newest of each container
}

// exit is the news of a task's end, by containerd's clock.
type exit struct {
	pid  uint32
	told time.Time
}

// Next waits for the next event of a container. What the event says is on the disk by then.
func (s *stream) Next() (runtime.Event, error) {
	for len(s.ready) == 0 {
		select {
		case m := <-s.queue:
			s.take(m)
		case err := <-s.ended:
			select {
			case m := <-s.queue: // what came before the end
				s.ended <- err
				s.take(m)
			default:
				return runtime.Event{}, s.engine.explain(err)
			}
		}
	}
	ev := s.ready[0]
	s.ready = s.ready[1:]
	return ev, nil
}

// take takes in an event, and those that wait behind it.
func (s *stream) take(m *events.Envelope) {
	for range batchMax {
		s.translate(m)
		select {
		case m = <-s.queue:
			continue
		default:
		}
		break
	}
	s.engine.records.save()
}

// add adds an event about the container.
func (s *stream) add(k key, ev runtime.Event) {
	ev.ID = s.engine.id(k)
	if labels, ok := s.labels[k]; ok {
		ev.Name, ev.Labels = labels.name(k.id), labels.lasting()
	}
	s.ready = append(s.ready, ev)
}

// translate takes one event into the records, and adds what it means for the Watcher.
func (s *stream) translate(m *events.Envelope) {
	message, err := unmarshalEvent(m.Event)
	if err != nil {
		s.engine.log.Warn("containerd sent an event that cannot be read", zap.String("topic", m.Topic), zap.Error(err))
		return
	}
	at, ns := s.engine.clock.fromEvent(m.Timestamp), m.Namespace
	switch ev := message.(type) {
	case *eventtypes.TaskCreate:
		s.engine.calls.created(key{ns, ev.ContainerID})
	case *eventtypes.TaskStart:
		s.started(key{ns, ev.ContainerID}, int(ev.Pid), at)
	case *eventtypes.TaskExit:
		k := key{ns, ev.ContainerID}
		if ev.ID != ev.ContainerID { // of a command in the container
			s.add(k, runtime.Event{Action: runtime.ActionExec, Time: at})
			return
		}
		s.exits[k] = exit{ev.Pid, m.Timestamp}
		s.exited(k, ev, at)
	case *eventtypes.TaskDelete:
		if k := (key{ns, ev.ContainerID}); ev.ID == "" || ev.ID == ev.ContainerID {
			last := s.exits[k]
			delete(s.exits, k)
			s.deleted(k, ev, at, last.pid == ev.Pid && m.Timestamp.Sub(last.told) <= shimDeath)
		}
	case *eventtypes.TaskOOM:
		k := key{ns, ev.ContainerID}
		s.engine.records.change(k, func(rec *record) { rec.oom(at) })
		s.add(k, runtime.Event{Action: runtime.ActionOOM, Time: at})
	case *eventtypes.TaskPaused:
		s.add(key{ns, ev.ContainerID}, runtime.Event{Action: runtime.ActionPause, Time: at})
	case *eventtypes.TaskResumed:
		s.add(key{ns, ev.ContainerID}, runtime.Event{Action: runtime.ActionUnpause, Time: at})
	case *eventtypes.ContainerCreate:
		k := key{ns, ev.ID}
		s.engine.forget(k) // an earlier one of this ID
		s.add(k, runtime.Event{Action: runtime.ActionCreate, Time: at})
	case *eventtypes.ContainerUpdate:
		s.updated(key{ns, ev.ID}, ev.Labels, at)
	case *eventtypes.ContainerDelete:
		k := key{ns, ev.ID}
		s.engine.calls.removed(k)
		s.add(k, runtime.Event{Action: runtime.ActionDestroy, Time: at})
		s.engine.forget(k)
		delete(s.labels, k)
		delete(s.exits, k)
	}
}

func (s *stream) started(k key, pid int, at time.Time) {
	ticks, told := ticksOf(pid), false
	s.engine.records.change(k, func(rec *record) { at, told = rec.started(s.engine.clock, pid, ticks, at) })
	if told {
		s.add(k, runtime.Event{Action: runtime.ActionStart, Time: at})
	}
}

func (s *stream) exited(k key, ev *eventtypes.TaskExit, at time.Time) {
	if ev.ExitedAt != nil {
		at = s.engine.clock.fromEvent(ev.ExitedAt.AsTime())
	}
	var told bool
	rec := s.engine.records.change(k, func(rec *record) { told = rec.exited(s.engine.clock, int(ev.Pid), int(ev.ExitStatus), at) })
	if told {
		s.add(k, runtime.Event{Action: runtime.ActionDie, ExitCode: int(ev.ExitStatus), Time: time.Unix(0, rec.Ended)})
	}
}

// deleted takes in that a task was deleted: by healthd, by somebody else, or by containerd
// because its shim has died. Then that is told at once after the exit, and containerd has
// invented the exit code.
func (s *stream) deleted(k key, ev *eventtypes.TaskDelete, at time.Time, atOnce bool) {
	if s.engine.calls.deleted(k, int(ev.Pid)) {
		return
	}
	var died, shimDied bool
	rec := s.engine.records.change(k, func(rec *record) {
		switch {
		case !rec.isRun(s.engine.clock.boot, int(ev.Pid), 0):
		case rec.Ended == 0: // the news of its exit is lost
			exited := at
			if ev.ExitedAt != nil && !ev.ExitedAt.AsTime().IsZero() {
				exited = s.engine.clock.fromEvent(ev.ExitedAt.AsTime())
			}
			died = rec.exited(s.engine.clock, int(ev.Pid), int(ev.ExitStatus), exited)
		case rec.Code == killedCode && rec.Lost == "" && atOnce:
			rec.Code, rec.Lost, shimDied = lostCode, lostShim, true
		}
	})
	switch {
	case died:
		s.add(k, runtime.Event{Action: runtime.ActionDie, ExitCode: rec.Code, Time: time.Unix(0, rec.Ended)})
	case shimDied:
		s.add(k, runtime.Event{Action: runtime.ActionUpdate, Time: at})
	}
}

// updated takes in new labels. nerdctl's stop, restart and kill set a label before they send
// their signal; nothing else tells of it.
func (s *stream) updated(k key, labels map[string]string, at time.Time) {
	before, known := s.labels[k]
	now := labelSet(labels)
	s.labels[k] = now
	unchanged := known && before.hash() == now.hash()
	var told bool
	rec := s.engine.records.change(k, func(rec *record) {
		rec.noteStopped(now.stopped(), at)
		if unchanged && rec.Stopped && before[labelHealthState] == now[labelHealthState] {
			rec.KillAt, rec.killTold = at.UnixNano(), false // it was true already, and was set again
		}
		told = rec.KillAt != 0 && !rec.killTold
		rec.killTold = rec.killTold || told
	})
	switch {
	case told:
		s.addStop(k, &rec, now)
	case !unchanged:
		s.add(k, runtime.Event{Action: runtime.ActionUpdate, Time: at})
	}
}

// addStop adds an operator's stop. healthd's own stops send no such news: those of this run
// are told before it, so that it is not taken for one of them. To a run that has ended there
// is no signal.
func (s *stream) addStop(k key, rec *record, labels labelSet) {
	at := time.Unix(0, rec.KillAt)
	if !rec.runs() {
		s.add(k, runtime.Event{Action: runtime.ActionStop, ByOthers: true, Time: at})
		return
	}
	signal := (&runtime.Container{StopSignal: labels[labelStopSignal]}).StopSignalNumber()
	s.engine.recallStops(k, rec)
	for _, own := range s.engine.calls.untoldStops(k, rec.id(s.engine.id(k))) {
		s.add(k, runtime.Event{Action: runtime.ActionKill, Signal: signal, Time: own})
	}
	s.add(k, runtime.Event{Action: runtime.ActionKill, Signal: signal, Time: at})
}
