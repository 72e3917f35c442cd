package containerdtest

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/containerd/v2/pkg/oci"
	"github.com/opencontainers/runtime-spec/specs-go"

	"healthd/runtime/enginetest"
)

// Bridge is the network mode of a container on nerdctl's default bridge. Each of its tasks gets
// another address, which healthd finds where nerdctl writes it.
const Bridge = "bridge"

// nerdctlParent is where nerdctl keeps its data: in a directory for each containerd.
const nerdctlParent = "/var/lib/nerdctl"

//go:embed hook.sh
var hook []byte

// claim takes a network and writes what the engine in dir has elsewhere, for cleanUp.
func (e *Engine) claim() error {
	real, err := filepath.EvalSymlinks(e.dir)
	if err != nil {
		return err
	}
	socket := sha256.Sum256([]byte(filepath.Join(real, "c.sock")))
	e.nerdctl = filepath.Join(nerdctlParent, hex.EncodeToString(socket[:4]))
	if e.network, err = enginetest.ClaimNetwork(); err != nil {
		return err
	}
	if err := enginetest.Claim(e.dir, e.network.Bridge, e.nerdctl); err != nil {
		return errors.Join(err, enginetest.RemoveBridge(e.network.Bridge))
	}
	if err := errors.Join(makeNerdctlDir(e.nerdctl), os.Mkdir(e.Path("network"), 0o700)); err != nil {
		return err
	}
	return os.WriteFile(e.Path("hook.sh"), hook, 0o600)
}

// makeNerdctlDir tries again when another engine's end removes the empty parent meanwhile.
func makeNerdctlDir(dir string) (err error) {
	for range 5 {
		if err = os.MkdirAll(dir, 0o700); !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return err
}

// Traces returns what the engine has on the host while it has a container on its bridge.
func (e *Engine) Traces() []string {
	bridge := filepath.Join("/sys/class/net", e.network.Bridge)
	ports, _ := filepath.Glob(filepath.Join(bridge, "brif", "*"))
	return append(ports, e.dir, bridge, e.nerdctl)
}

// metaFile is where nerdctl writes what CNI says of a container.
func (e *Engine) metaFile(namespace, id string) string {
	return filepath.Join(e.nerdctl, "etchosts", namespace, id, "meta.json")
}

// withBridge has runc call nerdctl's hooks: createRuntime for each new task, poststop when it is
// deleted.
func (e *Engine) withBridge(namespace, id string) oci.SpecOpts {
	call := func(action string) []specs.Hook {
		return []specs.Hook{{
			Path: "/bin/sh", Args: []string{"sh", e.Path("hook.sh"), action, e.Path("network"), namespace + "/" + id, e.metaFile(namespace, id)},
			Env: []string{"PATH=" + os.Getenv("PATH"), "BRIDGE=" + e.network.Bridge, "PREFIX=" + e.network.Prefix},
		}}
	}
	return func(_ context.Context, _ oci.Client, _ *containers.Container, s *oci.Spec) error {
		s.Hooks = &specs.Hooks{CreateRuntime: call("createRuntime"), Poststop: call("poststop")}
		return os.MkdirAll(filepath.Dir(e.metaFile(namespace, id)), 0o700)
	}
}

// forgetNetwork is what nerdctl rm does beside CNI.
func (e *Engine) forgetNetwork(ctx context.Context, id string) error {
	namespace, err := namespaces.NamespaceRequired(ctx)
	if err != nil {
		return err
	}
	return os.RemoveAll(filepath.Dir(e.metaFile(namespace, id)))
}

// PublishPorts writes, as nerdctl does, that it publishes ports of a container. The mappings are CNI's, in JSON.
func (e *Engine) PublishPorts(tb testing.TB, id, mappings string) {
	tb.Helper()
	dir := filepath.Join(e.nerdctl, "containers", Namespace, id)
	tb.Cleanup(func() { _ = os.RemoveAll(dir) })
	file := filepath.Join(dir, "network-config.json")
	if err := errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(file, []byte(`{"portMappings":`+mappings+`}`), 0o600)); err != nil {
		tb.Fatal(err)
	}
}

// TakeAddresses takes all addresses that are free, until the function is called that it returns.
func (e *Engine) TakeAddresses(tb testing.TB) (release func()) {
	tb.Helper()
	var taken []string
	for number := 2; number <= 126; number++ {
		file, err := os.OpenFile(e.Path("network", fmt.Sprintf("address-%d", number)), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if errors.Is(err, os.ErrExist) {
			continue
		}
		if err != nil {
			tb.Fatal(err)
		}
		taken = append(taken, file.Name())
		if _, err := file.WriteString("nobody\n"); errors.Join(err, file.Close()) != nil {
			tb.Fatal(err)
		}
	}
	return func() {
		for _, name := range taken {
			_ = os.Remove(name)
		}
	}
}
