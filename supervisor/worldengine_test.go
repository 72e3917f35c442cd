package supervisor

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"healthd/runtime"
)

// actor says who did something to a container. A daemon is its number, from 1 on.
type actor int

const (
	byProcess  actor = 0
	byOperator actor = -1
	byEngine   actor = -2
)

const killSignal = 9

// engineRestartWait is how long healthd waits for an engine to start a container that
// has a restart policy of the engine.
const engineRestartWait = 15 * time.Second

// worldEngine is an engine in memory that behaves as Docker does. It sends its events in
// the order that was measured there. Methods that take no time are called with the lock
// held.
type worldEngine struct {
	host             *world
	up               bool
	shuttingDown     bool
	killingLeftovers bool // it starts, and stops the containers that outlived its last life
	liveRestore      bool // the setting of its present life
	unreachable      bool // it runs, but nobody can connect
	life             int  // counts its starts
	ended            chan struct{}
	containers       []*worldContainer
	byID             map[string]*worldContainer
	history          []runtime.Event
	streams          []*worldStream
	clock            time.Time     // the newest time that it showed
	clockOffset      time.Duration // how far it is ahead
	clockSetAt       time.Time
	created, events  int           // so far
	failLooks        int           // inspections to come that fail
	order            map[int64]int // numbers of all events ever, by their times in nanoseconds
	lifeBegan        int           // number of the newest event of an earlier life
	began            time.Time     // by its clock: when it made its default network
	endEventsLost    bool          // events of its shutdown were lost
}

// worldContainer is one container, and what the test knows about it.
type worldContainer struct {
	template     *worldTemplate
	info         runtime.Container
	run          int
	beganAt      time.Time     // start of that run
	runEnded     chan struct{} // closed when the present run has ended
	gone         bool
	stoppedByAPI bool // by an API call: the engine's own restart policy is off until a start
	engineTries  int  // restarts by the engine's own policy

	hung, notReady    bool // what its process answers
	closing           bool // it has got SIGTERM
	crashes           int  // runs to come that end soon
	pausedAt          time.Time
	heldAt, heldUntil time.Time

	worldRecord
}

var errUnreachable = errors.New("cannot connect to the engine")

const worldHistory = 256

// now is the present time by the engine's clock.
func (e *worldEngine) now() time.Time { return time.Now().Add(e.clockOffset) }

// stamp is now, but never the same time twice, as long as nobody sets the clock, and no time
// of an event.
func (e *worldEngine) stamp() time.Time {
	at := e.now()
	if d := at.Sub(e.clock); d <= 0 && d > -time.Millisecond {
		at = e.clock.Add(1)
	}
	for e.order[at.UnixNano()] > 0 {
		at = at.Add(1)
	}
	e.clock = at
	return at
}

// setClock sets the engine's clock.
func (e *worldEngine) setClock(r *rand.Rand) {
	steps := []time.Duration{50 * time.Millisecond, time.Second, 5 * time.Second, time.Minute, 10 * time.Minute, 2 * time.Hour, 10000 * time.Hour}
	step := time.Duration(1 + r.Int64N(int64(steps[r.IntN(len(steps))])))
	switch r.IntN(5) {
	case 0:
		e.clockOffset = 0
	case 1, 2:
		e.clockOffset += step
	default:
		e.clockOffset -= step
	}
	e.clockSetAt = time.Now()
	e.host.logf("the engine's clock is now %v ahead", e.clockOffset)
}

func (e *worldEngine) find(id string) *worldContainer { return e.byID[id] }

// newestOf returns the newest container of that template, nil when it was removed.
func (e *worldEngine) newestOf(t *worldTemplate) *worldContainer {
	for _, c := range slices.Backward(e.containers) {
		if c.template == t {
			return c
		}
	}
	return nil
}

// create creates a container.
func (e *worldEngine) create(t *worldTemplate) *worldContainer {
	e.created++
	id, name := fmt.Sprintf("%08x%056x", 0xa0000000+e.created, 0), t.name
	if t.hostile {
		name = e.host.tenant.takeName(id)
	}
	c := &worldContainer{template: t, info: runtime.Container{
		Runtime: "docker", ID: id, Name: name, Image: cmp.Or(t.image, "image"), Labels: t.labels,
		State: runtime.Created, Address: fmt.Sprintf("10.%d.%d.%d", e.created>>16&0xff, e.created>>8&0xff, e.created&0xff), Network: "bridge",
		StopTimeout: t.stopTimeout, RestartPolicy: t.enginePolicy, AutoRemove: t.autoRemove, NetworkOwner: t.networkOwner, HasHealthcheck: true,
	}}
	c.info.Fingerprint = fingerprintOf(&c.info)
	c.failures = t.failures // back-off belongs to the identity
	e.containers, e.byID[c.info.ID] = append(e.containers, c), c
	e.emit(c, runtime.ActionCreate, 0)
	return c
}

