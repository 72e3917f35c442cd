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

// connectReason says why there is no connection, in place of the client's advice, which is meant for users of the
// docker command line.
func (e *Engine) connectReason(err error) error {
	path, ok := strings.CutPrefix(e.endpoint(), "unix://")
	if !ok {
		if errors.Is(err, syscall.ECONNREFUSED) {
			return runtime.NotListening(err.Error())
		}
		return err
	}
	st, stat := os.Stat(path)
	switch {
	case errors.Is(stat, fs.ErrNotExist):
		return runtime.NotListening("there is no such socket; is the engine running?")
	case stat == nil && st.IsDir():
		return runtime.NotListening("it is a directory, and no socket; was it mounted, or made, before the engine ran?")
	case stat == nil && st.Mode().Type() != fs.ModeSocket:
		return runtime.NotListening("it is a file, and no socket")
	case errors.Is(err, syscall.ECONNREFUSED):
		return runtime.NotListening("connection refused; is the engine running?")
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return errors.New("healthd, or its host, has no file descriptors left: raise their limit (LimitNOFILE= of the unit)")
	}
	if op := (*net.OpError)(nil); errors.As(err, &op) {
		return op.Err
	}
	return err
}

// dialError is why there is no connection to the engine's socket. The client would drop an error that says so in the
// words of Go's, and put its advice in place of the cause: an engine would be taken for ended that has not.
type dialError struct{ cause error }

// Error implements error.
func (e dialError) Error() string { return "no connection" }

// Unwrap returns the cause.
func (e dialError) Unwrap() error { return e.cause }

// withCause keeps the cause of an error for connectReason, if it is one of a socket.
func withCause(err error) error {
	if op := (*net.OpError)(nil); errors.As(err, &op) && op.Op == "dial" && op.Net == "unix" {
		return dialError{err}
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
