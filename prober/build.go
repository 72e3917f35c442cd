package prober

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Config is what all probes and hooks of a Prober share.
type Config struct {
	// UserAgent is that of HTTP and gRPC probes; empty: "healthd". HTTP hooks add
	// "-lifecycle" to the product: "healthd-lifecycle/1.0".
	UserAgent string
	Engines   map[string]Engine // by name of the runtime
	// FollowNonLocalRedirects makes HTTP probes and hooks follow redirects to other
	// hosts. The answer of such a host then counts as the container's.
	FollowNonLocalRedirects bool
	// MaxStarts is how many commands of probes an engine may be starting at once, and how
	// many of hooks. Once its process runs, a command no longer counts. 0 means 8 for each
	// CPU that Go may use: starting a command inside a container takes about 40 ms of CPU,
	// so 8 per CPU have started after 320 ms, well within the usual timeout of 1 s.
	MaxStarts int
	// MaxKept is how many connections probes with KeepAlive may keep while they do not use them,
	// all together. Beyond it, they are closed. 0 means half of the descriptors that the process may
	// have beside those of healthd's listeners, and 16,384 at most.
	MaxKept int
}

const (
	defaultUserAgent = "healthd"
	startsPerCPU     = 8
)

// Prober makes probes and hooks.
type Prober struct {
	userAgent     string
	engines       map[string]*engine
	checkRedirect func(req *http.Request, via []*http.Request) error
	exchanges     sync.Pool // of *exchange
	grpcExchanges sync.Pool // of *grpcExchange
	credentials   credentialsRead
	allowance     allowance // of kept connections
}

// New returns a Prober. It need not be closed.
func New(c Config) *Prober {
	if c.UserAgent == "" {
		c.UserAgent = defaultUserAgent
	}
	if c.MaxKept <= 0 {
		c.MaxKept = defaultMaxKept()
	}
	if c.MaxStarts <= 0 {
		c.MaxStarts = startsPerCPU * runtime.GOMAXPROCS(0)
	}
	p := &Prober{
		userAgent:     c.UserAgent,
		engines:       make(map[string]*engine, len(c.Engines)),
		checkRedirect: sameHostRedirects,
		exchanges:     sync.Pool{New: func() any { return newExchange() }},
		grpcExchanges: sync.Pool{New: func() any { return newGRPCExchange() }},
	}
	p.allowance.left.Store(int64(c.MaxKept))
	for name, e := range c.Engines {
		p.engines[name] = &engine{e, newCommands("probes", c.MaxStarts), newCommands("hooks", c.MaxStarts), newCommands("flight records", c.MaxStarts)}
	}
	if c.FollowNonLocalRedirects {
		p.checkRedirect = limitRedirects
	}
	return p
}

