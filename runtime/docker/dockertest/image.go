package dockertest

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/docker/docker/api/types/image"
)

const serverPackage = "healthd/runtime/docker/dockertest/testserver"

type buildResult struct {
	tar []byte
	err error
}

// build makes the image's file system: busybox and the test server.
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
	b, err := pack(busybox, server, strings.Fields(string(applets)))
	return buildResult{tar: b, err: err}
}

func pack(busybox, server string, applets []string) ([]byte, error) {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	add := func(h tar.Header, body []byte) error {
		h.Size = int64(len(body))
		if err := w.WriteHeader(&h); err != nil {
			return err
		}
		_, err := w.Write(body)
		return err
	}
	for _, dir := range []string{"bin/", "tmp/", "etc/", "proc/", "dev/", "sys/"} {
		if err := add(tar.Header{Typeflag: tar.TypeDir, Name: dir, Mode: 0o755}, nil); err != nil {
			return nil, err
		}
	}
	for name, path := range map[string]string{"busybox": busybox, "testserver": server} {
		body, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		if err := add(tar.Header{Typeflag: tar.TypeReg, Name: "bin/" + name, Mode: 0o755}, body); err != nil {
			return nil, err
		}
	}
	for _, name := range applets {
		if name == "busybox" {
			continue
		}
		if err := add(tar.Header{Typeflag: tar.TypeSymlink, Name: "bin/" + name, Linkname: "busybox", Mode: 0o777}, nil); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

func (e *Engine) importImage(fs []byte) error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	name, tag, _ := strings.Cut(Image, ":")
	body, err := e.client.ImageImport(ctx, image.ImportSource{Source: bytes.NewReader(fs), SourceName: "-"}, name,
		image.ImportOptions{Tag: tag, Changes: []string{"ENV PATH=/bin", `CMD ["/bin/testserver"]`}})
	if err != nil {
		return fmt.Errorf("cannot import the test image: %w", err)
	}
	defer body.Close()
	out, err := io.ReadAll(body)
	if err != nil {
		return fmt.Errorf("cannot import the test image: %w", err)
	}
	if bytes.Contains(out, []byte(`"error"`)) {
		return fmt.Errorf("cannot import the test image: %s", out)
	}
	return e.nameImage(ctx)
}

// nameImage gives the only image the name that containers are made of: Podman 4.3 gives another
// one to an import.
func (e *Engine) nameImage(ctx context.Context) error {
	if !usePodman {
		return nil
	}
	images, err := e.client.ImageList(ctx, image.ListOptions{})
	if err == nil && len(images) != 1 {
		err = fmt.Errorf("there are %d images", len(images))
	}
	if err == nil {
		err = e.client.ImageTag(ctx, images[0].ID, "docker.io/library/"+Image)
	}
	if err != nil {
		return fmt.Errorf("cannot name the test image: %w", err)
	}
	return nil
}
