package containerdtest

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/containerd/containerd/v2/client"

	"healthd/runtime/enginetest"
)

const snapshotter = "overlayfs"

// packImage makes the test image, as docker save would.
func packImage() ([]byte, error) {
	layer, err := enginetest.ImageLayer()
	if err != nil {
		return nil, err
	}
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
	var a enginetest.Archive
	for name, body := range map[string][]byte{"config.json": config, "layer.tar": layer, "manifest.json": manifest} {
		a.Add(tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644}, body)
	}
	return a.Close()
}

func (e *Engine) importImage() error {
	b, err := packImage()
	if err != nil {
		return err
	}
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
