package dockertest

import (
	"cmp"
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	apinetwork "github.com/docker/docker/api/types/network"
	"github.com/docker/go-connections/nat"
)

// RunOptions says what Run and Create make. The zero value is a container of the
// test image with its test server on the engine's bridge.
type RunOptions struct {
	Name    string
	Image   string   // another name that the image gets for it; empty: its own
	Cmd     []string // empty: the test server
	Env     []string
	Labels  map[string]string
	Network string // network mode: "host", "none", "container:ID" or a network's name
	Publish string // ports of the host, each as docker run -p has it: "127.0.0.1:8081:8080 9000:53/udp"; empty: none
	// Networks are connected to besides Network.
	Networks      []string
	RestartPolicy string // empty: "no"
	AutoRemove    bool
	StopSignal    string
	StopTimeout   *int // seconds
	Init          bool
	Memory        int64  // bytes; 0: no limit
	User          string // empty: the image's, root
	Health        *container.HealthConfig
}

// Run creates and starts a container that is removed when the test ends, and
// returns its ID.
func (e *Engine) Run(tb testing.TB, o RunOptions) string {
	tb.Helper()
	id := e.Create(tb, o)
	if err := e.client.ContainerStart(tb.Context(), id, container.StartOptions{}); err != nil {
		tb.Fatalf("cannot start container %s: %v", o.Name, err)
	}
	return id
}

// Create creates a container that is removed when the test ends, and returns its
// ID.
func (e *Engine) Create(tb testing.TB, o RunOptions) string {
	tb.Helper()
	resources := container.Resources{Memory: o.Memory, CgroupParent: e.cgroup()}
	if usePodman {
		var err error
		if resources.Ulimits, err = ulimits(); err != nil {
			tb.Fatal(err)
		}
	}
	if o.Image != "" {
		if err := e.client.ImageTag(tb.Context(), e.Image, o.Image); err != nil {
			tb.Fatalf("cannot name the image %s: %v", o.Image, err)
		}
	}
	exposed, ports := nat.PortSet(nil), nat.PortMap(nil)
	if o.Publish != "" {
		var err error
		if exposed, ports, err = nat.ParsePortSpecs(strings.Fields(o.Publish)); err != nil {
			tb.Fatal(err)
		}
	}
	created, err := e.client.ContainerCreate(tb.Context(), &container.Config{
		ExposedPorts: exposed,
		Image:        cmp.Or(o.Image, e.Image), Cmd: o.Cmd, Env: o.Env, Labels: o.Labels, User: o.User,
		StopSignal: o.StopSignal, StopTimeout: o.StopTimeout, Healthcheck: o.Health,
	}, &container.HostConfig{
		NetworkMode:   container.NetworkMode(o.Network),
		PortBindings:  ports,
		RestartPolicy: container.RestartPolicy{Name: container.RestartPolicyMode(o.RestartPolicy)},
		AutoRemove:    o.AutoRemove,
		Init:          &o.Init,
		Resources:     resources,
	}, nil, nil, o.Name)
	if err != nil {
		tb.Fatalf("cannot create container %s: %v", o.Name, err)
	}
	tb.Cleanup(func() { e.Remove(tb, created.ID) })
	for _, name := range o.Networks {
		if err := e.client.NetworkConnect(tb.Context(), name, created.ID, nil); err != nil {
			tb.Fatalf("cannot connect container %s to %s: %v", o.Name, name, err)
		}
	}
	return created.ID
}

// Remove kills and removes a container. One that is gone already is no error.
func (e *Engine) Remove(tb testing.TB, id string) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	if usePodman { // would ask it to end, and wait
		_ = e.client.ContainerKill(ctx, id, "KILL")
	}
	err := e.client.ContainerRemove(ctx, id, container.RemoveOptions{Force: true, RemoveVolumes: true})
	if err != nil && !errdefs.IsNotFound(err) && !errdefs.IsConflict(err) {
		tb.Errorf("cannot remove container %s: %v", id, err)
	}
}

// RemoveAll is Remove for many, some at a time.
func (e *Engine) RemoveAll(tb testing.TB, ids ...string) {
	tb.Helper()
	var wg sync.WaitGroup
	defer wg.Wait()
	slots := make(chan struct{}, 8)
	for _, id := range ids {
		slots <- struct{}{}
		wg.Go(func() {
			e.Remove(tb, id)
			<-slots
		})
	}
}

// Network makes a bridge network that is removed when the test ends.
func (e *Engine) Network(tb testing.TB, name string) {
	tb.Helper()
	made, err := e.client.NetworkCreate(tb.Context(), name, apinetwork.CreateOptions{Driver: "bridge"})
	if err != nil {
		tb.Fatalf("cannot create network %s: %v", name, err)
	}
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
		defer cancel()
		if err := e.client.NetworkRemove(ctx, made.ID); err != nil && !errdefs.IsNotFound(err) {
			tb.Errorf("cannot remove network %s: %v", name, err)
		}
	})
}
