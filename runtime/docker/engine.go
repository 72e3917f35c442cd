// Package docker speaks to Docker engines, and to others that speak Docker's
// API. It knows nothing of probes and decisions.
package docker

import (
	"context"
	"fmt"
	"net/http"
	"sync"
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
	// stopMargin is what the engine is granted beyond the grace period: a client
	// that gives up first reports a failure while the engine is still stopping.
	stopMargin = 30 * time.Second

	oldestAPI = "1.41" // Docker 20.10
	idleConns = 32
)

// Config says which engine to speak to.
type Config struct {
	// Name is Container.Runtime of its containers; empty means "docker".
	Name string
	// Endpoint is "unix:///…" or "tcp://…"; empty means what DOCKER_HOST says, else the
	// usual socket. DOCKER_TLS_VERIFY and DOCKER_CERT_PATH say whether what is no
	// socket is spoken to in TLS.
	Endpoint string
	// Network is whose address to prefer of a container with several networks;
	// else the first by name is taken.
	Network string
	Log     *zap.Logger
}

// Engine is a connection to one engine. It may be used by any number of
// goroutines. It implements runtime.Source and the interfaces through which
// probes ask an engine.
type Engine struct {
	conf Config
	log  *zap.Logger

	commands sync.Map // marks of the commands that run
	owner    owner    // of these

	// turn is held while current is used or replaced; a channel, so that waiting
	// for it ends with a context.
	turn    chan struct{}
	current *client.Client
}

var _ runtime.Source = (*Engine)(nil)

// New returns an engine. It does not connect yet, so an engine that is not there
// is found out by the first call.
func New(conf Config) (*Engine, error) {
	if conf.Name == "" {
		conf.Name = "docker"
	}
	e := &Engine{conf: conf, log: conf.Log, turn: make(chan struct{}, 1), owner: newOwner()}
	if e.log == nil {
		e.log = zap.NewNop()
	}
	c, err := e.newClient()
	if err != nil {
		return nil, err
	}
	return e, c.Close()
}

// Close drops the idle connections. Calls under way go on.
func (e *Engine) Close() error {
	e.turn <- struct{}{}
	defer func() { <-e.turn }()
	return e.drop()
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
		return e.failure(err)
	}
	return nil
}

// Accept returns nil when the engine answers on a new connection. One that shuts down
// stops listening before it stops its containers, and still serves old connections.
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
	opts := []client.Opt{
		client.WithHTTPClient(&http.Client{
			Transport:     &http.Transport{MaxIdleConns: idleConns, MaxIdleConnsPerHost: idleConns, IdleConnTimeout: callTimeout},
			CheckRedirect: client.CheckRedirect,
		}),
		client.WithUserAgent("healthd"),
	}
	host, err := e.hostOptions()
	if err != nil {
		return nil, fmt.Errorf("cannot use the Docker endpoint %s: %w", e.endpoint(), err)
	}
	c, err := client.NewClientWithOpts(append(opts, host...)...)
	if err != nil {
		return nil, fmt.Errorf("cannot use the Docker endpoint %s: %w", e.endpoint(), err)
	}
	return c, nil
}

// client returns a client that has agreed with the engine on a version.
func (e *Engine) client(ctx context.Context) (*client.Client, error) {
	select {
	case e.turn <- struct{}{}:
		defer func() { <-e.turn }()
	case <-ctx.Done():
		return nil, e.failure(ctx.Err())
	}
	if e.current != nil {
		return e.current, nil
	}
	c, err := e.newClient()
	if err != nil {
		return nil, err
	}
	pinging, cancel := context.WithTimeout(ctx, callTimeout) // others wait for their turn
	defer cancel()
	ping, err := c.Ping(pinging)
	if err != nil {
		_ = c.Close()
		return nil, e.failure(err)
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

// renew makes the next call agree on a version afresh: an engine that comes back
// may be another one.
func (e *Engine) renew(ctx context.Context) error {
	select {
	case e.turn <- struct{}{}:
		defer func() { <-e.turn }()
		return e.drop()
	case <-ctx.Done():
		return e.failure(ctx.Err())
	}
}

func (e *Engine) drop() error {
	if e.current == nil {
		return nil
	}
	c := e.current
	e.current = nil
	return c.Close()
}
