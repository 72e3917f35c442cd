package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"healthd/runtime"
)

// rivals are the usual names, of containers or Compose services, of other programs that
// restart unhealthy containers.
var rivals = []string{"autoheal", "deunhealth"}

// rivalDetector is an engine's Source that looks for a running rival in each list.
// Watcher.Wanted cannot do that: it does not get states, and a stopped rival does no harm.
type rivalDetector struct {
	runtime.Source
	engine string
	relist time.Duration
	log    *zap.Logger
	newest atomic.Pointer[rivalSeen] // nil when there was none
}

// rivalSeen is a rival that ran when a list was made.
type rivalSeen struct {
	name string
	at   time.Time
}

// List returns the engine's list.
func (l *rivalDetector) List(ctx context.Context) ([]runtime.Summary, error) {
	all, err := l.Source.List(ctx)
	if i := slices.IndexFunc(all, isRival); i >= 0 {
		now := time.Now()
		known := l.warning(now) != ""
		l.newest.Store(&rivalSeen{all[i].Name, now})
		if !known {
			l.log.Warn("another program also restarts containers", zap.String("warning", l.warning(now)))
		}
	}
	return all, err
}

// isRival goes by names: a list has nothing else that shows what a container does. A
// restarting rival counts, because it will run again.
func isRival(s runtime.Summary) bool {
	if s.State != runtime.Running && s.State != runtime.Restarting {
		return false
	}
	return slices.ContainsFunc(rivals, func(rival string) bool {
		return strings.Contains(strings.ToLower(s.Name), rival) ||
			strings.Contains(strings.ToLower(s.Labels["com.docker.compose.service"]), rival)
	})
}

// warning is about the rival, and empty when none was in the last three lists.
func (l *rivalDetector) warning(now time.Time) string {
	const lists = 3
	s := l.newest.Load()
	if s == nil || now.Sub(s.at) > lists*l.relist {
		return ""
	}
	return fmt.Sprintf("container %s (%s) runs beside healthd: by its name it also restarts unhealthy containers, and ignores drain, back-off and hold",
		s.name, l.engine)
}

// warnings returns the warnings that concern no single container.
func (d *daemon) warnings() []string {
	var all []string
	if text := d.refused.Load().warning(); text != "" {
		all = append(all, text)
	}
	now := time.Now()
	for _, e := range d.engines {
		if text := e.rivals.warning(now); text != "" {
			all = append(all, text)
		}
	}
	return all
}
