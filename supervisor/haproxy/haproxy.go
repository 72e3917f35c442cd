// Package haproxy keeps the servers in HAProxy's backends equal to the supervisor's
// containers, through HAProxy's Runtime API (stats socket). It also learns from HAProxy
// when a server has no request under way (drained), and which server is the last one up.
//
//	supervisor ── Changed ──▶ instance.run, one goroutine for each HAProxy: sync
//	                            Board ── roster ──▶ what each backend should have
//	                            look: show info, servers state, stat ──▶ what it has
//	                            plan.compute: the difference, as commands (no I/O)
//	                            execute ──▶ HAProxy
//	                            publish ──▶ LastUp;  reportDrained ──▶ Supervisor.Drained
//	                            again on Changed, when a look is due (pace.go), and for a new process
//
// Each whole look compares anew, so a restart of healthd or HAProxy loses nothing. Readiness alone
// is compared for the servers that it is about (watch.go). Whether a container is ready is decided
// by package supervisor.
//
// healthd sets agent up, agent down and weights, as the agent check does. It never sets a
// server that takes traffic to drain or maint: those states are the operator's.
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
	EventLost  = "HAProxyLost"  // HAProxy does not answer
	EventBack  = "HAProxyBack"  // it answers again, or is a new process
	EventError = "HAProxyError" // it refused a command, or gave an invalid answer
	// EventServer says which slot of a server-template a container got.
	EventServer = "HAProxyServer"
)

// Config is the configuration of New.
type Config struct {
	Sockets []string // Runtime APIs: "unix@/PATH", "ipv4@HOST:PORT", "ipv6@[HOST]:PORT", or a path
	Agent   string   // host:port where healthd answers agent checks
	Journal supervisor.Journal
}

// Supervisor is what HAProxy needs of supervisor.Supervisor.
type Supervisor interface {
	Board() *supervisor.Board
	// Drained says that no request is under way to that run, of this host or another one.
	Drained(ctx context.Context, run runtime.Run) error
	// NotServed says of a run that awaits Drained that no HAProxy has its backend: all have been asked lately.
	NotServed(ctx context.Context, run runtime.Run) error
}

// HAProxy pushes to all configured HAProxy instances. It is a supervisor.Publisher and a
// prometheus.Collector. Its methods may be called from any goroutine.
type HAProxy struct {
	agent agentAddress
	// agentOnAllAddresses says that healthd answers on every address of the host, of which agent
	// is but one.
	agentOnAllAddresses bool
	reloadGrace         time.Duration
	journal             supervisor.Journal
	instances           []*instance
	httpChecks          checks
	claims              claims
	metrics             *metrics
	problems            supervisor.Problems // by socket

	changedAt     atomic.Pointer[time.Time] // of the newest Changed
	mu            sync.Mutex
	drainReported map[runtime.Run]time.Time // that they are drained, or not served
}

// New returns an HAProxy that does nothing until Run is called. Without sockets it only
// notes HTTP checks. It returns an error for an invalid socket or agent address.
func New(c Config) (*HAProxy, error) {
	h := &HAProxy{journal: c.Journal, metrics: newMetrics(), reloadGrace: reloadGrace, drainReported: map[runtime.Run]time.Time{}}
	if len(c.Sockets) == 0 {
		return h, nil
	}
	host, port, err := net.SplitHostPort(c.Agent)
	if err == nil {
		h.agent.port, err = strconv.Atoi(port)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot use the agent address for HAProxy: %w", err)
	}
	h.agent.host = clientHost(host)
	h.agentOnAllAddresses = h.agent.host != host
	for _, text := range c.Sockets {
		s, err := newSocket(text)
		if err != nil {
			return nil, err
		}
		h.instances = append(h.instances, newInstance(h, s))
		h.metrics.begin(s)
	}
	return h, nil
}

// clientHost returns the host at which a client on this machine reaches a listener.
func clientHost(host string) string {
	ip, err := netip.ParseAddr(host)
	switch {
	case host == "", err == nil && ip.IsUnspecified() && ip.Is4():
		return "127.0.0.1"
	case err == nil && ip.IsUnspecified():
		return "::1"
	}
	return host
}