// Probe returns the probe of t with h. An error means that h is invalid for every run:
// it has no handler, its port or a header is invalid, or Config has no such runtime. A
// run without an address, or whose variables make the command too long, is no error:
// its probe returns Unknown.
func (p *Prober) Probe(h Handler, t Target) (Probe, error) {
	a, err := p.asker(h, t)
	if why, ok := errors.AsType[cannotAsk](err); ok {
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

// errNoAddress is no error of the configuration: the next run may have an address.
const errNoAddress = cannotAsk("container has no address")

// errOwnLoopback keeps healthd from asking itself in the place of the host.
const errOwnLoopback = cannotAsk("healthd runs in a container with a network of its own, where a loopback address is not the host's: run it with --network=host")

// endpoint is what the socket of a probe connects to.
type endpoint struct {
	host   string
	sa     syscall.Sockaddr // of host and port; nil: host is a name
	inside *Namespace       // where the socket is opened; nil: on the host
	// confined says that the socket is opened in the network of healthd's own container.
	confined bool
}

// loopbackHost is the host of a probe inside the container's network namespace. Services
// that listen on all addresses answer there, too.
const loopbackHost = "127.0.0.1"

func newEndpoint(via Via, host string, port int, t Target) (endpoint, error) {
	if port < 1 || port > 65535 {
		return endpoint{}, fmt.Errorf("port %d is not between 1 and 65535", port)
	}
	e := endpoint{host: cmp.Or(host, t.Address)}
	if via.inside(host, t.Address) {
		e = endpoint{host: cmp.Or(host, loopbackHost), inside: t.Namespace}
		if why := t.Namespace.notEnterable(); why != nil {
			return endpoint{}, unreachable(via, why, t)
		}
	}
	if e.host == "" {
		return endpoint{}, noAddress(t)
	}
	addr, err := netip.ParseAddr(e.host)
	if e.inside == nil && t.Confined && (isLocalhost(e.host) || err == nil && isOwn(addr.Unmap().WithZone(""))) {
		return endpoint{}, errOwnLoopback
	}
	e.confined = e.inside == nil && t.Confined
	if err == nil && addr.Zone() == "" { // package net resolves names and zones
		e.sa = sockaddr(netip.AddrPortFrom(addr.Unmap(), uint16(port)))
	}
	return e, nil
}

// isLocalhost says whether a name is one that resolvers take for a loopback address (RFC 6761).
func isLocalhost(name string) bool {
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	return name == "localhost" || strings.HasSuffix(name, ".localhost")
}

// isOwn says whether connections to the address go to this host, as those to 0.0.0.0 do, too.
func isOwn(addr netip.Addr) bool { return addr.IsLoopback() || addr.IsUnspecified() }

// unreachable says why a run cannot be asked in its network namespace.
func unreachable(via Via, why error, t Target) cannotAsk {
	if via == ViaContainer {
		return cannotAsk(why.Error())
	}
	return noAddress(t) + ", and healthd " + cannotAsk(why.Error())
}

// noAddress says why there is nothing to connect to.
func noAddress(t Target) cannotAsk {
	if t.Unreached != "" {
		return cannotAsk("cannot reach the container: " + t.Unreached)
	}
	return errNoAddress
}

// engine is one of Config.Engines with the commands that run there. Engines do not share
// their bounds: one that hangs must not hold up the probes of another one. Probes, hooks and
// inquiries do not either: hooks take long, and what is asked for a flight record may hang.
type engine struct {
	Engine
	probes, hooks, inquiries *commands
}

func (p *Prober) engine(t Target) (*engine, error) {
	e := p.engines[t.Runtime]
	if e == nil {
		return nil, fmt.Errorf("no engine for runtime %q", t.Runtime)
	}
	return e, nil
}

// An asker carries out one attempt of a probe. An error means that it could not ask, and
// another attempt may succeed. An Unknown result means that another attempt is useless.
type asker interface {
	ask(ctx context.Context, timeout time.Duration) (Result, error)
}

// probe makes a Probe of an asker: it adds retries and cancellation.
type probe struct{ asker }

const (
	maxAttempts = 3
	// retryWithin bounds how much retries add to the timeout. Without a descriptor or
	// an engine, an attempt fails at once.
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
			// A connection that ctx interrupted looks like one that timed out.
			return cancelled(ctx, r.Latency)
		}
		if err == nil {
			return p.unlessLate(r, timeout)
		}
		if attempt == maxAttempts || time.Since(begin) > min(retryWithin, timeout) {
			return Result{Outcome: Unknown, Cause: NotAsked, Output: clean(err.Error()), Latency: r.Latency}
		}
	}
}

// lateBy is how long after its timeout a probe ends at most on a host where healthd runs.
const lateBy = time.Second

// unlessLate returns r, unless healthd did not run when the timeout was over, as in a suspended host or a cgroup without
// CPU: whether an answer was there in time is not known. Of commands the engines know when they ended.
func (p probe) unlessLate(r Result, timeout time.Duration) Result {
	if _, command := p.asker.(*execProbe); command || r.Outcome != Failure || r.Cause != Timeout || r.Latency < timeout+lateBy {
		return r
	}
	return Result{Outcome: Unknown, Cause: Late, Latency: r.Latency, Output: fmt.Sprintf(
		"healthd did not run: it looked for an answer after %v, and the timeout is %v", r.Latency.Round(time.Millisecond), timeout)}
}

// Close implements Probe.
func (p probe) Close() {
	if keeps, ok := p.asker.(interface{ close() }); ok {
		keeps.close()
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

// cannotAsk is why this run cannot be asked although the handler is valid. It is an
// error first, and then the Probe or Hook that always returns it.
type cannotAsk string

// Error implements error.
func (u cannotAsk) Error() string { return string(u) }

// Ask implements Probe.
func (u cannotAsk) Ask(context.Context, time.Duration) Result { return notAsked(string(u)) }

// Close implements Probe.
func (u cannotAsk) Close() {}

// Run implements Hook.
func (u cannotAsk) Run(context.Context) HookResult { return HookResult{Err: u, NotAsked: true} }

func notAsked(why string) Result {
	return Result{Outcome: Unknown, Cause: NotAsked, Output: clean(why)}
}
