// Package targets answers the probes of a measurement, for all containers at once: each has its own loopback
// address. It notes when each probe came, which tells how late probes are without asking who sent them.
package targets

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"healthd/bench/engine"
)

// Targets are the servers of all containers.
type Targets struct {
	own     int // containers that have ports of their own
	failing atomic.Pointer[interval]
	mu      sync.Mutex
	probes  map[stream][]time.Time
	sick    map[stream]bool // which fail besides those of failing
	shared  int             // probes to ports that containers share
	opened  atomic.Int64
}

// stream is one probe of one container.
type stream struct {
	number int
	probe  string // the path, or "tcp"
}

// interval is the numbers of the containers with ports of their own that fail, from ≤ n < to. The others fail with all
// when to is above the former.
type interval struct{ from, to int }

// New returns targets that all succeed, of which so many have ports of their own.
func New(own int) *Targets {
	t := &Targets{own: min(own, engine.MaxOwn), probes: map[stream][]time.Time{}, sick: map[stream]bool{}}
	t.failing.Store(&interval{})
	return t
}

func (t *Targets) fails(number int) bool {
	f := t.failing.Load()
	if number == shared {
		return f.to > t.own
	}
	return f.from <= number && number < f.to
}

// setSick has a probe of a container fail from now on, or no more.
func (t *Targets) setSick(s stream, sick bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if sick {
		t.sick[s] = true
	} else {
		delete(t.sick, s)
	}
}

func (t *Targets) isSick(s stream) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.sick[s]
}

// shared is the number of a container that is not known by its port.
const shared = -1

// note notes that a probe has come to a local port, and returns which container's it is.
func (t *Targets) note(local net.Addr, probe string) (number int) {
	now := time.Now()
	port := local.(*net.TCPAddr).Port
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, first := range []int{engine.OwnPort, engine.OwnPort + engine.TCPOffset} {
		if number := port - first; 0 <= number && number < t.own {
			s := stream{number, probe}
			t.probes[s] = append(t.probes[s], now)
			return number
		}
	}
	t.shared++
	return shared
}

// Listens says whether targets of which so many have ports of their own listen on a port.
func Listens(port, own int) bool {
	own = min(own, engine.MaxOwn)
	for _, first := range []int{0, engine.TCPOffset} {
		shared, its := port-engine.SharedPort-first, port-engine.OwnPort-first
		if 0 <= shared && shared < engine.Kinds || 0 <= its && its < own {
			return true
		}
	}
	return port == engine.GRPCPort
}

// countedListener counts what it accepts.
type countedListener struct {
	net.Listener
	opened *atomic.Int64
}

// Accept implements net.Listener.
func (l countedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		l.opened.Add(1)
	}
	return c, err
}

// listen listens on ports of the loopback address.
func (t *Targets) listen(ctx context.Context, first, count int) ([]net.Listener, error) {
	var all []net.Listener
	for port := first; port < first+count; port++ {
		ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp4", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			return all, err
		}
		all = append(all, countedListener{ln, &t.opened})
	}
	return all, nil
}

// Serve answers probes until ctx ends.
func (t *Targets) Serve(ctx context.Context) error {
	web := &http.Server{Handler: http.HandlerFunc(t.web)}
	health := grpc.NewServer()
	healthpb.RegisterHealthServer(health, &healthServer{targets: t})
	ended := make(chan error, 1)
	serve := func(first, count int, serve func(net.Listener) error) error {
		lns, err := t.listen(ctx, first, count)
		for _, ln := range lns {
			context.AfterFunc(ctx, func() { _ = ln.Close() })
			go func() {
				if err := serve(ln); ctx.Err() == nil {
					select {
					case ended <- err:
					default:
					}
				}
			}()
		}
		return err
	}
	err := errors.Join(
		serve(engine.SharedPort, engine.Kinds, web.Serve), serve(engine.OwnPort, t.own, web.Serve),
		serve(engine.SharedPort+engine.TCPOffset, engine.Kinds, t.accept), serve(engine.OwnPort+engine.TCPOffset, t.own, t.accept),
		serve(engine.GRPCPort, 1, health.Serve),
	)
	if err == nil {
		select {
		case err = <-ended:
		case <-ctx.Done():
		}
	}
	_ = web.Close()
	health.Stop()
	return err
}

func (t *Targets) web(w http.ResponseWriter, r *http.Request) {
	local := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if number := t.note(local, r.URL.Path); t.fails(number) || t.isSick(stream{number, r.URL.Path}) {
		http.Error(w, "failing", http.StatusInternalServerError)
		return
	}
	_, _ = w.Write([]byte("ok\n"))
}

func (t *Targets) accept(ln net.Listener) error {
	for {
		c, err := ln.Accept()
		if err != nil {
			return err
		}
		t.note(c.LocalAddr(), "tcp")
		_ = c.Close()
	}
}

type healthServer struct {
	healthpb.UnimplementedHealthServer
	targets *Targets
}

// Check implements the health service.
func (h *healthServer) Check(ctx context.Context, _ *healthpb.HealthCheckRequest) (*healthpb.HealthCheckResponse, error) {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return nil, status.Error(codes.Internal, "no address")
	}
	s := healthpb.HealthCheckResponse_SERVING
	if h.targets.fails(h.targets.note(p.LocalAddr, "grpc")) {
		s = healthpb.HealthCheckResponse_NOT_SERVING
	}
	return &healthpb.HealthCheckResponse{Status: s}, nil
}
