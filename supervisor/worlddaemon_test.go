package supervisor

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"healthd/runtime"
	"healthd/supervisor/core"
)

// worldDaemon is one daemon: a Supervisor and a Watcher, and their connections to the
// host. Nothing that a killed daemon still does has any effect.
type worldDaemon struct {
	host            *world
	number          actor
	killed          chan struct{} // closed by kill
	sup             *Supervisor
	watcher         *runtime.Watcher
	stop            context.CancelFunc // is SIGTERM
	ended           chan struct{}      // Run has returned
	refresh         chan struct{}
	stopRequestedAt time.Time // when it got SIGTERM
	stoppedEarly    bool      // that was before its first list
	loaded          map[string]core.Memory
	disconnectedAt  time.Time // when the newest connection ended
	subscribed      bool      // the first subscription was made
	synced          bool
	everSynced      bool
	cutOff          bool // its connection broke since it was last synced

	calling       map[string]string // calls under way, by container
	pendingWrites []func(*worldDisk)
	pendingIDs    []string // what these writes are about
	flushed       chan struct{}
}

// worldDisk is what outlives a daemon.
type worldDisk struct {
	memories map[string]core.Memory
	seen     time.Time
}

// bootDaemon starts a daemon. It is called without the lock.
func (h *world) bootDaemon(rebooted bool) {
	var booted []string
	if rebooted {
		booted = []string{"docker"}
	}
	h.mu.Lock()
	h.daemons++
	d := &worldDaemon{
		host: h, number: actor(h.daemons), killed: make(chan struct{}), ended: make(chan struct{}), refresh: make(chan struct{}, 1),
		calling: make(map[string]string), loaded: maps.Clone(h.disk.memories),
	}
	past := make([]*core.Memory, 0, len(h.disk.memories))
	for _, id := range slices.Sorted(maps.Keys(h.disk.memories)) {
		m := h.fromDisk(h.disk.memories[id])
		past = append(past, &m)
		if h.one {
			h.logf("    remembered: %s alive %v stopping %v restart %v killed %v stopped %v maybe by the engine %v held %v", m.Name, m.Engine.State.Alive(), m.Action.Stopping, m.Action.Restart, h.sinceStart(m.Ending.First), m.Ending.By == core.EndedByOperator, m.Ending.MaybeEngine, m.Lasting.Held())
		}
	}
	seen, specs := h.disk.seen, h.specs
	h.logf("%s starts, with events seen up to %v", d.name(), h.sinceStart(seen))
	c := Config{
		Resolve: resolverFor(specs), Runtimes: map[string]Restarter{"docker": d}, Prober: d, Journal: d,
		Guard: h.guard, Store: d, Memories: past, Rebooted: booted, Shutdown: h.shutdown,
	}
	if h.neverReached {
		c.Runtimes["away"] = d
	}
	d.watcher = &runtime.Watcher{
		Name: "docker", Source: d, Since: seen, Relist: worldRelist, Refresh: d.refresh,
		KnownRun: func(id string) (runtime.Run, bool) { return d.loadedOf(id).Run.ID, d.loadedOf(id).Engine.State.Alive() },
		Wanted: func(t runtime.Traits) bool {
			h.mu.Lock()
			defer h.mu.Unlock()
			spec, _ := resolverFor(h.specs)(t)
			return spec != nil
		},
	}
	if h.turns != nil {
		c.Places = placesOfDaemon{h.turns.places, d}
	}
	if h.assemble != nil {
		h.assemble(d, &c, d.watcher)
	}
	d.sup = New(c)
	if h.roll("slices", d.name(), 2) == 0 {
		d.sup.sliceSteps = 1 // as on a host with more containers than fit into a slice
	}
	ctx, cancel := context.WithCancel(context.Background())
	d.stop, h.daemon = cancel, d
	h.noteDaemonStart(d)
	if h.turns != nil {
		h.turns.begin(d)
	}
	h.mu.Unlock()
	watching, stopWatching := context.WithCancel(context.Background())
	var watched sync.WaitGroup
	watched.Go(func() { _ = d.watcher.Run(watching, d.deliver) })
	h.wg.Go(func() {
		if err := d.sup.Run(ctx); err != nil && !d.isKilled() {
			h.locked(func() { h.fail("%s ends: %v", d.name(), err) })
		}
		stopWatching()
		d.flush()
		watched.Wait()
		close(d.ended)
	})
}

