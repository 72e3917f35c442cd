package containerd

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"time"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/pkg/identifiers"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
)

// reconnectMax bounds gRPC's pause between two attempts to connect: its own two minutes
// would keep calls failing long after containerd is back.
const reconnectMax = 500 * time.Millisecond

// socketPath returns the path of the endpoint's socket.
func socketPath(endpoint string) (string, error) {
	path := strings.TrimPrefix(endpoint, "unix://")
	if !filepath.IsAbs(path) {
		return "", fmt.Errorf("cannot use the containerd endpoint %s: it must begin with unix:/// or be a path", endpoint)
	}
	return filepath.Clean(path), nil
}

func checkNamespaces(names []string) error {
	for _, name := range names {
		if err := identifiers.Validate(name); err != nil {
			return fmt.Errorf("cannot use the containerd namespace %q: %w", name, err)
		}
	}
	return nil
}

// nerdctlDir returns the directory where nerdctl keeps its data for the containerd of that
// socket. The labels name it, too, but an image can set labels.
func nerdctlDir(socket string) string {
	if resolved, err := filepath.EvalSymlinks(socket); err == nil {
		socket = resolved
	}
	sum := sha256.Sum256([]byte(socket))
	return filepath.Join("/var/lib/nerdctl", hex.EncodeToString(sum[:4]))
}

// Ping returns nil when the engine answers.
func (e *Engine) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	c, err := e.client()
	if err != nil {
		return err
	}
	return e.ping(ctx, c)
}

func (e *Engine) ping(ctx context.Context, c *client.Client) error {
	if _, err := c.Version(ctx); err != nil {
		return e.explain(err)
	}
	return nil
}

// Accept returns nil when the engine answers on a new connection.
func (e *Engine) Accept(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, acceptTimeout)
	defer cancel()
	c, err := e.newClient()
	if err != nil {
		return err
	}
	defer c.Close()
	return e.ping(ctx, c)
}

func (e *Engine) newClient() (*client.Client, error) {
	// Without a default namespace, so that a call which names none fails.
	c, err := client.New(e.socket, client.WithExtraDialOpts([]grpc.DialOption{
		grpc.WithUserAgent("healthd"),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(newCodec())),
		// containerd's own dialer waits for a socket that is not there.
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", e.socket)
		}),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: reconnectMax / 5, Multiplier: 1.6, Jitter: 0.2, MaxDelay: reconnectMax},
			MinConnectTimeout: acceptTimeout,
		}),
	}))
	if err != nil {
		return nil, fmt.Errorf("cannot use the containerd endpoint %s: %w", e.conf.Endpoint, err)
	}
	return c, nil
}

// client returns the client that all calls share.
func (e *Engine) client() (*client.Client, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.current == nil {
		c, err := e.newClient()
		if err != nil {
			return nil, err
		}
		e.current = c
	}
	return e.current, nil
}

// renewClient returns a client that is connected. One that has lost its connection waits some
// time before it tries again, so a new one takes its place.
func (e *Engine) renewClient(ctx context.Context) (*client.Client, error) {
	c, err := e.client()
	if err != nil {
		return nil, err
	}
	asking, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if e.ping(asking, c) == nil {
		return c, nil
	}
	e.mu.Lock()
	if e.current == c {
		_ = e.closeClient()
	}
	e.mu.Unlock()
	if c, err = e.client(); err != nil {
		return nil, err
	}
	return c, e.ping(asking, c)
}

// closeClient needs mu.
func (e *Engine) closeClient() error {
	if e.current == nil {
		return nil
	}
	c := e.current
	e.current = nil
	return c.Close()
}
