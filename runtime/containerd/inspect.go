package containerd

import (
	"context"
	"errors"
	"strings"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/errdefs"

	"healthd/runtime"
)

// maxNetworkDepth bounds a chain of containers that share the next one's network.
const maxNetworkDepth = 4

// Inspect returns the container with the ID, or an error that wraps runtime.ErrNotFound. Of a
// container whose shim hangs it returns another error.
func (e *Engine) Inspect(ctx context.Context, id string) (*runtime.Container, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	k, err := e.key(id)
	if err != nil {
		return nil, err
	}
	c, err := e.client()
	if err != nil {
		return nil, err
	}
	defer e.records.save() // what it showed is known before anybody hears of it
	return e.inspect(ctx, c, k, maxNetworkDepth)
}

func (e *Engine) inspect(ctx context.Context, c *client.Client, k key, depth int) (*runtime.Container, error) {
	l, err := e.look(ctx, c, k)
	if err != nil {
		return nil, e.containerError(err, "inspect", k)
	}
	found := e.describe(l)
	if found.NetworkOwner != "" && depth > 0 {
		of := key{k.namespace, found.NetworkOwner[strings.LastIndexByte(found.NetworkOwner, ':')+1:]}
		owner, err := e.inspect(ctx, c, of, depth-1)
		if err != nil && !errors.Is(err, runtime.ErrNotFound) {
			return nil, e.containerError(err, "inspect the network of", k)
		}
		share(found, owner)
	}
	found.Fingerprint = fingerprint(found)
	return found, nil
}

// look asks for one container and its task.
func (e *Engine) look(ctx context.Context, c *client.Client, k key) (*look, error) {
	found, err := e.container(ctx, c, k)
	if err != nil {
		return nil, err
	}
	l := &look{key: k, container: found}
	l.process, err = e.process(in(ctx, k.namespace), c, k.id)
	return l, err
}

// container asks for one container. Only here does "not found" mean that it is gone: a snapshot
// or a task may be missing, too.
func (e *Engine) container(ctx context.Context, c *client.Client, k key) (containers.Container, error) {
	found, err := c.ContainerService().Get(in(ctx, k.namespace), k.id)
	if errdefs.IsNotFound(err) {
		e.forget(k)
		return found, runtime.ErrNotFound
	}
	return found, err
}

// forget drops what is known of a container that is gone.
func (e *Engine) forget(k key) {
	e.records.drop(k)
	e.specs.drop(k)
	e.calls.forget(k)
}

// Health returns the status of nerdctl's health check ("none" without one). nerdctl keeps the
// output of its runs elsewhere.
func (e *Engine) Health(ctx context.Context, id string) (status, output string, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	k, err := e.key(id)
	if err != nil {
		return "", "", err
	}
	c, err := e.client()
	if err != nil {
		return "", "", err
	}
	found, err := e.container(ctx, c, k)
	if err != nil {
		return "", "", e.containerError(err, "read the health of", k)
	}
	return labelSet(found.Labels).health(), "", nil
}
