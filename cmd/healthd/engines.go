package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"go.uber.org/zap"

	"healthd/configs"
	"healthd/prober"
	"healthd/runtime"
	"healthd/runtime/containerd"
	"healthd/runtime/docker"
	"healthd/supervisor"
	"healthd/supervisor/recorder"
)

// engineClient is all that the daemon needs of an engine.
type engineClient interface {
	runtime.Source
	supervisor.Restarter
	prober.Engine
	recorder.Engine
	io.Closer

	OnHost() bool // it runs on healthd's host
	// Identity returns what two healthds must not both supervise.
	Identity(ctx context.Context) ([]string, error)
	// Creation is for import: what a container was made with that the daemon need not know.
	Creation(ctx context.Context, id string) (runtime.Creation, error)
}

// engine is one configured runtime.
type engine struct {
	name    string
	relist  time.Duration
	client  engineClient
	source  runtime.Source // the client, as it is seen from where healthd runs
	rivals  *rivalDetector
	lock    *engineLock
	refresh chan struct{} // has its watcher make a list; has room for one
}

// restarter is the engine that the supervisor calls. What it inspects there is seen from where healthd runs, as what it
// hears of the Watcher is.
type restarter struct {
	engineClient
	engine *engine
}

// Inspect implements supervisor.Restarter.
func (r restarter) Inspect(ctx context.Context, id string) (*runtime.Container, error) {
	return r.engine.source.Inspect(ctx, id)
}

// openEngines makes the clients of all runtimes. An engine that does not answer is no
// error: its Watcher waits for it.
func openEngines(c *configs.Config, log *zap.Logger) ([]*engine, error) {
	var engines []*engine
	for _, r := range c.Runtimes {
		refresh := make(chan struct{}, 1)
		client, err := openEngine(r, c.State.Dir, func() { signalChannel(refresh) }, log.With(zap.String("runtime", r.Name)))
		if err != nil {
			closeEngines(engines)
			return nil, fmt.Errorf("cannot use runtime %s: %w", r.Name, err)
		}
		rivals := &rivalDetector{Source: client, engine: r.Name, relist: r.Relist, shared: !r.Exclusive, log: log}
		engines = append(engines, &engine{
			name: r.Name, relist: r.Relist, client: client, source: client, refresh: refresh,
			rivals: rivals, lock: &engineLock{Source: rivals, name: r.Name, log: log, shared: !r.Exclusive, identify: client.Identity},
		})
	}
	return engines, nil
}

// openEngine makes the client of a runtime. It calls away when a call finds that nothing listens there.
func openEngine(r configs.Runtime, stateDir string, away func(), log *zap.Logger) (engineClient, error) {
	if r.Type == configs.TypeContainerd {
		return containerd.New(containerd.Config{Name: r.Name, Endpoint: r.Endpoint, Namespaces: r.Namespaces, StateDir: stateDir, FIFODir: fifoDir(), Log: log})
	}
	return docker.New(docker.Config{Name: r.Name, Endpoint: r.Endpoint, Away: away, Log: log})
}

// fifoDir returns where the output of commands in containerd's containers comes through FIFOs. As a
// service healthd may not write to containerd's own directory, but has one that containerd's shims
// see, too. Empty: containerd's own.
func fifoDir() string {
	if dir := runtimeDir(); dir != "" {
		return filepath.Join(dir, "fifo")
	}
	return ""
}

// rebooted returns the names of the engines that have ended with the host since an earlier
// daemon: those of other hosts have not.
func rebooted(engines []*engine, before func(runtime string) string, now string) []string {
	var names []string
	for _, e := range engines {
		if wasRebooted(before(e.name), now) && e.client.OnHost() {
			names = append(names, e.name)
		}
	}
	return names
}

// lostEngines warns of engines that healthd cannot reach. Of an only one that it has never reached,
// status tells in place of the containers.
func lostEngines(all []supervisor.RuntimeView) []string {
	var texts []string
	for _, r := range all {
		switch {
		case r.Up || r.Err == nil:
		case r.Synced:
			texts = append(texts, fmt.Sprintf("healthd cannot reach runtime %s: it keeps what it published, and restarts nothing there: %v", r.Name, r.Err))
		case len(all) > 1:
			texts = append(texts, fmt.Sprintf("healthd has not reached runtime %s since it began: its services have no DNS names, /v1/discovery and published files wait for it: %v", r.Name, r.Err))
		}
	}
	return texts
}

// proxied is an engine whose requests a socket proxy may forbid.
type proxied interface {
	Refused(ctx context.Context) []string
	RefusedCalls() []string
}

// refusedCalls warns of engines that do not let healthd act, unless it only observes.
func refusedCalls(engines []*engine) (texts []string) {
	for _, e := range engines {
		if p, ok := e.client.(proxied); ok && !e.rivals.observes.Load() {
			texts = append(texts, refusedText(e.name, p.RefusedCalls())...)
		}
	}
	return texts
}

// refusedRequests asks all engines of a configuration what they do not allow. It warns of nothing where one does not
// answer.
func refusedRequests(ctx context.Context, c *configs.Config) (texts []string) {
	mine := *c
	mine.State.Dir = "" // which a daemon may have locked
	engines, err := openEngines(&mine, zap.NewNop())
	if err != nil {
		return nil
	}
	defer closeEngines(engines)
	for _, e := range engines {
		if p, ok := e.client.(proxied); ok {
			texts = append(texts, refusedText(e.name, p.Refused(ctx))...)
		}
	}
	return texts
}

func refusedText(name string, requests []string) []string {
	if len(requests) == 0 {
		return nil
	}
	return []string{"runtime " + name + ", or a socket proxy before it, does not allow " + list(requests)}
}

func closeEngines(engines []*engine) {
	for _, e := range engines {
		e.client.Close()
		e.lock.release()
	}
}
