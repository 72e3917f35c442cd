package supervisor

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"healthd/runtime"
)

// actor is who did something to a container. Daemons have numbers from 1.
type actor int

const (
	theProcess  actor = 0
	theOperator actor = -1
	theEngine   actor = -2
)

const killSignal = 9

// bringsBack is how long healthd waits for an engine to start what has a policy of its own.
const bringsBack = 10 * time.Second

// chaosEngine is an engine in memory that behaves as Docker does, with the orders of
// events that were measured there. Its methods are called with the world's lock held,
// but for those that take time.
type chaosEngine struct {
	w        *chaos
	up       bool
	closing  bool // it shuts down
	sweeping bool // it starts, and ends what it finds
	live     bool // its setting live-restore, in its present life
	cut      bool // it goes on, but cannot be reached
	boot     int  // counts its starts
	ended    chan struct{}
	all      []*chaosContainer
	memory   []runtime.Event
	forgot   bool // some event was pushed out of memory
	streams  []*chaosStream
	clock    time.Time
	made     int
	since    time.Time // of its present life
	mute     bool      // events of its end were lost
}

// chaosContainer is one container, with the truth about it.
type chaosContainer struct {
	kind   *chaosKind
	c      runtime.Container
	run    int
	dead   chan struct{} // closed when the present run has ended
	gone   bool
	manual bool // stopped through the engine, whose own policy is off until a start
	tries  int  // of the engine's own policy

	hung, unready    bool // what its process answers
	pausedAt, heldAt time.Time

	chaosTruth
}

var errAway = errors.New("cannot connect to the engine")

const chaosMemory = 256

// stamp is now by the engine's clock, which never shows the same time twice.
func (e *chaosEngine) stamp() time.Time {
	e.clock = later(time.Now(), e.clock.Add(1))
	return e.clock
}

func (e *chaosEngine) find(id string) *chaosContainer {
	for _, c := range e.all {
		if c.c.ID == id && !c.gone {
			return c
		}
	}
	return nil
}

// named returns the newest container of that kind, nil when it was removed.
func (e *chaosEngine) named(k *chaosKind) *chaosContainer {
	for _, c := range slices.Backward(e.all) {
		if c.kind == k && !c.gone {
			return c
		}
	}
	return nil
}

// create makes a container of a kind.
func (e *chaosEngine) create(k *chaosKind) *chaosContainer {
	e.made++
	c := &chaosContainer{kind: k, c: runtime.Container{
		Runtime: "docker", ID: fmt.Sprintf("%04x%s", 0xa000+e.made, k.name), Name: k.name, Image: "image", Labels: k.labels,
		State: runtime.Created, Address: "10.0.0.1", Network: "bridge", StopTimeout: k.stopTimeout, StopSignal: "",
		RestartPolicy: k.enginePolicy, AutoRemove: k.rm,
	}}
	c.c.Fingerprint = hintOf(&c.c)
	for _, old := range e.all {
		if old.kind == k {
			c.failures = old.failures // the back-off is its identity's
		}
	}
	e.all = append(e.all, c)
	e.emit(c, runtime.ActionCreate, 0)
	return c
}

func hintOf(c *runtime.Container) string {
	if c.State.Alive() {
		return c.Address
	}
	return fmt.Sprint("exit ", c.ExitCode)
}

// begin starts a run.
func (e *chaosEngine) begin(c *chaosContainer, by actor) {
	c.run++
	c.dead, c.manual, c.hung = make(chan struct{}), false, false
	c.c.State, c.c.StartedAt = runtime.Running, e.stamp()
	c.c.Fingerprint = hintOf(&c.c)
	e.w.began(c, by)
	e.emit(c, runtime.ActionStart, 0)
	if c.kind.lives > 0 {
		e.exitAfter(c, e.w.between("lives", c.c.ID, c.kind.lives/4, c.kind.lives), c.kind.code)
	}
}

// exitAfter lets the present run end by itself, if it still goes on then.
func (e *chaosEngine) exitAfter(c *chaosContainer, d time.Duration, code int) {
	run := c.run
	e.w.after(d, func() {
		if c.run == run && c.c.State.Alive() && !e.w.calm {
			e.end(c, code, theProcess)
		}
	})
}

// end ends the present run. by is who wanted it.
func (e *chaosEngine) end(c *chaosContainer, code int, by actor) {
	c.c.State, c.c.FinishedAt, c.c.ExitCode = runtime.Exited, e.stamp(), code
	c.c.Fingerprint = hintOf(&c.c)
	close(c.dead)
	e.w.endedRun(c, by)
	e.emit(c, runtime.ActionDie, code)
	switch {
	case c.kind.rm && e.up:
		e.w.after(e.w.between("rm", c.c.ID, time.Millisecond, 20*time.Millisecond), func() { e.remove(c) })
	case c.kind.enginePolicy == "always" && !c.manual && e.up && !e.closing:
		c.c.State = runtime.Restarting
		e.bringBack(c, 100*time.Millisecond<<min(c.tries, 6))
		c.tries++
	}
}

