// Package containerd connects healthd to containerd, for containers that nerdctl, ctr or
// other clients made. An Engine is the runtime.Source of a Watcher, runs the commands of exec
// probes, reads nerdctl's HEALTHCHECK results, and starts and stops containers:
//
//	runtime.Watcher ── Subscribe, List, Inspect, EventHistory ──┐                  ┌ tasks, containers, events
//	prober          ── Exec, Health ────────────────────────────┤── records ── gRPC┤
//	supervisor      ── Stop, Start, Accept ─────────────────────┘                  └ /proc/PID/stat
//
// containerd tells less than Docker: a task has no start time, an exit code goes with its
// task, past events are not told again, and no event says that somebody sent a signal.
// records keeps what the Engine has seen of each container's newest run. With it, the state
// that containerd shows tells what events would have told.
//
// When to probe, stop or start is decided elsewhere.
package containerd

import (
	"context"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/containerd/containerd/v2/client"
	"go.uber.org/zap"

	"healthd/runtime"
)

const (
	defaultEndpoint  = "unix:///run/containerd/containerd.sock"
	defaultNamespace = "default"
	defaultName      = "containerd"
	defaultFIFODir   = "/run/containerd/fifo"

	callTimeout   = 10 * time.Second
	acceptTimeout = 5 * time.Second
	// taskTimeout bounds a question about one task: its shim may hang.
	taskTimeout = 3 * time.Second
)

// Config says which containerd to speak to.
type Config struct {
	// Name is Container.Runtime of its containers; empty means "containerd". No two runtimes of
	// a host have the same.
	Name string
	// Endpoint is "unix:///…" or the path of a socket; empty means containerd's usual one.
	Endpoint string
	// Namespaces are those whose containers are healthd's; empty means "default".
	Namespaces []string
	// Network is the network whose address is used for a container that has several;
	// where it has no address, the first by name is used.
	Network string
	// StateDir is where the records are kept, in a file of the runtime's name. Empty means in
	// memory: the next process then knows no end whose task is gone.
	StateDir string
	// NerdctlDir is nerdctl's data directory for this containerd; empty means the one that
	// nerdctl itself uses.
	NerdctlDir string
	// FIFODir is where the output of commands comes through FIFOs. containerd's shims must see
	// it. Empty means containerd's own.
	FIFODir string
	Log     *zap.Logger // may be nil
}

// Engine is a client of one containerd. Any number of goroutines may use it. It implements
// runtime.Source and prober.Engine.
type Engine struct {
	conf    Config
	socket  string
	log     *zap.Logger
	clock   clock
	records *records
	specs   specCache
	calls   ownCalls
	fifos   fifoDir
	left    leftCommands
	// calling are calls about commands that nobody waits for but Close.
	calling sync.WaitGroup

	mu      sync.Mutex
	current *client.Client
}

var _ runtime.Source = (*Engine)(nil)

// New returns a client that does not connect yet: an engine that is not there fails the first
// call. The error is about the configuration or the records.
func New(conf Config) (*Engine, error) {
	if conf.Name == "" {
		conf.Name = defaultName
	}
	if conf.Endpoint == "" {
		conf.Endpoint = defaultEndpoint
	}
	if conf.FIFODir == "" {
		conf.FIFODir = defaultFIFODir
	}
	if len(conf.Namespaces) == 0 {
		conf.Namespaces = []string{defaultNamespace}
	}
	if conf.Log == nil {
		conf.Log = zap.NewNop()
	}
	socket, err := socketPath(conf.Endpoint)
	if err != nil {
		return nil, err
	}
	if err := checkNamespaces(conf.Namespaces); err != nil {
		return nil, err
	}
	if conf.NerdctlDir == "" {
		conf.NerdctlDir = nerdctlDir(socket)
	}
	conf.Namespaces = slices.Compact(slices.Sorted(slices.Values(conf.Namespaces)))
	e := &Engine{conf: conf, socket: socket, log: conf.Log, fifos: fifoDir{parent: conf.FIFODir}}
	file := ""
	if conf.StateDir != "" {
		file = filepath.Join(conf.StateDir, "containerd-"+fileName(conf.Name)+".db")
	}
	if e.records, err = openRecords(file, e.log); err != nil {
		return nil, err
	}
	e.clock = e.records.clock
	return e, nil
}

// Close closes the connection and the records. Calls under way fail, but commands that have
// ended are deleted first.
func (e *Engine) Close() error {
	e.calling.Wait()
	e.deleteLeft()
	e.mu.Lock()
	defer e.mu.Unlock()
	err := e.closeClient()
	e.fifos.remove()
	if closing := e.records.close(); err == nil {
		err = closing
	}
	return err
}

// OnHost says that the engine runs on healthd's host: its endpoint is a Unix socket.
func (e *Engine) OnHost() bool { return true }

// Clock returns the present time by the clock that all times of the Engine are of. Nobody
// sets it.
func (e *Engine) Clock(context.Context) (time.Time, error) { return e.clock.now(), nil }
