package main

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"healthd/configs/importer"
	"healthd/runtime"
)

// rivalDetector is an engine's Source that looks for a running rival in each list.
// Watcher.Wanted cannot do that: it does not get states, and a stopped rival does no harm.
type rivalDetector struct {
	runtime.Source
	engine string
	relist time.Duration
	shared bool // another healthd may supervise other containers of the engine
	log    *zap.Logger
	newest atomic.Pointer[rivalSeen] // nil when there was none
	// observes says that healthd restarts nothing: a rival is then the only master.
	observes atomic.Bool
}

// rivalSeen is a rival that ran when a list was made.
type rivalSeen struct {
	name, image string
	at          time.Time
}

// List returns the engine's list.
func (l *rivalDetector) List(ctx context.Context) ([]runtime.Summary, error) {
	all, err := l.Source.List(ctx)
	if i := slices.IndexFunc(all, l.isRival); i >= 0 && !l.observes.Load() {
		now := time.Now()
		known := l.warning(now) != ""
		l.newest.Store(&rivalSeen{all[i].Name, importer.ImageName(all[i].Image), now})
		if !known {
			l.log.Warn("another program also restarts containers", zap.String("warning", l.warning(now)))
		}
	}
	return all, err
}

// ownImage is the name of healthd's own images.
const ownImage = "healthd"

// isRival goes by the image: a name alone shows nothing, nor does a label of those it may restart. A restarting rival
// counts, because it will run again; another healthd does, which engineLock does not see in a network of its own.
func (l *rivalDetector) isRival(s runtime.Summary) bool {
	if s.State != runtime.Running && s.State != runtime.Restarting || s.Self {
		return false
	}
	image := importer.ImageName(s.Image)
	return image == ownImage && !l.shared || slices.Contains(importer.HealerImages(), image)
}

// warning is about the rival. It is empty when none was in the last three lists, and while healthd only observes.
func (l *rivalDetector) warning(now time.Time) string {
	const lists = 3
	s := l.newest.Load()
	if s == nil || l.observes.Load() || now.Sub(s.at) > lists*l.relist {
		return ""
	}
	if s.image == ownImage {
		return fmt.Sprintf("container %s (%s) runs another healthd by its image: each takes the other's stops for an operator's", s.name, l.engine)
	}
	return fmt.Sprintf("container %s (%s) runs beside healthd: by its image it also restarts unhealthy containers, and ignores drain, back-off and hold",
		s.name, l.engine)
}

// shownWarnings returns the warnings that concern no single container, with those of the engines, which
// the log has already.
func (d *daemon) shownWarnings() []string {
	all := slices.Concat(d.warnings(), lostEngines(d.supervisor.Board().Runtimes()), refusedCalls(d.engines),
		d.fleetWarnings(), d.haproxy.Problems(), d.publisher.Problems(), d.notifications.Problems(), jobWarnings(d.supervisor.Board()))
	if problem := d.journal.Problem(); problem != "" {
		all = append(all, problem)
	}
	if problem := d.logQueue.problem(); problem != "" {
		all = append(all, problem)
	}
	if text := d.toldLoopback(d.supervisor.Board(), time.Now()); text != "" {
		all = append(all, text)
	}
	if d.supervisor.Board().HostSuspect() {
		all = append(all, "no network probe of this host has an answer: is it the host's network, or its load?")
	}
	return all
}

// warnings returns those of shownWarnings that nothing else tells.
func (d *daemon) warnings() []string {
	var all []string
	if text := d.refused.Load().warning(); text != "" {
		all = append(all, text)
	}
	now := time.Now()
	if text := d.traefikUnexpected(now); text != "" {
		all = append(all, text)
	}
	for _, e := range d.engines {
		if text := e.rivals.warning(now); text != "" {
			all = append(all, text)
		}
	}
	return all
}
