// Package engine is a Docker engine without containers: it answers Docker's API on a Unix socket for as many
// containers as a measurement needs, tells of their starts and ends as Docker does, and runs nothing. So what
// is measured is the supervisor, not an engine.
package engine

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"sync"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/events"
)

// Config says which containers the engine has.
type Config struct {
	Containers int
	// Groups is over how many Compose services the containers are spread; 0: each is its own.
	Groups int
	// Own containers, the first ones, have ports of their own, so that their targets can tell them apart; at most MaxOwn.
	Own int
	// ExecTime is how long each command in a container takes.
	ExecTime time.Duration
}

// Engine has the containers and their events. Any number of goroutines may use it.
type Engine struct {
	config Config
	calls  calls

	mu         sync.Mutex
	containers []*instance
	byID       map[string]*instance
	byName     map[string]*instance
	execs      map[string]*execution
	created    int
	history    []events.Message // the newest ones, as many as Docker keeps
	listeners  map[*listener]bool
	acts       []Act // since they were last asked for
	down       bool
}

// instance is one container.
type instance struct {
	id, name string
	labels   map[string]string
	created  time.Time
	running  bool
	started  time.Time
	finished time.Time
	exitCode int
}

// The ports of HTTP; that of TCP is TCPOffset higher. All containers are in the host's network, as
// loopback addresses are those of the host only, and load stays on them.
const (
	Kinds      = 50    // specs of shared ports
	SharedPort = 18000 // and up: one for each kind
	OwnPort    = 20000 // and up: one for each container that has its own
	GRPCPort   = 19000
	TCPOffset  = 10000
)

// MaxOwn is how many containers can have ports of their own.
const MaxOwn = 2000

// New returns an engine whose containers have run for an hour.
func New(c Config) *Engine {
	e := &Engine{
		config: c, byID: map[string]*instance{}, byName: map[string]*instance{},
		execs: map[string]*execution{}, listeners: map[*listener]bool{},
	}
	began := time.Now().Add(-time.Hour)
	for n := range c.Containers {
		i := e.add(fmt.Sprintf("bench-%d", n), c.Labels(n))
		i.created, i.started, i.running = began, began, true
	}
	return e
}

// Labels returns those of container n. They are Compose's, too: without groups, each container has a service of its own.
func (c Config) Labels(n int) map[string]string {
	service := n
	if c.Groups > 0 {
		service = n % c.Groups
	}
	all := map[string]string{
		"bench":                                fmt.Sprint(n % Kinds),
		"com.docker.compose.project":           "bench",
		"com.docker.compose.service":           fmt.Sprintf("service-%d", service),
		"com.docker.compose.container-number":  fmt.Sprint(n + 1),
		"com.docker.compose.oneoff":            "False",
		"com.docker.compose.config-hash":       hash("config", service),
		"org.opencontainers.image.description": "a container of a measurement",
	}
	if n < c.Own {
		all["healthd.ports.http"], all["healthd.ports.tcp"] = fmt.Sprint(OwnPort+n), fmt.Sprint(OwnPort+TCPOffset+n)
	}
	return all
}

func (e *Engine) add(name string, labels map[string]string) *instance {
	i := &instance{id: hash(name, e.created), name: name, labels: labels, created: time.Now()}
	e.created++
	e.containers, e.byID[i.id], e.byName[name] = append(e.containers, i), i, i
	return i
}

func hash(kind string, n int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d", kind, n))
	return hex.EncodeToString(sum[:])
}

func (e *Engine) find(ref string) *instance {
	if i := e.byID[ref]; i != nil {
		return i
	}
	return e.byName[ref]
}

// start begins a run, and says whether there was none.
func (e *Engine) start(i *instance) bool {
	if i.running {
		return false
	}
	i.running, i.started, i.exitCode = true, time.Now(), 0
	e.tell(i, events.ActionStart, nil)
	return true
}

// stop ends a run as the engine's stop does: a signal, the end, and that it was stopped.
func (e *Engine) stop(i *instance) bool {
	if !i.running {
		return false
	}
	e.tell(i, events.ActionKill, map[string]string{"signal": "15"})
	e.end(i, 143)
	e.tell(i, events.ActionStop, nil)
	return true
}

// end ends a run; by itself it is a crash.
func (e *Engine) end(i *instance, code int) {
	i.running, i.finished, i.exitCode = false, time.Now(), code
	e.tell(i, events.ActionDie, map[string]string{"exitCode": fmt.Sprint(code)})
}

// remove removes a container. One that runs is killed first.
func (e *Engine) remove(i *instance) {
	if i.running {
		e.tell(i, events.ActionKill, map[string]string{"signal": "9"})
		e.end(i, 137)
	}
	delete(e.byID, i.id)
	delete(e.byName, i.name)
	for at, other := range e.containers {
		if other == i {
			e.containers = append(e.containers[:at], e.containers[at+1:]...)
			break
		}
	}
	e.tell(i, events.ActionDestroy, nil)
}

func (i *instance) status() container.ContainerState {
	switch {
	case i.running:
		return container.StateRunning
	case i.started.IsZero():
		return container.StateCreated
	}
	return container.StateExited
}
