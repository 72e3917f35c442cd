package prober

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"runtime"
	"sync"
	"time"
)

// Config is what all probes and hooks of a Prober share.
type Config struct {
	// UserAgent is that of HTTP and gRPC probes; empty: "healthd". HTTP hooks add
	// "-lifecycle" to the product: "healthd-lifecycle/1.0".
	UserAgent string
	Engines   map[string]Engine // by name of the runtime
	// FollowNonLocalRedirects makes HTTP probes and hooks follow redirects to
	// other hosts. Then what such a host says counts as what the container says.
	FollowNonLocalRedirects bool
	// MaxExecs bounds the commands of probes that run at once. 0 means 8 for each CPU that
	// Go may use: starting a command inside a container costs some 40 ms of CPU,
	// so that a full burst has started within 320 ms whatever the machine, well
	// inside the usual timeout of 1 s.
	MaxExecs int
}

const (
	defaultUserAgent = "healthd"
	execsPerCPU      = 8
	// maxHooks bounds the commands of hooks that run at once. A pre-stop hook may
	// take all of its grace, and probes must not wait for it.
	maxHooks = 1024
)

// Prober makes probes and hooks.
type Prober struct {
	userAgent     string
	engines       map[string]Engine
	execSlots     chan struct{}
	hookSlots     chan struct{}
	client        http.RoundTripper
	checkRedirect func(req *http.Request, via []*http.Request) error
	exchanges     sync.Pool // of *exchange
}

// New returns a Prober. It holds nothing that has to be closed.
func New(c Config) *Prober {
	if c.UserAgent == "" {
		c.UserAgent = defaultUserAgent
	}
	if c.MaxExecs <= 0 {
		c.MaxExecs = execsPerCPU * runtime.GOMAXPROCS(0)
	}
	p := &Prober{
		userAgent:     c.UserAgent,
		engines:       c.Engines,
		execSlots:     make(chan struct{}, c.MaxExecs),
		hookSlots:     make(chan struct{}, maxHooks),
		client:        newTransport(),
		checkRedirect: stayLocal,
		exchanges:     sync.Pool{New: func() any { return newExchange() }},
	}
	if c.FollowNonLocalRedirects {
		p.checkRedirect = stopLoops
	}
	return p
}

// Probe returns the probe that asks t as h says. An error means that h can never
// be asked: it has no handler, its port or a header is invalid, or nobody knows
// the runtime. A target without an address, or whose variables make a command too
// long, is no error, for it may be one of many runs: its probe answers Unknown.
func (p *Prober) Probe(h Handler, t Target) (Probe, error) {
	a, err := p.asker(h, t)
	if why, ok := errors.AsType[unasked](err); ok {
		return why, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot probe container %s: %w", t.ID, err)
	}
	return probe{a}, nil
}

func (p *Prober) asker(h Handler, t Target) (asker, error) {
	switch {
	case h.HTTPGet != nil:
		return p.httpProbe(h.HTTPGet, t)
	case h.TCPSocket != nil:
		return newTCPProbe(h.TCPSocket, t)
	case h.GRPC != nil:
		return p.grpcProbe(h.GRPC, t)
	case h.Exec != nil:
		return p.execProbe(h.Exec, t)
	case h.EngineHealth != nil:
		return p.engineProbe(t)
	}
	return nil, errNoHandler
}

var errNoHandler = errors.New("no handler")

// errNoAddress may pass without a change of the configuration.
const errNoAddress = unasked("container has no address")

// endpoint returns the host and port to ask, and their address if the host is not
// a name.
func endpoint(host string, port int, t Target) (string, netip.AddrPort, error) {
	if port < 1 || port > 65535 {
		return "", netip.AddrPort{}, fmt.Errorf("port %d is not between 1 and 65535", port)
	}
	if host == "" {
		host = t.Address
	}
	if host == "" {
		return "", netip.AddrPort{}, errNoAddress
	}
	addr, err := netip.ParseAddr(host)
	if err != nil || addr.Zone() != "" {
		// Names and zones are left to package net, which knows resolvers and
		// interfaces.
		return host, netip.AddrPort{}, nil
	}
	return host, netip.AddrPortFrom(addr.Unmap(), uint16(port)), nil
}

func (p *Prober) engine(t Target) (Engine, error) {
	e := p.engines[t.Runtime]
	if e == nil {
		return nil, fmt.Errorf("no engine for runtime %q", t.Runtime)
	}
	return e, nil
}

// An asker asks once. An error means that it could not ask, and that asking
// again at once may help; a Result of Unknown that it would not.
type asker interface {
	ask(ctx context.Context, timeout time.Duration) (Result, error)
}

// probe turns an asker into a Probe.
type probe struct{ asker }

const (
	maxAttempts = 3
	// retryWithin bounds what retries add to a timeout. What cannot be asked for
	// want of a descriptor or an engine says so at once.
	retryWithin    = 100 * time.Millisecond
	defaultTimeout = time.Second
)

// Ask implements Probe.
func (p probe) Ask(ctx context.Context, timeout time.Duration) Result {
	if timeout <= 0 {
		timeout = defaultTimeout
	}
	begin := time.Now()
	for attempt := 1; ; attempt++ {
		if ctx.Err() != nil {
			return cancelled(ctx, time.Since(begin))
		}
		start := time.Now()
		r, err := p.ask(ctx, timeout)
		if r.Latency == 0 {
			r.Latency = time.Since(start)
		}
		if ctx.Err() != nil && r.Outcome != Success {
			// A connection cut by ctx looks like one that timed out.
			return cancelled(ctx, r.Latency)
		}
		if err == nil {
			return r
		}
		if attempt == maxAttempts || time.Since(begin) > min(retryWithin, timeout) {
			return Result{Outcome: Unknown, Cause: NotAsked, Output: clean(err.Error()), Latency: r.Latency}
		}
	}
}

func cancelled(ctx context.Context, latency time.Duration) Result {
	return Result{
		Outcome: Unknown,
		Cause:   NotAsked,
		Output:  "probe cancelled: " + clean(context.Cause(ctx).Error()),
		Latency: latency,
	}
}

// unasked is why a target cannot be asked although the handler is right: first the
// error, then the Probe or the Hook made of it.
type unasked string

// Error implements error.
func (u unasked) Error() string { return string(u) }

// Ask implements Probe.
func (u unasked) Ask(context.Context, time.Duration) Result { return notAsked(string(u)) }

// Run implements Hook.
func (u unasked) Run(context.Context) HookResult { return HookResult{Err: u, NotAsked: true} }

func notAsked(why string) Result {
	return Result{Outcome: Unknown, Cause: NotAsked, Output: clean(why)}
}
