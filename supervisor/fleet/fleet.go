package fleet

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"healthd/runtime"
	"healthd/supervisor"
	"healthd/supervisor/core"
	"healthd/supervisor/statefile"
)

// Config is what a Fleet works with.
type Config struct {
	Endpoints []string   // of etcd: URLs
	Prefix    string     // of all keys; ends with a slash
	Host      string     // the name of this host in the fleet
	Advertise netip.Addr // of this host, for status. If it is a loopback address, those of members may be, too
	TTL       time.Duration

	CAFile, CertFile, KeyFile string // read again with each handshake, the first one when it has failed
	User, PasswordFile        string // empty: none

	Leave    bool // at the end of Run this host leaves: its members go at once, and not when its lease has ended
	Balancer bool // this daemon pushes to HAProxy

	Version  string
	StateDir string // empty: nothing outlives the daemon
	// Earlier says that an earlier daemon has kept its state in StateDir. If that has nothing of a fleet, it was in none.
	Earlier bool
	Boot    string // the ID of the host's boot; empty: unknown

	// AddressOf returns where other hosts send a container's traffic; the zero address: nowhere.
	AddressOf func(*core.View) (netip.Addr, int)
	Journal   supervisor.Journal
	// Changed tells of a change of another host's member, by its ID on the board; "" of any. It must not block.
	Changed func(id string)
	Log     *zap.Logger // nil: none
}

// Supervisor is what a Fleet works for.
type Supervisor interface {
	Board() *supervisor.Board
	// Drained says that load balancers send nothing more to a run, and that all its requests are answered.
	Drained(ctx context.Context, run runtime.Run) error
	// Withdrawn says that nobody is told to send new requests to a run any more.
	Withdrawn(ctx context.Context, run runtime.Run) error
	// HoldByFleet tells which hold of the fleet a container has; empty: none.
	HoldByFleet(ctx context.Context, name, hold string) error
	// PlacesChanged says that the state of places has changed.
	PlacesChanged(ctx context.Context) error
}

// Fleet publishes the members of this host, and shows those of other hosts on the board. Its methods may be called from any
// goroutine.
type Fleet struct {
	config   Config
	base     string // PREFIX/v1/
	daemon   string // another one with each start
	store    *connection
	self     *self
	viewFile statefile.File

	lease     *keeper
	own       ownKeys
	publisher *publisher
	watcher   *watcher
	words     *words
	closer    *closer
	holds     *holds
	places    *places

	others   []func(records []record, list bool)
	seen     atomic.Pointer[Status]
	began    time.Time
	files    atomic.Bool
	problems problems
	metrics  *metrics
}

// New returns a Fleet that does nothing before Run. The error is of files that cannot be read, or of a wrong name.
func New(c Config) (*Fleet, error) {
	if err := checkHost(c.Host); err != nil {
		return nil, err
	}
	if len(c.Endpoints) == 0 {
		return nil, errors.New("the fleet has no endpoints")
	}
	certificates, err := certificatesOf(&c)
	if err != nil {
		return nil, err
	}
	f := &Fleet{
		config: c, base: c.Prefix + layout, daemon: randomHex(8), began: time.Now(), self: newSelf(c.StateDir), viewFile: stateFile(c.StateDir, "fleet-members.json"),
		problems: problems{now: map[about]problem{}}, metrics: newMetrics(), words: newWords(c.Host), own: ownKeys{keys: map[string]ownKey{}},
	}
	f.store = newConnection(&f.config, certificates)
	f.lease, f.publisher, f.watcher, f.closer = newKeeper(f), newPublisher(f), newWatcher(f), newCloser(f)
	f.holds = newHolds(f)
	f.subscribe(f.holds.told)
	f.places = newPlaces(f)
	f.seen.Store(&Status{Host: c.Host, Prefix: c.Prefix})
	return f, nil
}

// subscribe has a function told of all keys and deletions that a list (list is true: all there are) or the watch reports. Call it before
// Run. The function must not block.
func (f *Fleet) subscribe(told func(records []record, list bool)) { f.others = append(f.others, told) }

func (f *Fleet) tellOthers(all []record, list bool) {
	for _, told := range f.others {
		told(all, list)
	}
}

