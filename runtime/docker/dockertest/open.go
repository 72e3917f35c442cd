package dockertest

import (
	"context"
	"fmt"

	"github.com/docker/docker/api/types/container"
)

// Open starts an engine outside of tests, for the demo. The caller must call Close.
func Open() (*Engine, error) { return start("") }

// Close removes the engine's containers, ends it and cleans up.
func (e *Engine) Close() error { return e.close() }

// Serve creates and starts a container of the test server, with these arguments, on the engine's
// bridge.
func (e *Engine) Serve(ctx context.Context, name string, labels map[string]string, args ...string) error {
	conf := &container.Config{Image: e.Image, Cmd: append([]string{"/bin/testserver"}, args...), Labels: labels}
	created, err := e.client.ContainerCreate(ctx, conf, nil, nil, nil, name)
	if err == nil {
		err = e.client.ContainerStart(ctx, created.ID, container.StartOptions{})
	}
	if err != nil {
		return fmt.Errorf("cannot start container %s: %w", name, err)
	}
	return nil
}
