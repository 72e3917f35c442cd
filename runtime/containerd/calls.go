package containerd

import (
	"slices"
	"sync"
	"time"

	"healthd/runtime"
)

const (
	// settleTime is how long after somebody else has deleted a task it shows whether the
	// container is removed, or started again.
	settleTime = time.Second
	// callsKept bounds what is remembered of calls.
	callsKept = 4096
)

// ownCalls is what the Engine itself does, so that the events which follow are not taken for
// somebody else's.
type ownCalls struct {
	mu      sync.Mutex
	deletes map[taskID]struct{}
	foreign map[key]*foreignDelete
	stops   map[key]*ownStops
}

type taskID struct {
	key
	pid int
}

// ownStops are the Engine's stop calls of the newest run that it has stopped.
type ownStops struct {
	run  runtime.Run
	at   []time.Time // when the stop signals left
	told int         // so many of them on the event stream
}

// foreignDelete is the deletion of a task by somebody else.
type foreignDelete struct {
	at      time.Time
	settled chan struct{} // closed when it is known what follows
}

// deleting says that the Engine deletes a task.
func (o *ownCalls) deleting(k key, pid int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.deletes == nil || len(o.deletes) >= callsKept {
		o.deletes = map[taskID]struct{}{}
	}
	o.deletes[taskID{k, pid}] = struct{}{}
}

// notDeleted says that the Engine did not delete the task after all.
func (o *ownCalls) notDeleted(k key, pid int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.deletes, taskID{k, pid})
	o.noteForeign(k)
}

// deleted takes in the event of a deletion, and says whether the Engine did it.
func (o *ownCalls) deleted(k key, pid int) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, own := o.deletes[taskID{k, pid}]; own {
		delete(o.deletes, taskID{k, pid})
		return true
	}
	o.noteForeign(k)
	return false
}

// othersDelete says that somebody else deletes the task just now.
func (o *ownCalls) othersDelete(k key) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.noteForeign(k)
}

// noteForeign needs mu.
func (o *ownCalls) noteForeign(k key) {
	if o.foreign == nil {
		o.foreign = map[key]*foreignDelete{}
	}
	for other, f := range o.foreign {
		if time.Since(f.at) > settleTime {
			delete(o.foreign, other)
		}
	}
	if o.foreign[k] == nil {
		o.foreign[k] = &foreignDelete{at: time.Now(), settled: make(chan struct{})}
	}
}

// created and removed take in what followed the deletion of a task.
func (o *ownCalls) created(k key) { o.settle(k) }
func (o *ownCalls) removed(k key) { o.settle(k) }

func (o *ownCalls) settle(k key) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if f := o.foreign[k]; f != nil {
		close(f.settled)
		delete(o.foreign, k)
	}
}

// unsettled returns what to wait for before a new task is made: the channel is closed when it
// is known what follows the deletion of the task by somebody else, and that is so after the
// time at the latest. The channel is nil when there is nothing to wait for.
func (o *ownCalls) unsettled(k key) (settled <-chan struct{}, wait time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	f := o.foreign[k]
	if f == nil {
		return nil, 0
	}
	if wait = settleTime - time.Since(f.at); wait <= 0 {
		delete(o.foreign, k)
		return nil, 0
	}
	return f.settled, wait
}

// stopping says that the Engine sends the run its stop signal now.
func (o *ownCalls) stopping(k key, run runtime.Run, at time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.stops == nil {
		o.stops = map[key]*ownStops{}
	}
	if o.stops[k] == nil || o.stops[k].run != run {
		o.stops[k] = &ownStops{run: run}
	}
	o.stops[k].at = append(o.stops[k].at, at)
}

// untoldStops returns when the Engine sent the run its stop signal, each time once.
func (o *ownCalls) untoldStops(k key, run runtime.Run) []time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	s := o.stops[k]
	if s == nil || s.run != run {
		return nil
	}
	from := s.told
	s.told = len(s.at)
	return slices.Clone(s.at[from:])
}

// stopsOf returns when the Engine sent the run its stop signal.
func (o *ownCalls) stopsOf(k key, run runtime.Run) []time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	if s := o.stops[k]; s != nil && s.run == run {
		return slices.Clone(s.at)
	}
	return nil
}

// forget drops a container that is gone.
func (o *ownCalls) forget(k key) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.stops, k)
}