// stamp is the present moment by the host's clocks.
func (h *world) stamp() core.Stamp {
	return core.Stamp{Wall: time.Now(), Monotonic: time.Since(h.startedAt), Boot: fmt.Sprint("boot ", h.boots)}
}

// loadedOf is what the daemon before knew of a container; zero: nothing.
func (d *worldDaemon) loadedOf(id string) core.Kept {
	if m, ok := d.loaded[id]; ok {
		return *m.Kept
	}
	return core.Kept{}
}

// fromDisk returns what a daemon reads of a memory. If the clock was set at the boot, what
// was written before is by another clock.
func (h *world) fromDisk(m core.Memory) core.Memory {
	now := h.stamp()
	if written := m.Written; written.Boot != now.Boot {
		moved := written
		moved.Wall = written.Wall.Add(-h.wallStep)
		m = m.FromFile(moved)
		m.Written = moved
	}
	return m.FromFile(now)
}

const worldRelist = 30 * time.Second

func resolverFor(specs map[string]*core.Spec) Resolver {
	return func(t runtime.Traits) (*core.Spec, error) {
		return specs[cmp.Or(t.Labels[tenantLabel], t.Name)], nil
	}
}

func (d *worldDaemon) name() string { return fmt.Sprintf("daemon %d", d.number) }

func (d *worldDaemon) isKilled() bool {
	select {
	case <-d.killed:
		return true
	default:
		return false
	}
}

// kill ends a daemon at once. Its goroutines end by themselves and have no effect.
func (d *worldDaemon) kill() {
	d.host.mu.Lock()
	d.host.logf("%s is killed", d.name())
	close(d.killed)
	for _, id := range d.pendingIDs {
		if c := d.host.engine.find(id); c != nil {
			c.unstoredRun = c.run
		}
	}
	d.host.noteDisconnect()
	if d.host.daemon == d {
		d.host.daemon = nil
	}
	d.host.mu.Unlock()
	d.stop()
}

// deliver hands an update of the Watcher to the Supervisor.
func (d *worldDaemon) deliver(ctx context.Context, u runtime.Update) error {
	if d.isKilled() {
		return errKilled
	}
	d.host.mu.Lock()
	switch u.Kind {
	case runtime.Lost:
		d.synced = false
		d.host.logf("%s lost the engine: %v", d.name(), u.Err)
		if d.everSynced {
			d.cutOff = true
		}
		d.host.noteDisconnect()
	case runtime.Synced:
		if !d.synced {
			d.host.logf("%s is synced", d.name())
			d.host.disturbedAt, d.host.connectedSince = time.Now(), time.Now()
		}
		d.synced, d.everSynced, d.cutOff = true, true, false
		for _, c := range d.host.engine.containers {
			if d.sup.Board().ByID(c.info.ID) == nil {
				c.makeUncertain("the daemon could not inspect it when it connected")
				c.uncertainRun = c.run
			}
		}
	case runtime.Connected:
		d.host.logf("%s connects, replay %d", d.name(), u.Replay)
		d.host.noteConnected(d)
		for _, c := range d.host.engine.containers {
			if c.why == startGivenUp && u.Replay == runtime.ReplayRestart {
				c.expect, c.why = either, "healthd takes its engine for one that has restarted since"
			}
		}
	}
	d.host.mu.Unlock()
	err := d.sup.Deliver(ctx, u)
	if d.host.turns != nil {
		d.host.turns.look(d)
	}
	return err
}

// Record implements Journal.
func (d *worldDaemon) Record(e core.Event) {
	if d.isKilled() {
		return
	}
	if d.host.recorded != nil {
		d.host.recorded(d, e)
	}
	d.host.locked(func() {
		if d.host.turns != nil {
			d.host.turns.recorded(d, e)
		}
		if d.host.tenant == nil || !d.host.tenant.record(e) {
			d.host.logf("    %s %s %q", d.name(), e.Reason, e.Message)
		}
	})
}

// Remember implements Store.
func (d *worldDaemon) Remember(m *core.Memory) <-chan struct{} {
	return d.write(m.ID, func(disk *worldDisk) { disk.memories[m.ID] = m.ForFile(d.host.stamp()) })
}

// Forget implements Store.
func (d *worldDaemon) Forget(id string) {
	d.write(id, func(disk *worldDisk) { delete(disk.memories, id) })
}

