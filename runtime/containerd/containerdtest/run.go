package containerdtest

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/containerd/v2/pkg/cio"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/containerd/v2/pkg/oci"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/runtime-spec/specs-go"

	"healthd/runtime/enginetest"
	"healthd/runtime/hostproc"
)

// labelStopped is what nerdctl sets before it stops a container.
const labelStopped = "containerd.io/restart.explicitly-stopped"

// RunOptions says what Run and Create make. The zero value is a container of the test image
// with its test server and without a network.
type RunOptions struct {
	Namespace   string // empty: Namespace
	ID          string // empty: a random one, as nerdctl's
	Name        string
	Cmd         []string // empty: the test server
	Env         []string
	Labels      map[string]string
	Network     string // Bridge, "host", "container:ID", or empty or "none" for a network without interfaces
	StopSignal  string
	StopTimeout *int  // seconds
	Memory      int64 // bytes; 0: no limit
	AutoRemove  bool
	Terminal    bool
	User        uint32 // user and group; 0: root
}

// Run creates and starts a container that is removed when the test ends, and returns its ID.
func (e *Engine) Run(tb testing.TB, o RunOptions) string {
	tb.Helper()
	id := e.Create(tb, o)
	e.StartTask(tb, o.Namespace, id)
	return id
}

// Create creates a container, with the labels that nerdctl writes, that is removed when the
// test ends, and returns its ID.
func (e *Engine) Create(tb testing.TB, o RunOptions) string {
	tb.Helper()
	o.complete()
	image, err := e.client.GetImage(e.In(tb, ""), Image)
	if err != nil {
		tb.Fatalf("cannot find the test image: %v", err)
	}
	if o.Namespace != Namespace {
		if image, err = e.imageIn(tb, o.Namespace); err != nil {
			tb.Fatalf("cannot import the test image: %v", err)
		}
	}
	if err := e.create(tb.Context(), o, image); err != nil {
		tb.Fatalf("cannot create container %s: %v", o.Name, err)
	}
	tb.Cleanup(func() { e.RemoveIn(tb, o.Namespace, o.ID) })
	return o.ID
}

func (o *RunOptions) complete() {
	if o.Namespace == "" {
		o.Namespace = Namespace
	}
	if o.ID == "" {
		o.ID = randomID()
	}
}

func (e *Engine) create(ctx context.Context, o RunOptions, image client.Image) error {
	_, err := e.client.NewContainer(named(ctx, o.Namespace), o.ID,
		client.WithImageName(Image), client.WithSnapshotter(snapshotter), client.WithNewSnapshot(o.ID, image),
		client.WithNewSpec(e.spec(o, image)...), client.WithContainerLabels(o.labels(e)))
	return err
}

func (e *Engine) spec(o RunOptions, image client.Image) []oci.SpecOpts {
	opts := []oci.SpecOpts{oci.WithImageConfig(image), oci.WithEnv(o.Env), oci.WithCgroup("/" + filepath.Base(e.dir) + "/" + cmp.Or(o.Namespace, Namespace) + "/" + o.ID)}
	if len(o.Cmd) > 0 {
		opts = append(opts, oci.WithProcessArgs(o.Cmd...))
	}
	if o.User != 0 {
		opts = append(opts, oci.WithUIDGID(o.User, o.User))
	}
	if o.Terminal {
		opts = append(opts, oci.WithTTY)
	}
	if o.Memory > 0 {
		opts = append(opts, oci.WithMemoryLimit(uint64(o.Memory)))
	}
	switch owner, shared := shares(o.Network); {
	case o.Network == Bridge:
		opts = append(opts, e.withBridge(o.Namespace, o.ID))
	case o.Network == "host":
		opts = append(opts, oci.WithHostNamespace(specs.NetworkNamespace))
	case shared:
		opts = append(opts, func(ctx context.Context, _ oci.Client, _ *containers.Container, s *oci.Spec) error {
			pid, err := e.pid(ctx, owner)
			if err != nil {
				return err
			}
			n := specs.LinuxNamespace{Type: specs.NetworkNamespace, Path: fmt.Sprintf("/proc/%d/ns/net", pid)}
			return oci.WithLinuxNamespace(n)(ctx, nil, nil, s)
		})
	}
	return opts
}

