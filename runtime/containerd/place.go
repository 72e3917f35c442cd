package containerd

import (
	"context"

	"healthd/runtime"
	"healthd/runtime/hostproc"
)

// Place says where the engine is: rootless it has a network namespace of its own.
func (e *Engine) Place(ctx context.Context) (at runtime.Place, sure bool) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if program, sameNetwork := hostproc.Peer(ctx, e.socket); program != "containerd" || sameNetwork {
		return runtime.Place{}, true
	}
	return runtime.Place{Elsewhere: "its engine is in another network namespace than healthd"}, true
}
