package supervisor_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"healthd/runtime"
)

// monthsEngine is a Docker engine in memory, and what its containers do. It keeps nothing of a container
// that was removed but its last events.
type monthsEngine struct {
	mu         sync.Mutex
	containers map[string]*monthsContainer // by ID
	history    []runtime.Event
	streams    map[*monthsStream]bool
	clock      time.Time // the newest time that it showed
	began      time.Time
	down       bool
	failLooks  int          // inspections to come that fail
	made       int          // containers ever made
	probes     atomic.Int64 // answered
}

// monthsContainer is one container. Nobody changes info: inspections share what it points to.
type monthsContainer struct {
	info     runtime.Container
	failures int // probes to come that find it dead, in this run
	unready  int // probes to come that find it not ready
	crashes  int // runs to come that end soon
}

const monthsHistory = 256

var errMonthsDown = errors.New("the engine is down")

func newMonthsEngine() *monthsEngine {
	return &monthsEngine{containers: map[string]*monthsContainer{}, streams: map[*monthsStream]bool{}, began: time.Now()}
}

func (e *monthsEngine) locked(do func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	do()
}

// stamp is now, but never the same time twice.
func (e *monthsEngine) stamp() time.Time {
	at := time.Now().Round(0)
	if !at.After(e.clock) {
		at = e.clock.Add(1)
	}
	e.clock = at
	return at
}

func (e *monthsEngine) emit(c *monthsContainer, action runtime.Action, signal int) {
	if e.down {
		return
	}
	ev := runtime.Event{ID: c.info.ID, Action: action, Time: e.stamp(), Name: c.info.Name, Image: c.info.Image, Labels: c.info.Labels, Signal: signal}
	if action == runtime.ActionDie {
		ev.ExitCode = c.info.ExitCode
	}
	e.history = append(e.history[max(0, len(e.history)-monthsHistory+1):], ev)
	for s := range e.streams {
		s.events <- ev
	}
}

// create makes a container from a description of it.
func (e *monthsEngine) create(c runtime.Container) *monthsContainer {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.made++
	c.ID, c.Runtime, c.State = fmt.Sprintf("%064x", e.made), "docker", runtime.Created
	c.RestartPolicy, c.StopTimeout, c.Network, c.HasHealthcheck = "no", -1, "bridge", true
	made := &monthsContainer{info: c}
	made.fingerprint()
	e.containers[c.ID] = made
	e.emit(made, runtime.ActionCreate, 0)
	return made
}

func (c *monthsContainer) fingerprint() {
	c.info.Fingerprint = fmt.Sprint("exit ", c.info.ExitCode, c.info.FinishedAt.UnixNano())
	if c.info.State.Alive() {
		c.info.Fingerprint = fmt.Sprint(c.info.Address, c.info.StartedAt.UnixNano())
	}
}

// begin starts a run. A container that is to crash ends soon.
func (e *monthsEngine) begin(c *monthsContainer) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if c.info.State.Alive() || e.containers[c.info.ID] != c || e.down {
		return
	}
	e.beginLocked(c)
}

func (e *monthsEngine) beginLocked(c *monthsContainer) {
	c.info.State, c.info.StartedAt, c.info.Address = runtime.Running, e.stamp(), fmt.Sprintf("10.1.%d.%d", e.made/250%250, e.made%250+1)
	c.info.OOMKilled, c.failures = false, 0
	c.fingerprint()
	e.emit(c, runtime.ActionStart, 0)
	if c.crashes > 0 {
		c.crashes--
		e.endLater(c, 20*time.Second, 1)
	}
}

// endLater ends the present run after a time, if it still runs then.
func (e *monthsEngine) endLater(c *monthsContainer, d time.Duration, code int) {
	run := c.info.Run()
	time.AfterFunc(d, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		if c.info.Run() == run {
			e.endLocked(c, code)
		}
	})
}

func (e *monthsEngine) end(c *monthsContainer, code int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.endLocked(c, code)
}

func (e *monthsEngine) endLocked(c *monthsContainer, code int) {
	if !c.info.State.Alive() {
		return
	}
	c.info.State, c.info.FinishedAt, c.info.ExitCode, c.info.Address = runtime.Exited, e.stamp(), code, ""
	c.fingerprint()
	e.emit(c, runtime.ActionDie, 0)
	if c.info.AutoRemove {
		e.removeLocked(c)
	}
}

// endForMemory is an end by the kernel's killer.
func (e *monthsEngine) endForMemory(c *monthsContainer) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if c.info.State.Alive() {
		c.info.OOMKilled = true
		e.emit(c, runtime.ActionOOM, 0)
		e.endLocked(c, 137)
	}
}

// kill sends a signal that ends the container at once.
func (e *monthsEngine) kill(c *monthsContainer, signal int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if c.info.State.Alive() {
		e.emit(c, runtime.ActionKill, signal)
		e.endLocked(c, 128+signal)
	}
}

// stop is docker stop. It takes a moment.
func (e *monthsEngine) stop(c *monthsContainer) {
	e.mu.Lock()
	alive := c.info.State.Alive()
	if alive {
		e.emit(c, runtime.ActionKill, 15)
	}
	e.mu.Unlock()
	if !alive {
		return
	}
	time.Sleep(300 * time.Millisecond)
	e.end(c, 143)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.emit(c, runtime.ActionStop, 0)
}

func (e *monthsEngine) pause(c *monthsContainer, from, to runtime.State, action runtime.Action) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if c.info.State == from {
		c.info.State = to
		e.emit(c, action, 0)
	}
}

func (e *monthsEngine) rename(c *monthsContainer, name string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.containers[c.info.ID] == c {
		c.info.Name = name
		e.emit(c, runtime.ActionRename, 0)
	}
}

func (e *monthsEngine) remove(c *monthsContainer) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.removeLocked(c)
}

func (e *monthsEngine) removeLocked(c *monthsContainer) {
	if e.containers[c.info.ID] == c {
		delete(e.containers, c.info.ID)
		e.emit(c, runtime.ActionDestroy, 0)
	}
}

// all returns the containers, oldest first.
func (e *monthsEngine) all() []*monthsContainer {
	e.mu.Lock()
	defer e.mu.Unlock()
	var all []*monthsContainer
	for _, id := range slices.Sorted(maps.Keys(e.containers)) {
		all = append(all, e.containers[id])
	}
	return all
}

// cut ends all event streams.
func (e *monthsEngine) cut() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for s := range e.streams {
		close(s.events)
	}
	clear(e.streams)
}

// restart ends the engine and all containers, and starts it again without its history after a time.
func (e *monthsEngine) restart(after time.Duration) {
	e.mu.Lock()
	e.down, e.history = true, nil
	for _, c := range e.containers {
		e.endLocked(c, 255)
	}
	e.mu.Unlock()
	e.cut()
	time.Sleep(after)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.down, e.began = false, e.stamp()
}

// monthsStream is an event stream.
type monthsStream struct {
	ctx    context.Context
	events chan runtime.Event // closed with the connection
}

func (s *monthsStream) Next() (runtime.Event, error) {
	select {
	case ev, open := <-s.events:
		if !open {
			return ev, errMonthsDown
		}
		return ev, nil
	case <-s.ctx.Done():
		return runtime.Event{}, s.ctx.Err()
	}
}
