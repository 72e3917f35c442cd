package containerd

import (
	"cmp"
	"context"

	"github.com/containerd/errdefs"
)

// Identity returns what tells each namespace of the engine apart from all others, also after a restart.
func (e *Engine) Identity(ctx context.Context) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	c, err := e.client()
	if err != nil {
		return nil, err
	}
	server, err := c.Server(ctx)
	if err != nil && !errdefs.IsNotImplemented(native(err)) {
		return nil, e.explain(err)
	}
	engine := cmp.Or(server.UUID, e.conf.Endpoint)
	var all []string
	for _, namespace := range e.conf.Namespaces {
		all = append(all, "containerd "+engine+" "+namespace)
	}
	return all, nil
}