// Run pushes to all instances until ctx ends. Their last state stays. It returns nil.
func (h *HAProxy) Run(ctx context.Context, s Supervisor) error {
	var links sync.WaitGroup
	for _, l := range h.instances {
		links.Go(func() { l.run(ctx, s) })
	}
	<-ctx.Done()
	links.Wait()
	return nil
}

// Changed implements supervisor.Publisher.
func (h *HAProxy) Changed(id string) {
	now := time.Now()
	h.changedAt.Store(&now)
	for _, l := range h.instances {
		l.changes.tell(id, now)
	}
}

// Problems returns which instances do not answer, and what of each cannot be brought into the wanted state, for people.
func (h *HAProxy) Problems() []string { return h.problems.All() }

// LastUp implements supervisor.Publisher: it names the backend in which the container is
// the last server up, or returns "".
func (h *HAProxy) LastUp(id string) string {
	now := time.Now()
	for _, l := range h.instances {
		// Since a report before the newest change, another server may be about to be up.
		if r := l.report.Load(); r.fresh(now) && r.lastUp[id] != "" && r.since(h.changedAt.Load()) {
			return "backend " + r.lastUp[id] + " of HAProxy"
		}
	}
	return h.httpChecks.where(id, now)
}

// Sticky says that an instance sends clients of the backend to the server that they had, and goes on with it at weight 0:
// to drain a server there is to take it down.
func (h *HAProxy) Sticky(backend string) bool {
	for _, l := range h.instances {
		if r := l.report.Load(); r != nil && r.sticky[backend] {
			return true
		}
	}
	return false
}

// reportDrained calls Supervisor.Drained for each stopping member to which no instance has
// a request under way, and Supervisor.NotServed for one whose backend none has. While an
// instance does not answer, it calls neither.
func (h *HAProxy) reportDrained(ctx context.Context, s Supervisor, all *roster) {
	const again = time.Second
	now := time.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	for run, at := range h.drainReported {
		if now.Sub(at) > again {
			delete(h.drainReported, run)
		}
	}
	for backend, r := range all.backends {
		if r.awaiting == 0 {
			continue
		}
		for i := range r.members {
			m := &r.members[i]
			if _, reported := h.drainReported[m.run]; !m.awaitsDrain || reported {
				continue
			}
			switch h.servingOf(backend, m.run, now) {
			case drained:
				h.drainReported[m.run] = now
				_ = s.Drained(ctx, m.run) // fails when the supervisor has ended
			case notServed:
				h.drainReported[m.run] = now
				_ = s.NotServed(ctx, m.run) // as that
			}
		}
	}
}

// serving is what the instances do with a run.
type serving int

const (
	unclear   serving = iota // some may have requests under way
	drained                  // those that have its backend have none
	notServed                // none has its backend
)

func (h *HAProxy) servingOf(backend string, run runtime.Run, now time.Time) serving {
	state := notServed
	for _, l := range h.instances {
		if l.standsBy.Load() {
			continue
		}
		r := l.report.Load()
		if !r.fresh(now) {
			return unclear
		}
		switch has, asked := r.backends[backend]; {
		case has && !r.idle[run]:
			return unclear
		case has:
			state = drained
		case !asked && state == notServed:
			state = unclear
		}
	}
	return state
}

// report is what one instance showed in its last sync. Nobody changes it.
type report struct {
	at       time.Time
	backends map[string]bool      // false: the instance has no such backend
	sticky   map[string]bool      // backends that send clients to the server that they had
	idle     map[runtime.Run]bool // gets no new requests, and none is under way
	lastUp   map[string]string    // by container ID: the backend in which it is the last one up
}

// since says that the report began at that moment or later; nil is a moment before all.
func (r *report) since(at *time.Time) bool { return at == nil || !r.at.Before(*at) }

// fresh says that the report is recent enough to be used; nil is not.
func (r *report) fresh(now time.Time) bool {
	const age = 5 * time.Second
	return r != nil && now.Sub(r.at) < age
}

// reportPointer lets other goroutines read the report while the next one is made.
type reportPointer = atomic.Pointer[report]
