package fleet

import (
	"context"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
)

// keepAlive renews a lease. A client's calls take turns among the members, but those of the watcher and the publisher come between:
// a member that hangs could get one renewal after another until the lease has ended. So after one that fails all members are asked.
func (k *keeper) keepAlive(ctx context.Context, id clientv3.LeaseID) error {
	err := k.f.store.do(ctx, k.within, func(ctx context.Context, c *clientv3.Client) error {
		_, err := c.KeepAliveOnce(ctx, id)
		return err
	})
	if err == nil {
		return nil
	}
	if c := classOf(err); c != notReached && c != noLeader {
		return err
	}
	k.f.metrics.renewed("failed")
	return k.f.store.do(ctx, k.within, func(ctx context.Context, c *clientv3.Client) error { return keepAliveAnywhere(ctx, c, id) })
}

// keepAliveAnywhere renews a lease with each member at once. The first one that knows ends the others.
func keepAliveAnywhere(ctx context.Context, c *clientv3.Client, id clientv3.LeaseID) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	endpoints := c.Endpoints()
	answers := make(chan error, len(endpoints))
	for _, endpoint := range endpoints {
		go func() { answers <- keepAliveAt(ctx, c, endpoint, id) }()
	}
	var result error
	known := false
	for range endpoints {
		err := <-answers
		switch {
		case known:
		case err == nil, classOf(err) == noLease:
			result, known = err, true
			cancel()
		case result == nil:
			result = err
		}
	}
	return result
}

// keepAliveAt renews a lease over a connection of its own: one that there is may be to a member that hung.
func keepAliveAt(ctx context.Context, c *clientv3.Client, endpoint string, id clientv3.LeaseID) error {
	conn, err := c.Dial(endpoint)
	if err != nil {
		return err
	}
	defer conn.Close()
	stream, err := etcdserverpb.NewLeaseClient(conn).LeaseKeepAlive(ctx, grpc.WaitForReady(true))
	if err == nil {
		err = stream.Send(&etcdserverpb.LeaseKeepAliveRequest{ID: int64(id)})
	}
	if err != nil {
		return err
	}
	answer, err := stream.Recv()
	if err == nil && answer.TTL <= 0 {
		err = rpctypes.ErrLeaseNotFound
	}
	return err
}