// SetSeen implements Store.
func (d *worldDaemon) SetSeen(_ string, at time.Time) {
	d.write("seen", func(disk *worldDisk) { disk.seen = at })
}

// write puts a change onto the disk, in order, a little later. Sometimes the disk hangs.
func (d *worldDaemon) write(what string, op func(*worldDisk)) <-chan struct{} {
	d.host.mu.Lock()
	defer d.host.mu.Unlock()
	d.pendingWrites, d.pendingIDs = append(d.pendingWrites, op), append(d.pendingIDs, what)
	if d.flushed == nil {
		d.flushed = make(chan struct{})
		lag := d.host.randomDuration("disk", what, time.Millisecond, 20*time.Millisecond)
		if d.host.roll("slow disk", what, 200) == 0 {
			lag = 3 * time.Second
		}
		time.AfterFunc(lag, d.flush)
	}
	return d.flushed
}

func (d *worldDaemon) flush() {
	d.host.mu.Lock()
	defer d.host.mu.Unlock()
	if d.isKilled() || d.flushed == nil {
		return
	}
	for _, op := range d.pendingWrites {
		op(&d.host.disk)
	}
	close(d.flushed)
	d.pendingWrites, d.pendingIDs, d.flushed = nil, nil, nil
}

// Stop implements Restarter.
func (d *worldDaemon) Stop(ctx context.Context, id string, grace time.Duration) error {
	done, err := d.beginCall("stop", id)
	if err != nil {
		return err
	}
	defer done()
	return d.call(ctx, "stop", id, grace+30*time.Second, func() error { return d.host.engine.stop(id, grace, d.number) })
}

// Start implements Restarter.
func (d *worldDaemon) Start(ctx context.Context, id string) error {
	done, err := d.beginCall("start", id)
	if err != nil {
		return err
	}
	defer done()
	err = d.call(ctx, "start", id, 30*time.Second, func() error { return d.host.engine.start(id, d.number) })
	if err != nil {
		d.host.mu.Lock()
		defer d.host.mu.Unlock()
		if c := d.host.engine.find(id); c != nil {
			c.failures += 2
		}
	}
	return err
}

// beginCall checks a call as it begins.
func (d *worldDaemon) beginCall(what, id string) (done func(), err error) {
	d.host.mu.Lock()
	defer d.host.mu.Unlock()
	if d.isKilled() {
		return nil, errKilled
	}
	c := d.host.engine.find(id)
	if c == nil {
		return nil, fmt.Errorf("%s %s: %w", what, id, runtime.ErrNotFound)
	}
	d.host.logf("%s calls: %s %s", d.name(), what, c.template.name)
	if other := d.calling[id]; other != "" {
		d.host.fail("%s: %s calls %s while %s is under way", c.template.name, d.name(), what, other)
	}
	d.calling[id] = what
	d.host.checkCall(d, c, what)
	return func() {
		d.host.mu.Lock()
		defer d.host.mu.Unlock()
		delete(d.calling, id)
		c.disturbedAt = time.Now()
	}, nil
}

// call takes its time to reach the engine, has the engine carry it out, and takes its
// time to return. A killed daemon does not see the outcome; its call may still reach the
// engine.
func (d *worldDaemon) call(ctx context.Context, what, id string, most time.Duration, do func() error) error {
	h := d.host
	if err := d.wait(ctx, h.randomDuration(what+" there", id, time.Millisecond, 30*time.Millisecond)); err != nil && h.roll(what+" survives", id, 2) == 0 {
		return err
	}
	h.mu.Lock()
	outcome := h.callOutcome(what, id)
	reachable := h.reachable()
	h.mu.Unlock()
	switch {
	case !reachable:
		return errUnreachable
	case outcome == callFails:
		return fmt.Errorf("cannot %s: no space left on device", what)
	case outcome == callHangs:
		_ = d.wait(ctx, most)
		return context.DeadlineExceeded
	}
	result := make(chan error, 1)
	h.wg.Go(func() { result <- do() })
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case err := <-result:
		if outcome == replyLost {
			h.mu.Lock()
			h.logf("the outcome of %s is lost", what)
			h.mu.Unlock()
			return errUnreachable
		}
		return err
	case <-timer.C:
		return context.DeadlineExceeded
	case <-d.killed:
		return errKilled
	}
}