// Run works until ctx ends. It returns nil.
func (f *Fleet) Run(ctx context.Context, s Supervisor) error {
	if err := f.self.load(f.config.Earlier, f.config.Boot); err != nil {
		f.record(eventError, "Fleet: cannot read what was kept: %v: this host is a new one to others until its old lease has ended", err)
	}
	f.publisher.board, f.watcher.board, f.places.board = s.Board(), s.Board(), s.Board()
	var keeping sync.WaitGroup
	ending, ended := context.WithCancel(context.Background())
	keeping.Go(func() { f.keepSelf(ending) })
	keeping.Go(func() { f.keepView(ctx, f.viewFile, f.watcher.keep) })
	var goroutines sync.WaitGroup
	goroutines.Go(func() { f.watcher.run(ctx) })
	goroutines.Go(func() { f.lease.run(ctx) })
	goroutines.Go(func() { f.publisher.run(ctx) })
	goroutines.Go(func() { f.closer.run(ctx, s) })
	goroutines.Go(func() { f.holds.run(ctx, s) })
	goroutines.Go(func() { f.places.run(ctx, s) })
	goroutines.Go(func() { f.watchCertificate(ctx) })
	goroutines.Wait()
	if f.config.Leave {
		f.leave()
	}
	ended()
	keeping.Wait()
	f.store.close()
	return nil
}

// leave takes this host out of the fleet. It says so first, and revokes its lease then: others see it as left, and not as lost.
func (f *Fleet) leave() {
	h, ok := f.lease.now()
	if !ok || !h.claimed {
		return
	}
	value := f.hostValue(false)
	value.Leaving = true
	text, err := encode(value)
	if err != nil {
		return
	}
	name := f.base + f.publisher.hostKey
	err = f.store.do(context.Background(), callWithin, func(ctx context.Context, c *clientv3.Client) error {
		_, err := c.Txn(ctx).If(clientv3.Compare(clientv3.LeaseValue(name), "=", h.id)).
			Then(clientv3.OpPut(name, text, clientv3.WithLease(h.id))).Commit()
		if err != nil {
			return err
		}
		_, err = c.Revoke(ctx, h.id)
		return err
	})
	if err != nil {
		f.record(eventError, "Fleet: cannot leave: %v: others see this host until its lease ends", err)
		return
	}
	f.self.setLease(0, "", 0)
}

// named is the prefix and the name under which this host is in the store.
func (f *Fleet) named() string { return f.base + key{kind: hostKey, host: f.config.Host}.String() }

// Status returns what is known now.
func (f *Fleet) Status() *Status {
	s := *f.seen.Load()
	s.Error, s.Published, s.Began, s.Balancer = f.problems.text(), f.own.members(), f.began, f.config.Balancer
	return &s
}

// SetFiles says whether this host writes files whose readers send requests: then a drain anywhere waits for its Withdrawn. At first
// it does not.
func (f *Fleet) SetFiles(writes bool) {
	if f.files.Swap(writes) != writes {
		signal(f.publisher.wake)
		signal(f.closer.wake)
	}
}

// Drained takes in that this host's HAProxies send nothing more to a run, of any host, and that all its requests are answered.
func (f *Fleet) Drained(_ context.Context, run runtime.Run) error {
	f.say(run, said{drained: true})
	return nil
}

// NotServed takes in that no HAProxy of this host has the backend of a run.
func (f *Fleet) NotServed(_ context.Context, run runtime.Run) error {
	f.say(run, said{notServed: true})
	return nil
}

// Withdrawn takes in that no file of this host has a run any more.
func (f *Fleet) Withdrawn(_ context.Context, run runtime.Run) error {
	f.say(run, said{withdrawn: true})
	return nil
}

func (f *Fleet) say(run runtime.Run, s said) {
	if !f.words.say(run, s, time.Now()) {
		return
	}
	if isRemote(run) {
		signal(f.publisher.wake)
		return
	}
	signal(f.closer.wake)
}

func (f *Fleet) changed(id string) {
	if f.config.Changed != nil {
		f.config.Changed(id)
	}
}

// signal wakes who waits for a channel that has room for one.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// sleep waits, and says whether ctx goes on.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
