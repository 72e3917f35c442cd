package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

const (
	leaseSeconds = 10 // as [fleet] ttl is by default
	etcdPatience = 5 * time.Second
	fleetPrefix  = "/healthd/v1/"
)

// etcd is a real one with a single member.
type etcd struct {
	url     string
	process *process
	client  *clientv3.Client
}

// put is a key below the prefix, and its value.
type put struct{ key, value string }

// newEtcd starts one that ends with the rig.
func (r *rig) newEtcd() (*etcd, error) {
	client, err := freeAddress()
	if err != nil {
		return nil, err
	}
	peer, err := freeAddress()
	if err != nil {
		return nil, err
	}
	e := &etcd{url: "http://" + client}
	log, err := os.Create(r.path("etcd.log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command("etcd", "--data-dir", r.path("etcd"), "--listen-client-urls", e.url, "--advertise-client-urls", e.url,
		"--listen-peer-urls", "http://"+peer, "--initial-advertise-peer-urls", "http://"+peer, "--initial-cluster", "default=http://"+peer)
	cmd.Stdout, cmd.Stderr = log, log
	if e.process, err = start(cmd); err != nil {
		return nil, fmt.Errorf("cannot start etcd (install it with scripts/prerequisites test): %w", err)
	}
	r.others = append(r.others, e.process)
	e.client, err = clientv3.New(clientv3.Config{Endpoints: []string{e.url}, Logger: zap.NewNop()})
	if err != nil {
		return nil, err
	}
	return e, r.eventually(startPatience, "etcd answers", func() error {
		_, err := e.grant(r.ctx, leaseSeconds)
		return err
	})
}

func (e *etcd) close() { _ = e.client.Close() }

func (e *etcd) grant(ctx context.Context, seconds int64) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, etcdPatience)
	defer cancel()
	lease, err := e.client.Grant(ctx, seconds)
	if err != nil {
		return 0, err
	}
	return int64(lease.ID), nil
}

func (e *etcd) keepAlive(ctx context.Context, lease int64) error {
	ctx, cancel := context.WithTimeout(ctx, etcdPatience)
	defer cancel()
	_, err := e.client.KeepAliveOnce(ctx, clientv3.LeaseID(lease))
	return err
}

// putAll puts some keys at once, under a lease.
func (e *etcd) putAll(ctx context.Context, lease int64, puts []put) error {
	ctx, cancel := context.WithTimeout(ctx, etcdPatience)
	defer cancel()
	var ops []clientv3.Op
	for _, p := range puts {
		ops = append(ops, clientv3.OpPut(fleetPrefix+p.key, p.value, clientv3.WithLease(clientv3.LeaseID(lease))))
	}
	_, err := e.client.Txn(ctx).Then(ops...).Commit()
	return err
}

// metric returns one of etcd's own, without labels.
func (e *etcd) metric(ctx context.Context, name string) (float64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, e.url+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return strconv.ParseFloat(strings.TrimSpace(value), 64)
		}
	}
	return 0, errors.New("etcd has no metric " + name)
}
