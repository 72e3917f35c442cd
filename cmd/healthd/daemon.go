package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"healthd/configs"
	"healthd/prober"
	"healthd/runtime"
	"healthd/supervisor"
	"healthd/supervisor/agent"
	"healthd/supervisor/api"
	"healthd/supervisor/dns"
	"healthd/supervisor/files"
	"healthd/supervisor/fleet"
	"healthd/supervisor/haproxy"
	"healthd/supervisor/journal"
	"healthd/supervisor/metrics"
	"healthd/supervisor/notify"
	"healthd/supervisor/recorder"
	"healthd/supervisor/report"
)

// daemon is everything that healthd run runs.
type daemon struct {
	begun      *configs.Config // what was opened once is as it says
	config     atomic.Pointer[configs.Config]
	reloads    *reloads
	log        *zap.Logger
	logQueue   *logQueue // behind log
	notifier   *notifier
	listeners  *listeners
	engines    []*engine
	journal    *journal.Journal
	prober     *prober.Prober
	haproxy    *haproxy.HAProxy
	dns        *dns.Server
	recorder   *recorder.Recorder
	supervisor *supervisor.Supervisor
	report     *report.Keeper
	publisher  *files.Publisher
	fleet      *fleet.Fleet // nil: this host is in none

	traefik       poller // of /v1/discovery/traefik
	notifications *notify.Notifier
	reloadMetrics *metrics.Reload
	refused       atomic.Pointer[refusedReload] // nil: the newest reload was not refused
	// cannotEnter is why healthd cannot ask inside containers' network namespaces; nil: it can.
	cannotEnter error
	point       *runtime.Standpoint
	tellOnce    sync.Once // what does not work in a container
}

// drainCommands is how long the daemon waits at its end until the commands of its exec
// probes are killed.
const drainCommands = 5 * time.Second

// run supervises until ctx ends and the restarts under way are done.
func run(ctx context.Context, c *configs.Config, r *reloads, log *zap.Logger, queue *logQueue) error {
	n := &notifier{log: log}
	s := &starter{
		open:     func() (*opened, error) { return open(c, log) },
		notifier: n, log: log, systemd: underSystemd(), failed: newStartMark(),
	}
	o, err := s.start(ctx)
	if o == nil {
		return err
	}
	defer o.close()
	d := newDaemon(c, r, log, n, o)
	d.logQueue = queue
	b := thisBuild()
	log.Info("healthd runs", zap.String("version", b.version), zap.String("commit", b.commit),
		zap.Strings("specs", c.SpecNames()), zap.String("http", address(o.listeners.http)),
		zap.String("agent", address(o.listeners.agent)), zap.String("dns", o.listeners.dnsAddress()), zap.String("control", c.Listen.Control), zap.String("state", c.State.Dir))
	if c.Files == 0 {
		log.Info("no configuration file: healthd supervises containers by their labels alone", zap.Strings("looked for", configs.DefaultPaths()))
	}
	d.logWarnings(c)
	err = d.run(ctx)
	log.Info("healthd has ended", zap.Error(err))
	return err
}

func newDaemon(c *configs.Config, r *reloads, log *zap.Logger, n *notifier, o *opened) *daemon {
	restarters := map[string]supervisor.Restarter{}
	askers := map[string]prober.Engine{}
	witnesses := map[string]recorder.Engine{}
	for _, e := range o.engines {
		restarters[e.name], askers[e.name], witnesses[e.name] = restarter{e.client, e}, e.client, e.client
	}
	p := prober.New(prober.Config{UserAgent: "healthd/" + thisBuild().version, Engines: askers})
	records := recorder.New(recorder.Config{Dir: recordsDir(c), Engines: witnesses, Asker: p, History: o.journal, Journal: o.journal})
	point := newStandpoint()
	cannotEnter := point.Enters
	d := &daemon{
		cannotEnter: cannotEnter, point: point,

		reloadMetrics: metrics.NewReload(),

		begun: c, reloads: r, log: log, notifier: n, listeners: o.listeners, engines: o.engines, journal: o.journal, prober: p, haproxy: o.haproxy, recorder: records,
		supervisor: supervisor.New(supervisor.Config{
			Resolve:  c.Resolve,
			Runtimes: restarters,
			Prober:   p,
			Journal:  o.journal,
			Guard:    c.Guard,
			Store:    o.journal,
			Memories: o.journal.Memories(),
			Rebooted: rebooted(o.engines, o.journal.Boot, o.boot),

			Publisher: o.haproxy,
			Recorder:  records,
			Places:    placesOf(o.fleet),
			Shutdown:  c.Daemon.Shutdown,

			CannotEnter: textOf(cannotEnter),
		}),
	}
	if d.fleet = o.fleet; d.fleet != nil {
		d.supervisor.Board().ExpectRemote()
		d.tellFiles(o.files)
	}
	d.dns = dns.New(d.supervisor.Board(), o.journal)
	d.notifications = newNotifications(c, d.supervisor.Board(), o.journal)
	d.publisher = newPublisher(c, o.files, o.journal)
	d.report = report.Open(report.Config{Dir: c.State.Dir, Board: d.supervisor.Board(), Journal: o.journal})
	standIn(point, o.engines, d.tellContainer)
	d.use(c)
	return d
}