func shares(network string) (owner string, ok bool) {
	const prefix = "container:"
	if len(network) > len(prefix) && network[:len(prefix)] == prefix {
		return network[len(prefix):], true
	}
	return "", false
}

func (o RunOptions) labels(e *Engine) map[string]string {
	network := o.Network
	if network == "" {
		network = "none"
	}
	networks, _ := json.Marshal([]string{network})
	labels := map[string]string{
		"nerdctl/name": o.Name, "nerdctl/namespace": Namespace, "nerdctl/networks": string(networks), "nerdctl/auto-remove": strconv.FormatBool(o.AutoRemove),
		"nerdctl/log-uri": e.LogURI(o.ID),
	}
	if o.Name == "" {
		delete(labels, "nerdctl/name")
	}
	if o.StopSignal != "" {
		labels["io.containerd.image.config.stop-signal"] = o.StopSignal
	}
	if o.StopTimeout != nil {
		labels["nerdctl/stop-timeout"] = strconv.Itoa(*o.StopTimeout)
	}
	maps.Copy(labels, o.Labels)
	return labels
}

// LogURI returns where a container's output goes.
func (e *Engine) LogURI(id string) string { return "file://" + e.LogFile(id) }

// LogFile returns the file with a container's output.
func (e *Engine) LogFile(id string) string { return e.Path("logs", id+".log") }