// bringBack starts a container by the engine's own policy.
func (e *chaosEngine) bringBack(c *chaosContainer, d time.Duration) {
	boot, run := e.boot, c.run
	e.w.after(d, func() {
		if e.up && !e.closing && e.boot == boot && c.run == run && !c.gone && !c.c.State.Alive() && !c.manual {
			e.begin(c, theEngine)
		}
	})
}

func (e *chaosEngine) remove(c *chaosContainer) {
	if c.gone {
		return
	}
	c.gone = true
	e.w.logf("%s is removed", c.kind.name)
	e.emit(c, runtime.ActionDestroy, 0)
}

// signal sends a signal. Who sends one that stops is to blame for the end.
func (e *chaosEngine) signal(c *chaosContainer, signal int, by actor) {
	e.w.signalled(c, signal, by, e.emit(c, runtime.ActionKill, signal))
	switch {
	case signal == 1:
	case signal == killSignal:
		e.dieOf(c, e.w.between("kill", c.c.ID, time.Millisecond, 5*time.Millisecond), 137)
	case c.c.State == runtime.Running && !c.kind.ignoresTerm:
		e.dieOf(c, c.kind.takes+e.w.between("term", c.c.ID, 1, 20*time.Millisecond), c.kind.termCode)
	}
}

func (e *chaosEngine) dieOf(c *chaosContainer, d time.Duration, code int) {
	run := c.run
	e.w.after(d, func() {
		if c.run == run && c.c.State.Alive() {
			e.end(c, code, c.blame())
		}
	})
}

// stop does what docker stop does. It takes its time, and the lock when it needs it.
func (e *chaosEngine) stop(id string, grace time.Duration, by actor) error {
	e.w.mu.Lock()
	c, boot, ended := e.find(id), e.boot, e.ended
	switch {
	case !e.up:
		e.w.mu.Unlock()
		return errAway
	case c == nil:
		e.w.mu.Unlock()
		return fmt.Errorf("stop %s: %w", id, runtime.ErrNotFound)
	case !c.c.State.Alive():
		e.w.mu.Unlock()
		return nil
	}
	run, dead := c.run, c.dead
	c.manual = true
	e.signal(c, 15, by)
	e.w.mu.Unlock()
	if !await(dead, ended, grace) {
		e.w.mu.Lock()
		if c.run == run && c.c.State.Alive() && e.up && e.boot == boot {
			e.signal(c, killSignal, by)
		}
		e.w.mu.Unlock()
		await(dead, ended, time.Minute)
	}
	e.w.mu.Lock()
	defer e.w.mu.Unlock()
	if !e.up || e.boot != boot {
		return errAway
	}
	e.emit(c, runtime.ActionStop, 0)
	return nil
}

// await waits for the end of a run, or of the engine, and says whether one came.
func await(dead, ended <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(max(d, time.Millisecond))
	defer timer.Stop()
	select {
	case <-dead:
		return true
	case <-ended:
		return true
	case <-timer.C:
		return false
	}
}

// start does what docker start does.
func (e *chaosEngine) start(id string, by actor) error {
	time.Sleep(e.w.between("start", id, 5*time.Millisecond, 50*time.Millisecond))
	e.w.mu.Lock()
	defer e.w.mu.Unlock()
	c := e.find(id)
	switch {
	case !e.up || e.closing:
		return errAway
	case c == nil:
		return fmt.Errorf("start %s: %w", id, runtime.ErrNotFound)
	case !c.c.State.Alive() && c.c.State != runtime.Restarting:
		e.begin(c, by)
	}
	return nil
}

// remembers says whether the engine could still tell of the event of that moment.
func (e *chaosEngine) remembers(at time.Time) bool {
	return slices.ContainsFunc(e.memory, func(ev runtime.Event) bool { return ev.Time.Equal(at) })
}

// emit tells an event: to those who listen now, and to those who ask later.
func (e *chaosEngine) emit(c *chaosContainer, action runtime.Action, number int) time.Time {
	ev := runtime.Event{ID: c.c.ID, Action: action, Time: e.stamp(), Name: c.c.Name, Labels: c.c.Labels}
	switch action {
	case runtime.ActionKill:
		ev.Signal = number
	case runtime.ActionDie:
		ev.ExitCode = number
	}
	e.w.logf("%s: %s %d", c.kind.name, action, number)
	if !e.up && !e.sweeping {
		return ev.Time
	}
	e.memory = append(e.memory, ev)
	if len(e.memory) > e.w.memoryCap {
		e.memory, e.forgot = e.memory[1:], true
	}
	for _, s := range e.streams {
		if s.ctx.Err() != nil || s.d.isDark() {
			continue
		}
		if e.w.roll("loss", c.c.ID+string(action), 1000) < e.w.loss {
			e.w.logf("… which %s is never told", s.d.name())
			c.lossAt = time.Now()
			if e.closing {
				e.mute = true
				e.w.muddled(nil, "events of the engine's end are lost")
			}
			continue
		}
		s.deliver(ev)
	}
	return ev.Time
}
