package fleet

import (
	"context"
	"errors"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// What etcd's errors mean. Of those about rights, only some are mended by another password.
func TestClasses(t *testing.T) {
	for _, tt := range []struct {
		err   error
		class class
		login bool
	}{
		{context.DeadlineExceeded, notReached, false},
		{status.Error(codes.Unknown, "context deadline exceeded"), notReached, false}, // as 3.4 says it
		{status.Error(codes.Unavailable, "connection refused"), notReached, false},
		{clientv3.ErrNoAvailableEndpoints, notReached, false},
		{rpctypes.ErrNoLeader, noLeader, false},
		{rpctypes.ErrLeaseNotFound, noLease, false},
		{rpctypes.ErrCompacted, compacted, false},
		{rpctypes.ErrNoSpace, noSpace, false},
		{status.Error(codes.ResourceExhausted, "received message larger than max"), tooBig, false},
		{rpctypes.ErrPermissionDenied, refused, false},
		{errors.New("etcdserver: permission denied"), refused, false}, // as a watch says it
		{rpctypes.ErrAuthFailed, refused, true},
		{rpctypes.ErrInvalidAuthToken, refused, true},
		{rpctypes.ErrUserEmpty, refused, true},
		{errors.New("something else"), failed, false},
	} {
		if got, login := classOf(tt.err), isLogin(tt.err); got != tt.class || login != tt.login {
			t.Errorf("%v: %s, by another password: %v; want %s, %v", tt.err, got, login, tt.class, tt.login)
		}
	}
}