func fingerprintOf(c *runtime.Container) string {
	if c.State.Alive() {
		return c.Address
	}
	return fmt.Sprint("exit ", c.ExitCode)
}

// beginRun starts a run.
func (e *worldEngine) beginRun(c *worldContainer, by actor) {
	c.run++
	c.runEnded, c.stoppedByAPI, c.hung, c.closing = make(chan struct{}), false, false, false
	c.info.State, c.info.StartedAt, c.info.Error, c.beganAt = runtime.Running, e.stamp(), "", time.Now()
	c.info.Fingerprint = fingerprintOf(&c.info)
	e.host.noteRunBegan(c, by)
	e.emit(c, runtime.ActionStart, 0)
	if c.crashes > 0 {
		c.crashes--
		e.exitAfter(c, 20*time.Second, 1)
	}
	if c.template.maxLife > 0 {
		e.exitAfter(c, e.host.randomDuration("lives", c.info.ID, c.template.maxLife/4, c.template.maxLife), c.template.exitCode)
	}
}

// exitAfter ends the present run after d, if it still runs then.
func (e *worldEngine) exitAfter(c *worldContainer, d time.Duration, code int) {
	run := c.run
	e.host.afterFunc(d, func() {
		if c.run == run && c.info.State.Alive() && !e.host.quiet {
			e.endRun(c, code, byProcess)
		}
	})
}

// endRun ends the present run. by says who wanted it.
func (e *worldEngine) endRun(c *worldContainer, code int, by actor) {
	c.info.State, c.info.FinishedAt, c.info.ExitCode = runtime.Exited, e.stamp(), code
	c.info.Fingerprint = fingerprintOf(&c.info)
	close(c.runEnded)
	e.host.noteRunEnded(c, by)
	e.emit(c, runtime.ActionDie, code)
	switch {
	case c.template.autoRemove && e.up:
		e.host.afterFunc(e.host.randomDuration("rm", c.info.ID, time.Millisecond, 20*time.Millisecond), func() { e.remove(c) })
	case c.template.enginePolicy == "always" && !c.stoppedByAPI && e.up && !e.shuttingDown:
		c.info.State = runtime.Restarting
		e.restartByPolicy(c, 100*time.Millisecond<<min(c.engineTries, 6))
		c.engineTries++
	}
}

// restartByPolicy starts a container by the engine's own restart policy.
func (e *worldEngine) restartByPolicy(c *worldContainer, d time.Duration) {
	boot, run := e.life, c.run
	e.host.afterFunc(d, func() {
		switch {
		case !e.up || e.shuttingDown || e.life != boot || c.run != run || c.gone || c.info.State.Alive() || c.stoppedByAPI:
		case e.host.callsFail && e.host.roll("refuses its own start of", c.info.ID, 8) == 0: // and tries no more, and tells nobody
			c.info.State, c.info.Error = runtime.Exited, "refused"
			e.host.noteRefused(c)
		default:
			e.beginRun(c, byEngine)
		}
	})
}

// giveUpStart gives up a start by the engine's own policy, as an operator wants it. Docker sends no signal then.
func (e *worldEngine) giveUpStart(c *worldContainer) {
	c.stoppedByAPI, c.info.State = true, runtime.Exited
	e.host.noteGivenUp(c)
}

func (e *worldEngine) remove(c *worldContainer) {
	if c.gone {
		return
	}
	c.gone, c.template.failures = true, c.failures
	delete(e.byID, c.info.ID)
	e.containers = slices.DeleteFunc(slices.Clone(e.containers), func(o *worldContainer) bool { return o == c })
	e.host.logf("%s is removed", c.template.name)
	e.emit(c, runtime.ActionDestroy, 0)
}

// signal sends a signal. Whoever sends one that stops the process has ended the run.
func (e *worldEngine) signal(c *worldContainer, signal int, by actor) {
	e.host.noteSignal(c, signal, by, e.emit(c, runtime.ActionKill, signal))
	switch {
	case signal == 1:
	case signal == killSignal:
		e.endAfterSignal(c, e.host.randomDuration("kill", c.info.ID, time.Millisecond, 5*time.Millisecond), 137)
	case c.info.State == runtime.Running && !c.template.ignoresTerm:
		c.closing = c.template.closesOnTerm
		e.endAfterSignal(c, c.template.stopTime+e.host.randomDuration("term", c.info.ID, 1, 20*time.Millisecond), c.template.termCode)
	}
}

