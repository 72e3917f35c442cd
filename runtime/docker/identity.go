package docker

import "context"

// Identity returns what tells the engine apart from all others: it is the same behind another socket, and after a
// restart. Of one that does not say who it is, be it slow to tell, or Podman, which names itself anew each time, it is
// the endpoint.
func (e *Engine) Identity(ctx context.Context) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, libpod, err := e.ping(ctx)
	if err != nil {
		return nil, err
	}
	if info, err := e.info(ctx); libpod == "" && err == nil && info.ID != "" {
		return []string{"docker " + info.ID}, nil
	}
	return []string{e.endpoint()}, nil
}
