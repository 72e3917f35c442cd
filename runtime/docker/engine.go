// Package docker connects healthd to a Docker engine, or to another engine with
// Docker's API. An Engine is the runtime.Source of a Watcher, runs the commands of
// exec probes, reads HEALTHCHECK results, and starts and stops containers:
//
//	runtime.Watcher ── Subscribe, List, Inspect, EventHistory ──┐
//	prober          ── Exec, Health ────────────────────────────┤── Docker API
//	supervisor      ── Stop, Start, Accept ─────────────────────┘
//
// When to probe, stop or start is decided elsewhere.
package docker

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/docker/docker/api/types/versions"
	"github.com/docker/docker/client"
	"go.uber.org/zap"

	"healthd/runtime"
)

const (
	callTimeout   = 10 * time.Second
	acceptTimeout = 5 * time.Second
	listTimeout   = 30 * time.Second
	startTimeout  = 2 * time.Minute
	// stopMargin is added to the grace period: a client that gives up earlier reports
	// a failure while the engine is still stopping.
	stopMargin = 30 * time.Second

	oldestAPI = "1.41" // Docker 20.10
	idleConns = 32
)

// Config says which engine to speak to.
type Config struct {
	// Name is Container.Runtime of its containers; empty means "docker".
	Name string
	// Endpoint is "unix:///…", "tcp://…", "http://…" or "https://…"; empty means
	// DOCKER_HOST, else the default socket. DOCKER_TLS_VERIFY and DOCKER_CERT_PATH
	// turn TLS on, as for the docker command line, except on a Unix socket.
	Endpoint string
	// Network is the network whose address is used for a container that has several;
	// where it has no address, the first by name is used.
	Network string
	Away    func()      // is called when a call finds that nothing listens there; may be nil
	Log     *zap.Logger // may be nil
}

// Engine is a client of one engine. Any number of goroutines may use it. It
// implements runtime.Source and prober.Engine.
type Engine struct {
	conf Config
	log  *zap.Logger

	runningMarks sync.Map // marks of the commands that run
	owner        owner    // of these
	forged       forged
	labels       knownLabels
	refused      atomic.Pointer[[]string]
	clipped      atomic.Int64 // how many containers of the newest list have more labels than healthd reads

	// clientLock guards current. It is a channel, so that waiting for it ends with a
	// context.
	clientLock chan struct{}
	current    *client.Client
}

var _ runtime.Source = (*Engine)(nil)

// New returns a client that does not connect yet: an engine that is not there fails
// the first call. The error is about the endpoint or its certificates.
func New(conf Config) (*Engine, error) {
	if conf.Name == "" {
		conf.Name = "docker"
	}
	e := &Engine{conf: conf, log: conf.Log, clientLock: make(chan struct{}, 1), owner: newOwner()}
	if e.log == nil {
		e.log = zap.NewNop()
	}
	c, err := e.newClient()
	if err != nil {
		return nil, err
	}
	return e, c.Close()
}

// Close closes the idle connections. Calls under way go on.
func (e *Engine) Close() error {
	e.clientLock <- struct{}{}
	defer func() { <-e.clientLock }()
	return e.closeClient()
}

// Ping returns nil when the engine answers.
func (e *Engine) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	c, err := e.client(ctx)
	if err != nil {
		return err
	}
	if _, err := c.Ping(ctx); err != nil {
		return e.explain(err)
	}
	return nil
}

// Accept returns nil when the engine answers on a new connection. An engine that shuts
// down stops listening before it stops its containers, but still answers on connections
// that are open, and tells on its event stream what it stops: it is not Away yet.
func (e *Engine) Accept(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, acceptTimeout)
	defer cancel()
	c, err := e.newClient()
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := c.Ping(ctx); err != nil {
		return e.failure(err)
	}
	return nil
}

func (e *Engine) newClient() (*client.Client, error) {
	transport := &http.Client{
		Transport:     &http.Transport{MaxIdleConns: idleConns, MaxIdleConnsPerHost: idleConns, IdleConnTimeout: callTimeout},
		CheckRedirect: client.CheckRedirect,
	}
	opts := []client.Opt{client.WithHTTPClient(transport), client.WithUserAgent("healthd")}
	host, err := e.hostOptions()
	if err != nil {
		return nil, fmt.Errorf("cannot use the Docker endpoint %s: %w", e.endpoint(), err)
	}
	c, err := client.NewClientWithOpts(append(opts, host...)...)
	if err != nil {
		return nil, fmt.Errorf("cannot use the Docker endpoint %s: %w", e.endpoint(), err)
	}
	transport.Transport = boundedTransport{transport.Transport}
	return c, nil
}

// client returns a client that has negotiated the API version with the engine.
func (e *Engine) client(ctx context.Context) (*client.Client, error) {
	select {
	case e.clientLock <- struct{}{}:
		defer func() { <-e.clientLock }()
	case <-ctx.Done():
		return nil, e.explain(ctx.Err())
	}
	if e.current != nil {
		return e.current, nil
	}
	c, err := e.newClient()
	if err != nil {
		return nil, err
	}
	pinging, cancel := context.WithTimeout(ctx, callTimeout) // others wait for the lock
	defer cancel()
	ping, err := c.Ping(pinging)
	if err != nil {
		_ = c.Close()
		return nil, e.explain(err)
	}
	if ping.APIVersion == "" {
		ping.APIVersion = oldestAPI // a proxy that hides the header
	}
	if versions.LessThan(ping.APIVersion, oldestAPI) {
		_ = c.Close()
		return nil, fmt.Errorf("cannot use Docker at %s: it speaks API %s, and healthd needs %s (Docker 20.10) or newer",
			e.endpoint(), ping.APIVersion, oldestAPI)
	}
	c.NegotiateAPIVersionPing(ping)
	e.current = c
	return c, nil
}

// renewClient makes the next call negotiate the API version again: after a lost connection
// the engine may be another version.
func (e *Engine) renewClient(ctx context.Context) error {
	select {
	case e.clientLock <- struct{}{}:
		defer func() { <-e.clientLock }()
		return e.closeClient()
	case <-ctx.Done():
		return e.explain(ctx.Err())
	}
}

func (e *Engine) closeClient() error {
	if e.current == nil {
		return nil
	}
	c := e.current
	e.current = nil
	return c.Close()
}
