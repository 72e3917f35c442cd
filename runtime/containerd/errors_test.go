package containerd

import (
	"errors"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"healthd/runtime"
)

// What containerd, or a proxy before it, does not allow is told as that.
func TestRefusedCall(t *testing.T) {
	e := &Engine{}
	err := e.containerError(status.Error(codes.PermissionDenied, "tasks are not allowed"), "stop", key{"default", "web"})
	if want := "cannot stop container web: tasks are not allowed (a socket proxy?)"; !errors.Is(err, runtime.ErrRefused) || err.Error() != want {
		t.Errorf("got %v, want %s, as an ErrRefused", err, want)
	}
}
