package containerdtest

import (
	"context"
	"fmt"
)

// Open starts an engine outside of tests, for the demo. The caller must call Close.
func Open() (*Engine, error) { return start() }

// Close ends the engine and its containers and cleans up.
func (e *Engine) Close() error { return e.close() }

// Serve creates and starts a container of the test server, with these arguments, on the engine's
// bridge.
func (e *Engine) Serve(ctx context.Context, name string, labels map[string]string, args ...string) error {
	o := RunOptions{Name: name, Cmd: append([]string{"/bin/testserver"}, args...), Labels: labels, Network: Bridge}
	o.complete()
	if err := e.serve(named(ctx, o.Namespace), o); err != nil {
		return fmt.Errorf("cannot start container %s: %w", name, err)
	}
	return nil
}

func (e *Engine) serve(ctx context.Context, o RunOptions) error {
	image, err := e.client.GetImage(ctx, Image)
	if err != nil {
		return err
	}
	if err := e.create(ctx, o, image); err != nil {
		return err
	}
	task, err := e.makeTask(ctx, o.ID)
	if err != nil {
		return err
	}
	return task.Start(ctx)
}
