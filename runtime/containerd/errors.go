package containerd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/containerd/errdefs/pkg/errgrpc"
	"google.golang.org/grpc/status"

	"healthd/runtime"
)

// native returns an error of the gRPC API, which the client's raw services return, as one of
// errdefs.
func native(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := status.FromError(err); ok {
		return errgrpc.ToNative(err)
	}
	return err
}

// isUnanswered says that a call may have been carried out, or may be later. Where containerd
// gives up first, the kind of its error is Unknown.
func isUnanswered(err error) bool {
	if errdefs.IsUnavailable(err) || errdefs.IsDeadlineExceeded(err) || errdefs.IsCanceled(err) {
		return true
	}
	text := err.Error()
	return strings.Contains(text, context.DeadlineExceeded.Error()) || strings.Contains(text, context.Canceled.Error())
}

// explain says in plain words why the engine did not answer. Errors that are an answer are
// returned as they are.
func (e *Engine) explain(err error) error {
	err = native(err)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.DeadlineExceeded), errdefs.IsDeadlineExceeded(err):
		return fmt.Errorf("cannot get an answer from containerd at %s in time: %w", e.socket, context.DeadlineExceeded)
	case errors.Is(err, context.Canceled), errdefs.IsCanceled(err):
		return err
	case errdefs.IsUnavailable(err):
		return fmt.Errorf("cannot connect to containerd at %s: %w", e.socket, e.connectReason(err))
	case errdefs.IsPermissionDenied(err):
		return runtime.Refusal(err.Error() + " (a socket proxy?)")
	case errdefs.IsNotImplemented(err):
		return fmt.Errorf("what listens at %s does not answer as containerd does: %w", e.socket, err)
	}
	return err
}

// connectReason finds why there is no connection. gRPC's own text is long.
func (e *Engine) connectReason(err error) error {
	st, stat := os.Stat(e.socket)
	switch {
	case errors.Is(stat, fs.ErrNotExist):
		return errors.New("there is no such socket; is containerd running?")
	case errors.Is(stat, fs.ErrPermission), strings.Contains(err.Error(), "permission denied"):
		return errors.New("permission denied; is healthd allowed to use the socket?")
	case stat == nil && st.Mode().Type() != fs.ModeSocket:
		return errors.New("it is no socket")
	case strings.Contains(err.Error(), "connection refused"):
		return errors.New("connection refused; is containerd running?")
	case strings.Contains(err.Error(), "preface"):
		return errors.New("what listens there is not containerd")
	case strings.Contains(err.Error(), "broken pipe"): // it closed the connection before it was greeted
		return errors.New("what listens there is not containerd, or has just ended")
	}
	return err
}

// containerError wraps err with what could not be done to which container.
func (e *Engine) containerError(err error, doing string, k key) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("cannot %s container %s: %w", doing, short(k.String()), e.explain(err))
}

// errHung says that a container's shim does not answer: nothing is known of its task.
var errHung = errors.New("its shim does not answer")

func short(id string) string {
	if len(id) == 64 {
		return id[:12]
	}
	return id
}