func (e *Engine) imageIn(tb testing.TB, namespace string) (client.Image, error) {
	ctx := e.In(tb, namespace)
	if image, err := e.client.GetImage(ctx, Image); err == nil {
		return image, nil
	}
	b, err := packImage()
	if err != nil {
		return nil, err
	}
	images, err := e.client.Import(ctx, bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	image := client.NewImage(e.client, images[0])
	return image, image.Unpack(ctx, snapshotter)
}

// In returns a context for calls in the namespace.
func (e *Engine) In(tb testing.TB, namespace string) context.Context {
	return named(tb.Context(), namespace)
}

func named(ctx context.Context, namespace string) context.Context {
	if namespace == "" {
		namespace = Namespace
	}
	return namespaces.WithNamespace(ctx, namespace)
}

// StartTask starts a container that has no task, as nerdctl does.
func (e *Engine) StartTask(tb testing.TB, namespace, id string) {
	tb.Helper()
	if err := e.MakeTask(tb, namespace, id).Start(e.In(tb, namespace)); err != nil {
		tb.Fatalf("cannot start container %s: %v", id, err)
	}
	e.SetLabel(tb, namespace, id, labelStopped, "false")
}

// MakeTask makes a container's task without starting it.
func (e *Engine) MakeTask(tb testing.TB, namespace, id string) client.Task {
	tb.Helper()
	task, err := e.makeTask(e.In(tb, namespace), id)
	if err != nil {
		tb.Fatalf("cannot make a task of container %s: %v", id, err)
	}
	return task
}

func (e *Engine) makeTask(ctx context.Context, id string) (client.Task, error) {
	c, err := e.client.LoadContainer(ctx, id)
	if err != nil {
		return nil, err
	}
	output := cio.LogFile(e.LogFile(id))
	if spec, err := c.Spec(ctx); err == nil && spec.Process.Terminal {
		output = func(string) (cio.IO, error) { return unlogged{}, nil }
	}
	return c.NewTask(ctx, output)
}

// unlogged is the output of a terminal that goes nowhere: containerd 1.6 writes no terminal's
// output into a file.
type unlogged struct{}

func (unlogged) Config() cio.Config { return cio.Config{Terminal: true, Stdout: "/dev/null"} }
func (unlogged) Cancel()            {}
func (unlogged) Wait()              {}
func (unlogged) Close() error       { return nil }

// SetLabel changes a label of a container.
func (e *Engine) SetLabel(tb testing.TB, namespace, id, name, value string) {
	tb.Helper()
	ctx := e.In(tb, namespace)
	c, err := e.client.LoadContainer(ctx, id)
	if err == nil {
		_, err = c.SetLabels(ctx, map[string]string{name: value})
	}
	if err != nil {
		tb.Fatalf("cannot label container %s: %v", id, err)
	}
}

// OperatorStops does what nerdctl stop and nerdctl kill do: it sets the label, and sends the
// signal to the task if there is one.
func (e *Engine) OperatorStops(tb testing.TB, id string, sig syscall.Signal) {
	tb.Helper()
	e.SetLabel(tb, "", id, labelStopped, "true")
	e.Signal(tb, id, sig)
}

// Signal sends a signal to a container's task, if it has one. No event tells of it.
func (e *Engine) Signal(tb testing.TB, id string, sig syscall.Signal) {
	tb.Helper()
	if task := e.Task(tb, id); task != nil {
		if err := task.Kill(e.In(tb, ""), sig); err != nil && !errdefs.IsNotFound(err) {
			tb.Fatalf("cannot signal container %s: %v", id, err)
		}
	}
}

// Task returns a container's task; nil: it has none.
func (e *Engine) Task(tb testing.TB, id string) client.Task {
	tb.Helper()
	ctx := e.In(tb, "")
	c, err := e.client.LoadContainer(ctx, id)
	if err != nil {
		tb.Fatalf("cannot find container %s: %v", id, err)
	}
	task, err := c.Task(ctx, nil)
	if errdefs.IsNotFound(err) {
		return nil
	}
	if err != nil {
		tb.Fatalf("cannot find the task of container %s: %v", id, err)
	}
	return task
}

func (e *Engine) pid(ctx context.Context, id string) (uint32, error) {
	c, err := e.client.LoadContainer(ctx, id)
	if err != nil {
		return 0, err
	}
	task, err := c.Task(ctx, nil)
	if err != nil {
		return 0, err
	}
	return task.Pid(), nil
}

// Shim returns the PID of the shim of a container that runs.
func (e *Engine) Shim(tb testing.TB, id string) int {
	tb.Helper()
	p, err := hostproc.Read(int(e.Task(tb, id).Pid()))
	if err != nil {
		tb.Fatal(err)
	}
	return p.PPID
}

// FreezeShim makes the shim of a container hang, until the test ends.
func (e *Engine) FreezeShim(tb testing.TB, id string) {
	tb.Helper()
	shim := e.Shim(tb, id)
	if err := enginetest.Freeze(shim); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = syscall.Kill(shim, syscall.SIGCONT) })
}

// Remove kills and removes a container. One that is gone already is no error.
func (e *Engine) Remove(tb testing.TB, id string) { tb.Helper(); e.RemoveIn(tb, "", id) }

// RemoveIn is Remove for a namespace.
func (e *Engine) RemoveIn(tb testing.TB, namespace, id string) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(named(context.Background(), namespace), stopTimeout)
	defer cancel()
	err := e.removeOnce(ctx, id)
	for errdefs.IsFailedPrecondition(err) && ctx.Err() == nil { // a healthd has started it again meanwhile
		err = e.removeOnce(ctx, id)
	}
	if errdefs.IsNotFound(err) {
		err = nil
	}
	if err = errors.Join(err, e.forgetNetwork(ctx, id)); err != nil {
		tb.Errorf("cannot remove container %s: %v", id, err)
	}
}

func (e *Engine) removeOnce(ctx context.Context, id string) error {
	c, err := e.client.LoadContainer(ctx, id)
	if err != nil {
		return err
	}
	if task, err := c.Task(ctx, nil); err == nil {
		_, _ = task.Delete(ctx, client.WithProcessKill)
	}
	return c.Delete(ctx, client.WithSnapshotCleanup)
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

func randomID() string {
	b := make([]byte, 32)
	_, _ = rand.Read(b)
	return hex.EncodeToString(b)
}
