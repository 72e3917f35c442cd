package supervisor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"healthd/runtime"
	"healthd/supervisor/core"
)

// chaosDaemon is one incarnation of healthd: a Supervisor and a Watcher, and all that
// they have to do with the world. Once it is killed nothing of that has an effect any
// more.
type chaosDaemon struct {
	w           *chaos
	n           actor
	dark        chan struct{} // closed when it is killed
	sup         *Supervisor
	stop        context.CancelFunc // SIGTERM
	ended       chan struct{}      // Run has returned
	refresh     chan struct{}
	quitAt      time.Time // of SIGTERM
	bornWith    map[string]core.Memory
	connectedAt time.Time // end of the newest connection
	subscribed  bool      // once
	synced      bool
	everSynced  bool

	calling map[string]string // calls under way, by container
	ops     []func(*chaosDisk)
	kept    chan struct{}
}

// chaosDisk is what outlives a daemon.
type chaosDisk struct {
	memories map[string]core.Memory
	seen     time.Time
}

// boot starts a daemon. It is called without the lock.
func (w *chaos) bootDaemon(rebooted bool) {
	w.mu.Lock()
	w.daemons++
	d := &chaosDaemon{
		w: w, n: actor(w.daemons), dark: make(chan struct{}), ended: make(chan struct{}), refresh: make(chan struct{}, 1),
		calling: make(map[string]string), bornWith: maps.Clone(w.disk.memories),
	}
	past := make([]core.Memory, 0, len(w.disk.memories))
	for _, id := range slices.Sorted(maps.Keys(w.disk.memories)) {
		past = append(past, w.disk.memories[id])
		if m := w.disk.memories[id]; *seedFlag > 0 {
			w.logf("    remembered: %s alive %v stopping %v restart %v killed %v stopped %v doubtful %v held %v", m.Name, m.Engine.State.Alive(), m.Action.Stopping, m.Action.Restart, w.at(m.Ending.First), m.Ending.By == core.EndedByOperator, m.Ending.MaybeEngine, m.Lasting.Held)
		}
	}
	seen, specs := w.disk.seen, w.specs
	w.logf("%s begins, with events seen up to %v", d.name(), w.at(seen))
	d.sup = New(Config{
		Resolve: resolverFor(specs), Runtimes: map[string]Restarter{"docker": d}, Prober: d, Journal: d,
		Guard: w.guard, Store: d, Memories: past, Rebooted: rebooted,
	})
	ctx, cancel := context.WithCancel(context.Background())
	d.stop, w.daemon = cancel, d
	w.born(d)
	w.mu.Unlock()
	watching, stopWatching := context.WithCancel(context.Background())
	watcher := runtime.Watcher{
		Name: "docker", Source: d, Since: seen, Relist: chaosRelist, Refresh: d.refresh,
		Wanted: func(name string, _ map[string]string) bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.supervised(name)
		},
	}
	w.wg.Go(func() { _ = watcher.Run(watching, d.hear) })
	w.wg.Go(func() {
		_ = d.sup.Run(ctx)
		stopWatching()
		d.flush()
		close(d.ended)
	})
}

const chaosRelist = 30 * time.Second

func resolverFor(specs map[string]*core.Spec) Resolver {
	return func(name string, _ map[string]string) (*core.Spec, error) { return specs[name], nil }
}

func (d *chaosDaemon) name() string { return fmt.Sprintf("daemon %d", d.n) }

func (d *chaosDaemon) isDark() bool {
	select {
	case <-d.dark:
		return true
	default:
		return false
	}
}

// kill9 ends a daemon at once. What is left of it ends by itself and has no effect.
func (d *chaosDaemon) kill9() {
	d.w.mu.Lock()
	d.w.logf("%s is killed", d.name())
	close(d.dark)
	d.w.silent()
	if d.w.daemon == d {
		d.w.daemon = nil
	}
	d.w.mu.Unlock()
	d.stop()
}

// hear hands an update of the Watcher to the Supervisor.
func (d *chaosDaemon) hear(ctx context.Context, u runtime.Update) error {
	if d.isDark() {
		return errDark
	}
	d.w.mu.Lock()
	switch u.Kind {
	case runtime.Lost:
		d.synced = false
		d.w.logf("%s has lost the engine: %v", d.name(), u.Err)
		d.w.silent()
	case runtime.Synced:
		if !d.synced {
			d.w.logf("%s hears the engine", d.name())
			d.w.troubleAt, d.w.hearing = time.Now(), time.Now()
		}
		d.synced, d.everSynced = true, true
		for _, c := range d.w.engine.all {
			if v, _ := d.sup.Board().Find(c.c.ID); v == nil {
				c.unsure("it could not be inspected when the daemon came")
				c.murky = c.run
			}
		}
	case runtime.Connected:
		d.w.logf("%s connects, replay %d", d.name(), u.Replay)
	}
	d.w.mu.Unlock()
	return d.sup.Deliver(ctx, u)
}

