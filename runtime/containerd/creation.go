package containerd

import (
	"context"
	"encoding/json"

	"healthd/runtime"
)

// Creation returns what the container was made with, as far as nerdctl's labels tell. The error wraps
// runtime.ErrNotFound when there is no such container.
func (e *Engine) Creation(ctx context.Context, id string) (runtime.Creation, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	k, err := e.key(id)
	if err != nil {
		return runtime.Creation{}, err
	}
	c, err := e.client()
	if err != nil {
		return runtime.Creation{}, err
	}
	found, err := e.container(ctx, c, k)
	if err != nil {
		return runtime.Creation{}, e.containerError(err, "inspect", k)
	}
	return labelSet(found.Labels).creation(), nil
}

func (l labelSet) creation() runtime.Creation {
	made := runtime.Creation{RestartMax: l.restartMax()}
	check := &runtime.Healthcheck{}
	if json.Unmarshal([]byte(l[labelHealthcheck]), check) == nil && len(check.Test) > 0 && check.Test[0] != "NONE" {
		made.Healthcheck = check
	}
	return made
}
