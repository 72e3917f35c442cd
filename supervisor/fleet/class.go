package fleet

import (
	"context"
	"errors"
	"slices"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// class is what an error of etcd's means for healthd.
type class string

// The classes of errors.
const (
	notReached class = "not reached" // nobody knows whether it was done
	noLeader   class = "no leader"   // members answer, and no majority is there
	refused    class = "refused"     // rights, user or password
	noSpace    class = "no space"    // the store takes nothing until somebody raises its quota
	noLease    class = "no lease"    // it has ended
	compacted  class = "compacted"   // the history that was asked for is gone
	tooBig     class = "too big"     // an answer is bigger than healthd takes
	failed     class = "failed"      // anything else
)

// refusals are the texts of errors about rights. A watch has the text alone.
var refusals = append([]error{rpctypes.ErrPermissionDenied, rpctypes.ErrPermissionNotGranted}, loginRefusals...)

// loginRefusals are those that another password may mend.
var loginRefusals = []error{rpctypes.ErrAuthFailed, rpctypes.ErrUserEmpty, rpctypes.ErrInvalidAuthToken}

func isLogin(err error) bool { return hasText(err, loginRefusals) }

func hasText(err error, of []error) bool {
	return slices.ContainsFunc(of, func(o error) bool { return strings.Contains(err.Error(), o.Error()) })
}

// classOf returns the class of an error of a client's.
func classOf(err error) class {
	code, text := status.Code(err), err.Error()
	if e, ok := errors.AsType[rpctypes.EtcdError](err); ok {
		code = e.Code()
	}
	switch {
	case hasText(err, refusals):
		return refused
	case is(err, rpctypes.ErrNoLeader):
		return noLeader
	case is(err, rpctypes.ErrLeaseNotFound):
		return noLease
	case is(err, rpctypes.ErrCompacted):
		return compacted
	case is(err, rpctypes.ErrNoSpace):
		return noSpace
	case code == codes.PermissionDenied, code == codes.Unauthenticated:
		return refused
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled), errors.Is(err, clientv3.ErrNoAvailableEndpoints),
		code == codes.Unavailable, code == codes.DeadlineExceeded, code == codes.Canceled, strings.Contains(text, context.DeadlineExceeded.Error()):
		return notReached
	case code == codes.ResourceExhausted:
		return tooBig
	case errors.As(err, new(interface{ GRPCStatus() *status.Status })) && code == codes.Unknown:
		return notReached
	}
	return failed
}

// is says whether err is one of etcd's errors, or has its text.
func is(err, one error) bool {
	return errors.Is(err, one) || strings.Contains(err.Error(), one.Error())
}
