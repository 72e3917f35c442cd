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
		id := "docker " + info.ID
		if !e.OnHost() { // engines of hosts that were cloned have one ID
			id += " " + e.endpoint()
		}
		return []string{id}, nil
	}
	return []string{e.endpoint()}, nil
}