func (e *worldEngine) endAfterSignal(c *worldContainer, d time.Duration, code int) {
	run := c.run
	e.host.afterFunc(d, func() {
		if c.run == run && c.info.State.Alive() {
			e.endRun(c, code, c.whoEnded())
		}
	})
}

// stop does what docker stop does. It takes time, and takes the lock when it needs it.
func (e *worldEngine) stop(id string, grace time.Duration, by actor) error {
	e.host.mu.Lock()
	c, boot, ended := e.find(id), e.life, e.ended
	switch {
	case !e.up:
		e.host.mu.Unlock()
		return errUnreachable
	case c == nil:
		e.host.mu.Unlock()
		return fmt.Errorf("stop %s: %w", id, runtime.ErrNotFound)
	case c.info.State == runtime.Restarting:
		e.giveUpStart(c)
		e.emit(c, runtime.ActionStop, 0)
		e.host.mu.Unlock()
		return nil
	case !c.info.State.Alive():
		e.host.mu.Unlock()
		return nil
	}
	run, dead := c.run, c.runEnded
	c.stoppedByAPI = true
	e.signal(c, 15, by)
	e.host.noteStop(c, grace, by)
	e.host.mu.Unlock()
	if !await(dead, ended, grace) {
		e.host.mu.Lock()
		if c.run == run && c.info.State.Alive() && e.up && e.life == boot {
			e.signal(c, killSignal, by)
		}
		e.host.mu.Unlock()
		await(dead, ended, time.Minute)
	}
	e.host.mu.Lock()
	defer e.host.mu.Unlock()
	if !e.up || e.life != boot {
		return errUnreachable
	}
	if by > 0 && c.run == run {
		c.stopsDone++
	}
	e.emit(c, runtime.ActionStop, 0)
	return nil
}

// await waits until the run or the engine has ended. It returns false after d.
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
func (e *worldEngine) start(id string, by actor) error {
	time.Sleep(e.host.randomDuration("start", id, 5*time.Millisecond, 50*time.Millisecond))
	e.host.mu.Lock()
	defer e.host.mu.Unlock()
	c := e.find(id)
	switch {
	case !e.up || e.shuttingDown:
		return errUnreachable
	case c == nil:
		return fmt.Errorf("start %s: %w", id, runtime.ErrNotFound)
	case !c.info.State.Alive() && c.info.State != runtime.Restarting:
		e.beginRun(c, by)
	}
	return nil
}

// hasEvent says whether the engine still has the event of that time.
func (e *worldEngine) hasEvent(at time.Time) bool {
	return slices.ContainsFunc(e.history, func(ev runtime.Event) bool { return ev.Time.Equal(at) })
}

// emit sends an event to all streams and puts it into the history.
func (e *worldEngine) emit(c *worldContainer, action runtime.Action, number int) time.Time {
	ev := runtime.Event{ID: c.info.ID, Action: action, Time: e.stamp(), Name: c.info.Name, Image: c.info.Image, Labels: c.info.Labels}
	switch action {
	case runtime.ActionKill:
		ev.Signal = number
	case runtime.ActionDie:
		ev.ExitCode = number
	}
	if c.template.hostile && action == runtime.ActionKill {
		ev.Signal = runtime.UnknownSignal // a label hides it
	}
	e.host.logf("%s: %s %d", c.template.name, action, number)
	if !e.up && !e.killingLeftovers {
		return ev.Time
	}
	e.events++
	e.order[ev.Time.UnixNano()] = e.events
	e.history = append(e.history, ev)
	if len(e.history) > e.host.historyCap {
		if e.host.forgets {
			delete(e.order, e.history[0].Time.UnixNano())
		}
		e.history = e.history[1:]
	}
	for _, s := range e.streams {
		if s.ctx.Err() != nil || s.d.isKilled() {
			continue
		}
		if e.host.roll("loss", c.info.ID+string(action), 1000) < e.host.lossPerMille {
			e.host.logf("… which %s never gets", s.d.name())
			c.lossAt = time.Now()
			if e.shuttingDown {
				e.endEventsLost = true
				e.host.makeEngineEndUncertain(nil, "events of the engine's shutdown are lost")
			}
			continue
		}
		s.deliver(ev)
	}
	return ev.Time
}