// Record is Journal's.
func (d *chaosDaemon) Record(e core.Event) {
	d.w.mu.Lock()
	defer d.w.mu.Unlock()
	if !d.isDark() {
		d.w.logf("    %s %s %q", d.name(), e.Reason, e.Message)
	}
}

// Remember is Store's.
func (d *chaosDaemon) Remember(m core.Memory) <-chan struct{} {
	return d.keep(m.ID, func(disk *chaosDisk) { disk.memories[m.ID] = m })
}

// Forget is Store's.
func (d *chaosDaemon) Forget(id string) {
	d.keep(id, func(disk *chaosDisk) { delete(disk.memories, id) })
}

// SetSeen is Store's.
func (d *chaosDaemon) SetSeen(_ string, at time.Time) {
	d.keep("seen", func(disk *chaosDisk) { disk.seen = later(disk.seen, at) })
}

// keep puts what is to be kept onto the disk, in order, a little later; now and then
// the disk hangs.
func (d *chaosDaemon) keep(what string, op func(*chaosDisk)) <-chan struct{} {
	d.w.mu.Lock()
	defer d.w.mu.Unlock()
	d.ops = append(d.ops, op)
	if d.kept == nil {
		d.kept = make(chan struct{})
		lag := d.w.between("disk", what, time.Millisecond, 20*time.Millisecond)
		if d.w.roll("slow disk", what, 200) == 0 {
			lag = 3 * time.Second
		}
		time.AfterFunc(lag, d.flush)
	}
	return d.kept
}

func (d *chaosDaemon) flush() {
	d.w.mu.Lock()
	defer d.w.mu.Unlock()
	if d.isDark() || d.kept == nil {
		return
	}
	for _, op := range d.ops {
		op(&d.w.disk)
	}
	close(d.kept)
	d.ops, d.kept = nil, nil
}

// Stop is Restarter's.
func (d *chaosDaemon) Stop(ctx context.Context, id string, grace time.Duration) error {
	done, err := d.enter("stop", id)
	if err != nil {
		return err
	}
	defer done()
	return d.carryOut(ctx, "stop", id, grace+30*time.Second, func() error { return d.w.engine.stop(id, grace, d.n) })
}

// Start is Restarter's.
func (d *chaosDaemon) Start(ctx context.Context, id string) error {
	done, err := d.enter("start", id)
	if err != nil {
		return err
	}
	defer done()
	err = d.carryOut(ctx, "start", id, 30*time.Second, func() error { return d.w.engine.start(id, d.n) })
	if err != nil {
		d.w.mu.Lock()
		defer d.w.mu.Unlock()
		if c := d.w.engine.find(id); c != nil {
			c.failures += 2
		}
	}
	return err
}

// enter checks a call against the truth as it begins.
func (d *chaosDaemon) enter(what, id string) (done func(), err error) {
	d.w.mu.Lock()
	defer d.w.mu.Unlock()
	if d.isDark() {
		return nil, errDark
	}
	c := d.w.engine.find(id)
	if c == nil {
		return nil, fmt.Errorf("%s %s: %w", what, id, runtime.ErrNotFound)
	}
	d.w.logf("%s calls: %s %s", d.name(), what, c.kind.name)
	if other := d.calling[id]; other != "" {
		d.w.fail("%s: %s calls %s while %s is under way", c.kind.name, d.name(), what, other)
	}
	d.calling[id] = what
	d.w.called(d, c, what)
	return func() {
		d.w.mu.Lock()
		defer d.w.mu.Unlock()
		delete(d.calling, id)
		c.troubleAt = time.Now()
	}, nil
}

// carryOut lets a call take its way to the engine, be carried out there, and its
// outcome take its way back. A daemon that is killed does not see the outcome, and
// its call is perhaps on its way already.
func (d *chaosDaemon) carryOut(ctx context.Context, what, id string, most time.Duration, do func() error) error {
	w := d.w
	if err := d.pass(ctx, w.between(what+" there", id, time.Millisecond, 30*time.Millisecond)); err != nil && w.roll(what+" survives", id, 2) == 0 {
		return err
	}
	w.mu.Lock()
	fate := w.fate(what, id)
	reachable := w.reachable()
	w.mu.Unlock()
	switch {
	case !reachable:
		return errAway
	case fate == fateFails:
		return fmt.Errorf("cannot %s: no space left on device", what)
	case fate == fateHangs:
		_ = d.pass(ctx, most)
		return context.DeadlineExceeded
	}
	result := make(chan error, 1)
	w.wg.Go(func() { result <- do() })
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case err := <-result:
		if fate == fateLost {
			w.mu.Lock()
			w.logf("the outcome of %s is lost", what)
			w.mu.Unlock()
			return errAway
		}
		return err
	case <-timer.C:
		return context.DeadlineExceeded
	case <-d.dark:
		return errDark
	}
}
