package fleet

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"healthd/e2e/patience"
	"healthd/runtime"
	"healthd/supervisor"
	"healthd/supervisor/core"
	"healthd/supervisor/fleet/etcdtest"
)

// shared is a cluster for all tests that do it no harm, in ring one of one member. Each has a prefix of its own.
var shared struct {
	once    sync.Once
	cluster *etcdtest.Cluster
	err     error
}

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "12"); err != nil { // they wait for leases, not for the CPU
		panic(err)
	}
	dir, err := os.MkdirTemp("", "fleet")
	if err != nil {
		panic(err)
	}
	sharedDir = dir
	code := m.Run()
	if shared.cluster != nil {
		shared.cluster.Close()
	}
	os.RemoveAll(dir)
	os.Exit(code)
}

var sharedDir string

// sharedCluster returns the cluster to tests of ring two.
func sharedCluster(t *testing.T) *etcdtest.Cluster {
	t.Helper()
	ringTwo(t)
	return spineCluster(t)
}

func ringTwo(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("make test-fleet runs it")
	}
}

// newCluster returns a cluster of the test's own.
func newCluster(t *testing.T, o etcdtest.Options) *etcdtest.Cluster {
	t.Helper()
	ringTwo(t)
	return etcdtest.New(t, o)
}

func spineCluster(t *testing.T) *etcdtest.Cluster {
	t.Helper()
	shared.once.Do(func() {
		o := etcdtest.Options{}
		if testing.Short() {
			o.Members = 1
		}
		shared.cluster, shared.err = etcdtest.Start(sharedDir, o)
	})
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.cluster
}

// ttl has leases end after a time. Without it they live for longer than a machine stands still; expire ends one at once.
func ttl(d time.Duration) func(*Config) { return func(c *Config) { c.TTL = d } }

// short is for what waits for the end of leases, and does not mind if one ends because the machine stands still.
var short = ttl(3 * time.Second)

// expire ends a lease as etcd does when its TTL is over.
func expire(t *testing.T, c *etcdtest.Cluster, lease clientv3.LeaseID) {
	t.Helper()
	if _, err := c.Client(t).Revoke(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
}

// daemon is a host with a board that a test plays, and a Fleet.
type daemon struct {
	t      testing.TB
	config Config
	board  *supervisor.Board
	fleet  *Fleet
	begin  func(*Fleet) // before Run; nil: nothing
	end    func()       // kills the Fleet: it does not leave

	mu     sync.Mutex
	events []core.Event
	told   []string // "drained ID", "withdrawn ID"
	gone   []string // members that the board has lost: "HOST:CONTAINER"
	was    map[string]bool
	freed  int // how many holds of containers were ended
}

// newDaemon returns a host that does not run. Its prefix is the test's.
func newDaemon(t *testing.T, host string, endpoints []string, change func(*Config)) *daemon {
	t.Helper()
	d := &daemon{t: t, was: map[string]bool{}}
	d.config = Config{
		Endpoints: endpoints, Prefix: "/" + strings.ReplaceAll(t.Name(), "/", "-") + "/", Host: host, Advertise: netip.MustParseAddr("10.0.0.9"), TTL: time.Minute,
		Version: "1.2.3", StateDir: t.TempDir(), Journal: d, Changed: d.changed,
		AddressOf: func(v *core.View) (netip.Addr, int) {
			ip, _ := netip.ParseAddr(v.Container.Address)
			return ip, 80
		},
	}
	if change != nil {
		change(&d.config)
	}
	d.board = d.newBoard()
	return d
}

func (d *daemon) newBoard() *supervisor.Board {
	return supervisor.NewBoard([]supervisor.RuntimeView{{Name: "docker", Up: true, Synced: true}})
}

// start runs the daemon until the test ends, or end is called.
func (d *daemon) start() *daemon {
	d.t.Helper()
	f, err := New(d.config)
	if err != nil {
		d.t.Fatal(err)
	}
	d.fleet = f
	if d.begin != nil {
		d.begin(f)
	}
	d.board.ExpectRemote()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := f.Run(ctx, d); err != nil {
			d.t.Error(err)
		}
	}()
	d.end = sync.OnceFunc(func() {
		cancel()
		<-ended
	})
	d.t.Cleanup(d.end)
	return d
}

// restart is another daemon of the host, which knows its containers at once.
func (d *daemon) restart() {
	d.t.Helper()
	d.end()
	board := d.newBoard()
	for v := range d.board.All() {
		board.Show(v)
	}
	d.board = board
	d.start()
}

func (d *daemon) Board() *supervisor.Board { return d.board }

func (d *daemon) Record(e core.Event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.events = append(d.events, e)
}

func (d *daemon) Drained(_ context.Context, run runtime.Run) error {
	return d.tell("drained", run)
}

func (d *daemon) Withdrawn(_ context.Context, run runtime.Run) error {
	return d.tell("withdrawn", run)
}

