package containerdtest

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/containerd/containerd/v2/client"
)

const (
	serverPackage = "healthd/runtime/docker/dockertest/testserver"
	snapshotter   = "overlayfs"
)

type buildResult struct {
	tar []byte
	err error
}

// build makes the image, as docker save would, of busybox and the test server.
func build(dir string) buildResult {
	server := filepath.Join(dir, "testserver")
	cmd := exec.Command("go", "build", "-buildvcs=false", "-ldflags=-s -w", "-o", server, serverPackage)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return buildResult{err: fmt.Errorf("cannot build the test server: %w: %s", err, out)}
	}
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		return buildResult{err: err}
	}
	applets, err := exec.Command(busybox, "--list").Output()
	if err != nil {
		return buildResult{err: fmt.Errorf("cannot list busybox's applets: %w", err)}
	}
	layer, err := packLayer(busybox, server, strings.Fields(string(applets)))
	if err != nil {
		return buildResult{err: err}
	}
	b, err := packImage(layer)
	return buildResult{tar: b, err: err}
}

// archive is a tar file that is being written.
type archive struct {
	buf bytes.Buffer
	w   *tar.Writer
	err error
}

func newArchive() *archive {
	a := &archive{}
	a.w = tar.NewWriter(&a.buf)
	return a
}

func (a *archive) add(h tar.Header, body []byte) {
	if a.err != nil {
		return
	}
	h.Size = int64(len(body))
	if a.err = a.w.WriteHeader(&h); a.err == nil {
		_, a.err = a.w.Write(body)
	}
}

func (a *archive) close() ([]byte, error) {
	if a.err == nil {
		a.err = a.w.Close()
	}
	return a.buf.Bytes(), a.err
}

func packLayer(busybox, server string, applets []string) ([]byte, error) {
	a := newArchive()
	for _, dir := range []string{"bin/", "tmp/", "etc/", "proc/", "dev/", "sys/"} {
		a.add(tar.Header{Typeflag: tar.TypeDir, Name: dir, Mode: 0o755}, nil)
	}
	for name, path := range map[string]string{"busybox": busybox, "testserver": server} {
		body, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		a.add(tar.Header{Typeflag: tar.TypeReg, Name: "bin/" + name, Mode: 0o755}, body)
	}
	for _, name := range applets {
		if name != "busybox" {
			a.add(tar.Header{Typeflag: tar.TypeSymlink, Name: "bin/" + name, Linkname: "busybox", Mode: 0o777}, nil)
		}
	}
	return a.close()
}

func packImage(layer []byte) ([]byte, error) {
	sum := sha256.Sum256(layer)
	config, err := json.Marshal(map[string]any{
		"architecture": "amd64", "os": "linux",
		"config": map[string]any{"Env": []string{"PATH=/bin"}, "Cmd": []string{"/bin/testserver"}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + hex.EncodeToString(sum[:])}},
	})
	if err != nil {
		return nil, err
	}
	manifest, err := json.Marshal([]map[string]any{{"Config": "config.json", "RepoTags": []string{"healthd-test:1"}, "Layers": []string{"layer.tar"}}})
	if err != nil {
		return nil, err
	}
	a := newArchive()
	for name, body := range map[string][]byte{"config.json": config, "layer.tar": layer, "manifest.json": manifest} {
		a.add(tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644}, body)
	}
	return a.close()
}

func (e *Engine) importImage(b []byte) error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	images, err := e.client.Import(ctx, bytes.NewReader(b))
	if err != nil {
		return fmt.Errorf("cannot import the test image: %w", err)
	}
	for _, image := range images {
		if err := client.NewImage(e.client, image).Unpack(ctx, snapshotter); err != nil {
			return fmt.Errorf("cannot unpack the test image: %w", err)
		}
	}
	return nil
}
