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

// rivals are programs that restart unhealthy containers, too, by what their
// containers and Compose services are called.
var rivals = []string{"autoheal", "deunhealth"}

// lookout is an engine's Source that looks through its lists for a rival that runs.
// Those who only choose containers are not told of states, and a rival that was
// stopped restarts nothing.
type lookout struct {
	runtime.Source
	engine string
	relist time.Duration
	log    *zap.Logger
	newest atomic.Pointer[sight] // nil when there was none; readers must not wait for lists
}

// sight is a rival that ran when a list was made.
type sight struct {
	name string
	at   time.Time
}

// List returns the engine's list.
func (l *lookout) List(ctx context.Context) ([]runtime.Summary, error) {
	all, err := l.Source.List(ctx)
	if i := slices.IndexFunc(all, isRival); i >= 0 {
		now := time.Now()
		known := l.warning(now) != ""
		l.newest.Store(&sight{all[i].Name, now})
		if !known {
			l.log.Warn("another program also restarts containers", zap.String("warning", l.warning(now)))
		}
	}
	return all, err
}

// isRival goes by names, the only thing in a list that tells what a container is for.
// A rival between two runs of its own will be back.
func isRival(s runtime.Summary) bool {
	if s.State != runtime.Running && s.State != runtime.Restarting {
		return false
	}
	return slices.ContainsFunc(rivals, func(rival string) bool {
		return strings.Contains(strings.ToLower(s.Name), rival) ||
			strings.Contains(strings.ToLower(s.Labels["com.docker.compose.service"]), rival)
	})
}

// warning says that a rival was seen, and nothing when that is three lists ago.
func (l *lookout) warning(now time.Time) string {
	const lists = 3
	s := l.newest.Load()
	if s == nil || now.Sub(s.at) > lists*l.relist {
		return ""
	}
	return fmt.Sprintf("container %s (%s) runs beside healthd: by its name it also restarts unhealthy containers, and ignores drain, back-off and hold",
		s.name, l.engine)
}

// warnings is what is to be said of no one container.
func (d *daemon) warnings() []string {
	var all []string
	now := time.Now()
	for _, e := range d.engines {
		if text := e.lookout.warning(now); text != "" {
			all = append(all, text)
		}
	}
	return all
}