func (d *daemon) tell(what string, run runtime.Run) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if text := fmt.Sprintf("%s %s", what, run.ID); !slices.Contains(d.told, text) {
		d.told = append(d.told, text)
	}
	return nil
}

// HoldByFleet keeps the hold with the container, as the supervisor does.
func (d *daemon) HoldByFleet(_ context.Context, name, hold string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if hold == "" {
		d.freed++
	}
	d.show(strings.TrimPrefix(name, runtime.IDPrefix), func(l *core.Lasting) { l.FleetHold, l.FleetHoldOver = hold, false })
	return nil
}

// show changes what the board has of a container.
func (d *daemon) show(id string, change func(*core.Lasting)) {
	v := *d.board.ByID(id)
	kept := *v.State.Kept
	change(&kept.Lasting)
	v.State.Kept = &kept
	d.board.Show(&v)
}

func (d *daemon) resumptions() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.freed
}

// holding returns the names of the containers that the fleet holds.
func (d *daemon) holding() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []string
	for v := range d.board.All() {
		if v.State.Lasting.HeldByFleet() {
			all = append(all, v.Container.Name)
		}
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

func (d *daemon) awaitHeld(want string) {
	d.t.Helper()
	d.until(func() bool { return d.holding() == want }, "%s to hold %q, not %q", d.config.Host, want, d.holding)
}

// changed notes which members are gone.
func (d *daemon) changed(string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	is := map[string]bool{}
	for m := range d.board.RemoteMembers() {
		is[m.RemoteName()] = true
	}
	for name := range d.was {
		if !is[name] {
			d.gone = append(d.gone, name)
		}
	}
	d.was = is
}

func (d *daemon) lost() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.gone)
}

func (d *daemon) heard() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Sorted(slices.Values(d.told))
}

// happened says whether there is an event of that reason and text.
func (d *daemon) happened(reason, text string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.ContainsFunc(d.events, func(e core.Event) bool { return e.Reason == reason && strings.Contains(e.Message, text) })
}

// shows returns the members of other hosts: "HOST:CONTAINER STATE".
func (d *daemon) shows() string {
	var all []string
	for m := range d.board.RemoteMembers() {
		all = append(all, m.RemoteName()+" "+m.State())
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

func (d *daemon) await(want string) {
	d.t.Helper()
	d.until(func() bool { return d.shows() == want }, "%s to show %q, not %q", d.config.Host, want, d.shows)
}

func (d *daemon) awaitHost(name string, state HostState) {
	d.t.Helper()
	d.until(func() bool { return d.hostState(name) == state }, "%s to see %s as %s, not as %s", d.config.Host, name, state, func() string { return string(d.hostState(name)) })
}

func (d *daemon) hostState(name string) HostState {
	for _, h := range d.fleet.Status().Hosts {
		if h.Name == name {
			return h.State
		}
	}
	return ""
}

func (d *daemon) awaitEvent(reason, text string) {
	d.t.Helper()
	d.until(func() bool { return d.happened(reason, text) }, "the event %s of %q", reason, text)
}

// until waits for something. Functions among what is printed are called then.
func (d *daemon) until(is func() bool, what string, args ...any) {
	d.t.Helper()
	if patience.Try("", func() error { return unless(is()) }) == nil {
		return
	}
	for i, arg := range args {
		if f, ok := arg.(func() string); ok {
			args[i] = f()
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.t.Fatalf("waited in vain for "+what+"\nevents: %+v\nstatus: %+v", append(args, d.events, d.fleet.Status())...)
}

func unless(is bool) error {
	if is {
		return nil
	}
	return errors.New("not yet")
}

// awaitRenewals waits until the daemon has renewed its lease so often, which shows that etcd has it.
func (d *daemon) awaitRenewals(n int) {
	d.t.Helper()
	for range n {
		was, _ := d.fleet.lease.now()
		d.until(func() bool { h, _ := d.fleet.lease.now(); return h.renewed.After(was.renewed) }, "a renewal")
	}
}

// has shows a container of the daemon's own host, and returns its ID. Its service is web.
func (d *daemon) has(name, state string) string {
	id := fmt.Sprintf("%064x", name)
	v := &core.View{
		Container: &runtime.Container{Runtime: "docker", ID: id, Name: name, Address: "10.0.0.1", State: runtime.Running},
		Spec:      &core.Spec{Name: "web", Publish: core.Publish{Service: "web", Port: 80}}, Service: "web", Group: "web", State: core.NewState(),
	}
	v.State.Engine.State = runtime.Running
	v.State.Run.ID = runtime.Run{ID: id, Started: 1}
	switch state {
	case stateReady:
		v.State.Conditions.Ready.Status = true
	case stateDraining:
		v.State.Action.Stopping = core.ByLiveness
	}
	d.board.Show(v)
	return id
}

// keys returns the keys of a prefix, in plain words.
func keys(t *testing.T, client *clientv3.Client, prefix string) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience.Limit)
	defer cancel()
	answer, err := client.Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, kv := range answer.Kvs {
		all = append(all, strings.TrimPrefix(string(kv.Key), prefix))
	}
	return all
}