// use makes c the configuration in force. The daemon keeps the one that it began with, but nothing that this one has of
// containers.
func (d *daemon) use(c *configs.Config) {
	if before := d.config.Swap(c); before != nil {
		before.Retire()
	}
	d.reloadMetrics.Certificates(c.CertificateEnds())
	for _, e := range d.engines {
		e.rivals.observes.Store(c.Observe)
	}
}

// recordsDir returns where flight records are kept; empty: in memory.
func recordsDir(c *configs.Config) string {
	if c.State.Dir == "" {
		return ""
	}
	return filepath.Join(c.State.Dir, "records")
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
		Board: board, History: d.journal, Controller: d.supervisor, Records: d.recorder, Warnings: d.shownWarnings, Reload: d.reloads.wait, NotifyTest: d.testNotify, Unsupervised: d.unsupervised, Report: d.reportOf,
		Metrics: metrics.Handler(board, thisBuild().version, errorLog, d.collectors()...), Checked: d.haproxy.Checked, ChecksFrom: d.begun.HAProxy.ChecksFrom, TraefikAsks: func() { d.traefik.asked(time.Now()) },
		Fleet: d.fleetOf(),
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
			return agent.Serve(ctx, ln, board, d.haproxy.Sticky, connections(agentShare))
		}})
	}
	if ls := d.listeners.dns; ls != nil {
		servers = append(servers, server{"answer DNS queries", func(ctx context.Context) error {
			return d.dns.Serve(ctx, ls, min(connections(dnsShare), dns.MaxTCP))
		}})
	}
	servers = append(servers, server{"keep flight records", d.recorder.Run}, server{"push to HAProxy", func(ctx context.Context) error {
		return d.haproxy.Run(ctx, d.outletsSupervisor())
	}}, server{"write published files", func(ctx context.Context) error {
		return d.publisher.Run(ctx, d.outletsSupervisor())
	}})
	if d.fleet != nil {
		servers = append(servers, server{"share members with the fleet", func(ctx context.Context) error {
			return d.fleet.Run(ctx, d.supervisor)
		}})
	}
	servers = append(servers, server{"notify", d.notifications.Run})
	servers = append(servers, server{"keep the report", d.report.Run})
	for _, e := range d.engines {
		w := runtime.Watcher{
			Name: e.name, Source: e.lock, Since: d.journal.Seen(e.name), KnownRun: knownRuns(d.journal, e.name), Relist: e.relist,
			Wanted: d.wanted, Refresh: e.refresh, Log: d.log,
		}
		servers = append(servers, server{"watch " + e.name, func(ctx context.Context) error {
			return e.lock.whileFree(ctx, func(ctx context.Context) error { return w.Run(ctx, d.supervisor.Deliver) })
		}})
	}
	return servers
}

// collectors returns the metrics of what is not on the board.
func (d *daemon) collectors() []prometheus.Collector {
	all := []prometheus.Collector{d.haproxy, d.reloadMetrics, d.notifications, d.report, d.publisher, metrics.NewCommands(d.prober.Waits), metrics.NewLog(d.logQueue.dropped.Load)}
	if d.begun.Listen.DNS != "" {
		all = append(all, d.dns)
	}
	if d.fleet != nil {
		all = append(all, d.fleet)
	}
	if d.begun.State.Dir != "" {
		all = append(all, metrics.NewJournal(d.journal.Up))
	}
	return all
}

// wanted says whether a container is supervised, or has invalid labels, which status shows.
func (d *daemon) wanted(t runtime.Traits) bool { return d.config.Load().MaySupervise(t) }
