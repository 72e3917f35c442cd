// Package haproxy keeps the servers of HAProxy's backends equal to the supervisor's
// containers, over HAProxy's Runtime API, and knows what HAProxy shows of them. It
// decides nothing: what is pushed follows from the board alone, and is compared with
// what HAProxy shows again and again, so nothing is lost when either of them restarts.
//
// It says agent up or down and a weight, as the agent check does, and never drain or
// maint to a server that takes part: those are the operator's.
package haproxy

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"healthd/runtime"
	"healthd/supervisor"
)

// The reasons of events.
const (
	EventLost  = "HAProxyLost"  // it cannot be told anything
	EventBack  = "HAProxyBack"  // it can be again, or is a new process
	EventError = "HAProxyError" // it refuses something, or answers what is not understood
	// EventServer concerns a container: the slot of a server-template that it has.
	EventServer = "HAProxyServer"
)

// Config is what an HAProxy works with.
type Config struct {
	Sockets []string // of Runtime APIs: "unix@/PATH", "ipv4@HOST:PORT", "ipv6@[HOST]:PORT", or a path
	Agent   string   // host:port where healthd answers agent checks
	Journal supervisor.Journal
}

// Supervisor is whom HAProxy is told about.
type Supervisor interface {
	Board() *supervisor.Board
	// Drained says that nothing is under way at that run any more.
	Drained(ctx context.Context, run runtime.Run) error
}

// HAProxy is all the HAProxies that are told. It is a supervisor.Publisher and a
// prometheus.Collector; its methods may be called from any goroutine.
type HAProxy struct {
	agent agent
	// everywhere says that healthd answers on every address of the host, of which agent
	// is but one.
	everywhere bool
	lingering  time.Duration
	journal    supervisor.Journal
	links      []*link
	seen       checks
	metrics    *meters

	mu   sync.Mutex
	told map[runtime.Run]time.Time // that they are drained
}

// New returns what does nothing until it is run. Without sockets it only takes note of
// checks.
func New(c Config) (*HAProxy, error) {
	h := &HAProxy{journal: c.Journal, metrics: newMeters(), lingering: lingering, told: map[runtime.Run]time.Time{}}
	if len(c.Sockets) == 0 {
		return h, nil
	}
	host, port, err := net.SplitHostPort(c.Agent)
	if err == nil {
		h.agent.port, err = strconv.Atoi(port)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot tell HAProxy where agent checks are answered: %w", err)
	}
	h.agent.host = reachable(host)
	h.everywhere = h.agent.host != host
	for _, text := range c.Sockets {
		s, err := newSocket(text)
		if err != nil {
			return nil, err
		}
		h.links = append(h.links, newLink(h, s))
	}
	return h, nil
}

// reachable is where a client on this host finds what listens there.
func reachable(host string) string {
	ip, err := netip.ParseAddr(host)
	switch {
	case host == "", err == nil && ip.IsUnspecified() && ip.Is4():
		return "127.0.0.1"
	case err == nil && ip.IsUnspecified():
		return "::1"
	}
	return host
}

// Run tells all HAProxies until ctx ends; what they were told last stays.
func (h *HAProxy) Run(ctx context.Context, s Supervisor) error {
	var links sync.WaitGroup
	for _, l := range h.links {
		links.Go(func() { l.run(ctx, s) })
	}
	<-ctx.Done()
	links.Wait()
	return nil
}

// Changed implements supervisor.Publisher.
func (h *HAProxy) Changed() {
	now := time.Now()
	for _, l := range h.links {
		select {
		case l.changed <- now:
		default: // it has not looked since the last one
		}
	}
}

// LastUp implements supervisor.Publisher.
func (h *HAProxy) LastUp(id string) string {
	now := time.Now()
	for _, l := range h.links {
		if r := l.report.Load(); r.fresh(now) && r.last[id] != "" {
			return "backend " + r.last[id] + " of HAProxy"
		}
	}
	return h.seen.last(id, now)
}

// settle tells the supervisor of those who are drained: no HAProxy has anything under
// way there, as far as all of them can be heard.
func (h *HAProxy) settle(ctx context.Context, s Supervisor, all map[string][]member) {
	const again = time.Second
	now := time.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	for run, at := range h.told {
		if now.Sub(at) > again {
			delete(h.told, run)
		}
	}
	for backend, members := range all {
		for _, m := range members {
			if _, told := h.told[m.run]; m.awaits && !told && h.drained(backend, m.run, now) {
				h.told[m.run] = now
				_ = s.Drained(ctx, m.run) // fails when the supervisor has ended
			}
		}
	}
}

func (h *HAProxy) drained(backend string, run runtime.Run, now time.Time) bool {
	known := false
	for _, l := range h.links {
		r := l.report.Load()
		if !r.fresh(now) {
			return false
		}
		if r.backends[backend] {
			known = true
			if !r.idle[run] {
				return false
			}
		}
	}
	return known
}

// report is what one HAProxy showed lately. It is never changed.
type report struct {
	at       time.Time
	backends map[string]bool      // that are there
	idle     map[runtime.Run]bool // nothing comes there and nothing is under way
	last     map[string]string    // by container ID: the backend in which it is the last one up
}

// fresh says that the report still tells something; nil does not.
func (r *report) fresh(now time.Time) bool {
	const age = 5 * time.Second
	return r != nil && now.Sub(r.at) < age
}

// pointer is a report that is read while the next one is made.
type pointer = atomic.Pointer[report]
