package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/sys/unix"

	"healthd/configs"
	"healthd/prober"
	"healthd/runtime"
	"healthd/supervisor"
	"healthd/supervisor/agent"
	"healthd/supervisor/api"
	"healthd/supervisor/haproxy"
	"healthd/supervisor/journal"
	"healthd/supervisor/metrics"
)

// daemon is everything that healthd run runs.
type daemon struct {
	begun      *configs.Config // what was opened once is as it says
	config     atomic.Pointer[configs.Config]
	reloads    reloads
	log        *zap.Logger
	notifier   notifier
	listeners  *listeners
	engines    []*engine
	journal    *journal.Journal
	prober     *prober.Prober
	haproxy    *haproxy.HAProxy
	supervisor *supervisor.Supervisor
	// cannotEnter is why healthd cannot ask inside containers' network namespaces; nil: it can.
	cannotEnter error
}

// drainCommands is how long the daemon waits at its end until the commands of its exec
// probes are killed.
const drainCommands = 5 * time.Second

// run supervises until ctx ends and the restarts under way are done.
func run(ctx context.Context, c *configs.Config, r reloads, log *zap.Logger) error {
	ls, err := listen(c.Listen)
	if err != nil {
		return err
	}
	defer ls.close()
	boot := bootID()
	j, err := journal.Open(journal.Config{Dir: c.State.Dir, Boot: boot})
	if err != nil {
		return fmt.Errorf("cannot keep the journal: %w", err)
	}
	defer j.Close()
	engines, err := openEngines(c, log)
	if err != nil {
		return err
	}
	defer closeEngines(engines)
	h, err := haproxy.New(haproxy.Config{Sockets: c.HAProxy.Sockets, Agent: address(ls.agent), Journal: j})
	if err != nil {
		return err
	}
	d := newDaemon(c, r, log, ls, j, engines, h, rebooted(engines, j.Boot(), boot))
	b := thisBuild()
	log.Info("healthd runs", zap.String("version", b.version), zap.String("commit", b.commit),
		zap.Strings("specs", c.SpecNames()), zap.String("http", address(ls.http)),
		zap.String("agent", address(ls.agent)), zap.String("control", c.Listen.Control), zap.String("state", c.State.Dir))
	d.logWarnings(c)
	err = d.run(ctx)
	log.Info("healthd has ended", zap.Error(err))
	return err
}

func newDaemon(c *configs.Config, r reloads, log *zap.Logger, ls *listeners, j *journal.Journal, engines []*engine, h *haproxy.HAProxy, rebooted []string) *daemon {
	restarters := map[string]supervisor.Restarter{}
	askers := map[string]prober.Engine{}
	for _, e := range engines {
		restarters[e.name], askers[e.name] = e.client, e.client
	}
	p := prober.New(prober.Config{UserAgent: "healthd/" + thisBuild().version, Engines: askers})
	cannotEnter := prober.CanEnterNamespaces()
	d := &daemon{
		cannotEnter: cannotEnter,

		begun: c, reloads: r, log: log, notifier: notifier{log: log}, listeners: ls, engines: engines, journal: j, prober: p, haproxy: h,
		supervisor: supervisor.New(supervisor.Config{
			Resolve:  c.Resolve,
			Runtimes: restarters,
			Prober:   p,
			Journal:  j,
			Guard:    c.Guard,
			Store:    j,
			Memories: j.Memories(),
			Rebooted: rebooted,

			Publisher: h,
			Shutdown:  c.Daemon.Shutdown,

			CannotEnter: textOf(cannotEnter),
		}),
	}
	d.config.Store(c)
	return d
}

func textOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// run starts the servers, runs the supervisor, and ends the servers after it: readiness is
// published, and engines are watched, until the last restart is done.
func (d *daemon) run(ctx context.Context) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	stopKeeping := d.runJournal(context.WithoutCancel(ctx))
	serving, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	var servers sync.WaitGroup
	for _, s := range d.servers() {
		servers.Go(func() {
			err := s.run(serving)
			if serving.Err() == nil && !errors.Is(err, supervisor.ErrStopping) {
				fail(fmt.Errorf("cannot %s: %w", s.what, err))
			}
		})
	}
	servers.Go(func() { d.notify(ctx, serving) })
	servers.Go(func() { d.handleReloads(ctx) })
	err := d.supervisor.Run(ctx)
	d.drain(context.WithoutCancel(ctx))
	stopServing()
	servers.Wait()
	stopKeeping()
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return cause
	}
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// drain waits until the commands of probes in containers are killed.
func (d *daemon) drain(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, drainCommands)
	defer cancel()
	if err := d.prober.Drain(ctx); err != nil {
		d.log.Warn("commands of probes still run in their containers", zap.Error(err))
	}
}

