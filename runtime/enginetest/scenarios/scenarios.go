// Package scenarios tells once what healthd relies on in every container engine: a table of
// rows, each a story that a real engine and its client act out. The tests of a client's package
// run the table on private engines, with a thin adapter:
//
//	scenarios.Run(t, scenarios.Rig{Shared: …, Start: …})
//
// What an engine cannot do is said in the row that needs it, with the reason, which the test's
// output shows. What only one engine has is tested in its client's package.
package scenarios

import (
	"context"
	"syscall"
	"testing"
	"time"

	"healthd/runtime"
)

// Engine is the client under test.
type Engine interface {
	runtime.Source
	Exec(ctx context.Context, id string, argv []string, timeout time.Duration, limit int, started func()) (output []byte, exitCode int, timedOut bool, err error)
	Health(ctx context.Context, id string) (status, output string, err error)
	Start(ctx context.Context, id string) error
	Stop(ctx context.Context, id string, grace time.Duration) error
	Accept(ctx context.Context) error
	Logs(ctx context.Context, id string, lines, bytes int) (runtime.Log, error)
	Processes(ctx context.Context, id string) (runtime.Processes, error)
	Usage(ctx context.Context, id string) (runtime.Usage, error)
	Close() error
}

// Private is a private engine, with what its operators do and what befalls it.
type Private interface {
	// Name is Container.Runtime of its containers, Image the one that they are made of.
	Name() string
	Image() string
	// Address is where it listens, for the Dial of ActBlind.
	Address() string
	// Connect returns another client, closed when the test ends. Clients with one state
	// directory are one healthd's, one after the other.
	Connect(tb testing.TB, stateDir string) Engine

	// Create creates a container that is removed when the test ends. Run starts it, too.
	Create(tb testing.TB, c Container) (id string)
	Run(tb testing.TB, c Container) (id string)
	// OperatorStops sends a signal as the engine's own tool does for an operator.
	OperatorStops(tb testing.TB, id string, signal syscall.Signal)
	OperatorRestarts(tb testing.TB, id string)
	Pause(tb testing.TB, id string)
	Unpause(tb testing.TB, id string)
	Rename(tb testing.TB, id, name string)
	Remove(tb testing.TB, id string)
	// SetHealthy makes the container's HEALTHCHECK succeed or fail from now on.
	SetHealthy(tb testing.TB, id string, healthy bool)

	// Stop and Kill end the engine, with SIGTERM and SIGKILL. Up starts it again.
	Stop(tb testing.TB)
	Kill(tb testing.TB)
	Up(tb testing.TB)
	// Freeze lets it answer nothing until Thaw.
	Freeze(tb testing.TB)
	Thaw(tb testing.TB)
}

// taskDeleter is a Private whose operators can delete what the engine knows of a run, and
// leave the container. It kills a run that goes on.
type taskDeleter interface {
	DeleteTask(tb testing.TB, id string)
}

// Container says what Create and Run make: a container of the test image, as root and without
// a network unless another is named.
type Container struct {
	Name          string
	Cmd           []string
	Env           []string
	Labels        map[string]string
	Network       string // "host", "container:ID"; empty: none
	RestartPolicy string // of the engine; empty: "no"
	AutoRemove    bool
	StopSignal    string
	StopTimeout   *int // seconds
	Memory        int64
	User          uint32 // and group
	Healthcheck   bool   // fails until SetHealthy; without that, its results may be missing
}

// Rig makes the engines for a run of the table.
type Rig struct {
	// Shared returns the one that most rows share.
	Shared func(testing.TB) Private
	// Mortal starts another one, whose containers end when it does.
	Mortal func(testing.TB) Private
	// Release returns what rows call older releases that cannot do what newer ones can; empty: the
	// engine is none of them. It may be nil.
	Release func(testing.TB) string
}

// use says which engine a row needs: the shared one, unless it says otherwise.
type use int

const (
	// alone is the shared one while no other row runs.
	alone use = iota + 1
	// mortal is another one, with containers that end with it.
	mortal
)

// row is one scenario.
type row struct {
	name  string
	spine bool // it also runs with -short: together these rows make each call that healthd makes of an engine
	on    use
	run   func(*testing.T, Private)
	// cannot says why engines, by their names or Rig.Release, cannot do it.
	cannot map[string]string
}

// Run runs the table.
func Run(t *testing.T, rig Rig) {
	name, release := rig.Shared(t).Name(), ""
	if rig.Release != nil {
		release = rig.Release(t)
	}
	for _, r := range rows() {
		if testing.Short() && !r.spine {
			continue
		}
		t.Run(r.name, func(t *testing.T) {
			for _, engine := range []string{name, release} {
				if why := r.cannot[engine]; why != "" {
					t.Skipf("%s cannot: %s", engine, why)
				}
			}
			if r.on != alone {
				t.Parallel()
			}
			if r.on == mortal {
				r.run(t, rig.Mortal(t))
			} else {
				r.run(t, rig.Shared(t))
			}
		})
	}
}
