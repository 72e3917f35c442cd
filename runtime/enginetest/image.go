package enginetest

import (
	"archive/tar"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

const serverPackage = "healthd/runtime/docker/dockertest/testserver"

// ImageLayer returns the file system of the test image as a tar file: busybox with all its applets in /bin, and
// /bin/testserver.
var ImageLayer = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "healthd-image")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	server := filepath.Join(dir, "testserver")
	// go run keeps what it has linked, for the other packages' tests; go build does not.
	cmd := exec.Command("go", "run", "-exec", "cp", "-buildvcs=false", "-ldflags=-s -w", serverPackage, server)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("cannot build the test server: %w: %s", err, out)
	}
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		return nil, err
	}
	applets, err := exec.Command(busybox, "--list").Output()
	if err != nil {
		return nil, fmt.Errorf("cannot list busybox's applets: %w", err)
	}
	return packLayer(busybox, server, strings.Fields(string(applets)))
})

func packLayer(busybox, server string, applets []string) ([]byte, error) {
	var a Archive
	for _, dir := range []string{"bin/", "tmp/", "etc/", "proc/", "dev/", "sys/"} {
		a.Add(tar.Header{Typeflag: tar.TypeDir, Name: dir, Mode: 0o755}, nil)
	}
	for name, path := range map[string]string{"busybox": busybox, "testserver": server} {
		body, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		a.Add(tar.Header{Typeflag: tar.TypeReg, Name: "bin/" + name, Mode: 0o755}, body)
	}
	for _, name := range applets {
		if name != "busybox" {
			a.Add(tar.Header{Typeflag: tar.TypeSymlink, Name: "bin/" + name, Linkname: "busybox", Mode: 0o777}, nil)
		}
	}
	return a.Close()
}

// Archive is a tar file that is being written. The zero value is an empty one.
type Archive struct {
	buf bytes.Buffer
	w   *tar.Writer
	err error
}

// Add adds a file whose size is that of body.
func (a *Archive) Add(h tar.Header, body []byte) {
	if a.w == nil {
		a.w = tar.NewWriter(&a.buf)
	}
	h.Size = int64(len(body))
	if a.err == nil {
		a.err = a.w.WriteHeader(&h)
	}
	if a.err == nil {
		_, a.err = a.w.Write(body)
	}
}

// Close returns the file, or the first error.
func (a *Archive) Close() ([]byte, error) {
	if a.err == nil {
		a.err = a.w.Close()
	}
	return a.buf.Bytes(), a.err
}