// server runs beside the supervisor until its context ends.
type server struct {
	what string
	run  func(context.Context) error
}

func (d *daemon) servers() []server {
	board := d.supervisor.Board()
	errorLog := zap.NewStdLog(d.log)
	if l, err := zap.NewStdLogAt(d.log, zapcore.DebugLevel); err == nil {
		errorLog = l // what goes wrong with single clients
	}
	a := api.New(api.Config{
		Board: board, History: d.journal, Controller: d.supervisor, Warnings: d.warnings,
		Metrics: metrics.Handler(board, thisBuild().version, errorLog, d.haproxy), Checked: d.haproxy.Checked, ChecksFrom: d.begun.HAProxy.ChecksFrom,
	})
	servers := []server{{"serve the control socket", func(ctx context.Context) error {
		return api.Serve(ctx, d.listeners.control, a.Control(), connections(controlShare), errorLog)
	}}}
	if ln := d.listeners.http; ln != nil {
		servers = append(servers, server{"serve HTTP", func(ctx context.Context) error {
			return api.Serve(ctx, ln, d.readOnly(a, ln), connections(httpShare), errorLog)
		}})
	}
	if ln := d.listeners.agent; ln != nil {
		servers = append(servers, server{"serve agent checks", func(ctx context.Context) error {
			return agent.Serve(ctx, ln, board, connections(agentShare))
		}})
	}
	servers = append(servers, server{"push to HAProxy", func(ctx context.Context) error {
		return d.haproxy.Run(ctx, d.supervisor)
	}})
	for _, e := range d.engines {
		w := runtime.Watcher{
			Name: e.name, Source: e.rivals, Since: d.journal.Seen(e.name), KnownRun: knownRuns(d.journal, e.name), Relist: e.relist,
			Wanted: d.wanted, Refresh: e.refresh, Log: d.log,
		}
		servers = append(servers, server{"watch " + e.name, func(ctx context.Context) error {
			return w.Run(ctx, d.supervisor.Deliver)
		}})
	}
	return servers
}

// wanted says whether a container is supervised, or has invalid labels, which status shows.
func (d *daemon) wanted(name string, labels map[string]string) bool {
	spec, err := d.config.Load().Resolve(name, labels)
	return spec != nil || err != nil
}

// readOnly returns the handler for the network. A loopback listener answers only to its own names.
func (d *daemon) readOnly(a *api.API, ln net.Listener) http.Handler {
	if address, ok := ln.Addr().(*net.TCPAddr); ok && address.IP.IsLoopback() {
		return api.OnlyHosts(a.ReadOnly(), d.begun.Listen.Hosts)
	}
	return a.ReadOnly()
}

// Of the process's descriptors, listeners take these parts at most. The rest is for probes, engines
// and HAProxy. A silent client of the agent holds its one for 50 ms when there are many, so it needs
// more to be through with a crowd soon.
const (
	agentShare   = 2
	httpShare    = 4
	controlShare = 8
)

// connections returns how many clients a listener serves at once.
func connections(share uint64) int {
	const most = 1024
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil {
		return most
	}
	return int(min(most, max(1, limit.Cur/share)))
}

// listeners are the daemon's listeners; http and agent are nil when they are off.
type listeners struct{ control, http, agent net.Listener }

func listen(c configs.Listen) (*listeners, error) {
	ls := &listeners{}
	err := ls.open(c)
	if err != nil {
		ls.close()
		return nil, err
	}
	return ls, nil
}

func (ls *listeners) open(c configs.Listen) (err error) {
	// The control socket comes first, as it knows best that there is another healthd.
	if ls.control, err = api.ListenControl(c.Control); err != nil {
		return err
	}
	if ls.http, err = listenTCP("http", c.HTTP); err != nil {
		return err
	}
	ls.agent, err = listenTCP("agent", c.Agent)
	return err
}

func listenTCP(key, address string) (net.Listener, error) {
	if address == "" {
		return nil, nil
	}
	ln, err := net.Listen("tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("cannot listen on %s: another program listens there: stop it, or change listen.%s", address, key)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %s (listen.%s): %w", address, key, err)
	}
	return ln, nil
}

func (ls *listeners) close() {
	for _, c := range []net.Listener{ls.control, ls.http, ls.agent} {
		if c != nil {
			c.Close()
		}
	}
}

func address(ln net.Listener) string {
	if ln == nil {
		return ""
	}
	return ln.Addr().String()
}
