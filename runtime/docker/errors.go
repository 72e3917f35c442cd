package docker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"syscall"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/client"

	"healthd/runtime"
)

// explain says in plain words why the engine did not answer, and tells Config.Away if nothing listens there. Errors
// that are an answer are returned as they are.
func (e *Engine) explain(err error) error {
	why := e.failure(err)
	if _, away := errors.AsType[runtime.NotListening](why); away && e.conf.Away != nil {
		e.conf.Away()
	}
	return why
}

// failure says in plain words why the engine did not answer. Errors that are an
// answer are returned as they are.
func (e *Engine) failure(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("cannot get an answer from Docker at %s in time: %w", e.endpoint(), err)
	case errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("cannot connect to Docker at %s: permission denied; is healthd allowed to use the socket?", e.endpoint())
	case client.IsErrConnectionFailed(err), isDial(err):
		return fmt.Errorf("cannot connect to Docker at %s: %w", e.endpoint(), e.connectReason(err))
	case errdefs.IsPermissionDenied(err):
		return runtime.Refusal(strings.TrimPrefix(err.Error(), "Error response from daemon: "))
	}
	return err
}

// connectReason replaces the client's advice, which is meant for users of the docker
// command line.
func (e *Engine) connectReason(err error) error {
	path, ok := strings.CutPrefix(e.endpoint(), "unix://")
	if !ok {
		if errors.Is(err, syscall.ECONNREFUSED) {
			return runtime.NotListening(err.Error())
		}
		return err
	}
	if _, stat := os.Stat(path); errors.Is(stat, fs.ErrNotExist) {
		return runtime.NotListening("there is no such socket; is the engine running?")
	}
	if errors.Is(err, syscall.ECONNREFUSED) || strings.Contains(err.Error(), "Is the docker daemon running") {
		return runtime.NotListening("connection refused; is the engine running?")
	}
	return err
}

// isDial says that healthd could not connect to make a request of its own.
func isDial(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// containerError wraps err with what could not be done to which container.
func (e *Engine) containerError(err error, doing, id string) error {
	if err == nil {
		return nil
	}
	// A proxy answers 404 for a path that it does not serve. Only the engine says
	// "no such container".
	if errdefs.IsNotFound(err) && !errors.Is(err, runtime.ErrNotFound) && strings.Contains(strings.ToLower(err.Error()), "no such") {
		err = runtime.ErrNotFound
	}
	return fmt.Errorf("cannot %s container %s: %w", doing, short(id), e.explain(err))
}

func short(id string) string {
	if len(id) == 64 {
		return id[:12]
	}
	return id
}
