package main

import (
	"archive/tar"
	"bytes"
	"crypto/x509"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	oci "github.com/opencontainers/image-spec/specs-go/v1"
)

// programs builds a small static program for both architectures.
func programs(t *testing.T) []string {
	t.Helper()
	dir := t.TempDir()
	source := filepath.Join(dir, "main.go")
	if err := os.WriteFile(source, []byte("package main\nfunc main() {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var flags []string
	for _, arch := range []string{"amd64", "arm64"} {
		out := filepath.Join(dir, arch)
		cmd := exec.Command("go", "build", "-trimpath", "-o", out, source)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch)
		if text, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("cannot build for %s: %v: %s", arch, err, text)
		}
		flags = append(flags, "-binary", arch+"="+out)
	}
	return flags
}

func makeImages(t *testing.T, binaries []string, more ...string) string {
	t.Helper()
	out := t.TempDir()
	args := append([]string{"-version", "0.1.0", "-commit", "abc", "-created", "1700000000", "-out", out}, binaries...)
	if err := run(append(args, more...)); err != nil {
		t.Fatal(err)
	}
	return out
}

// contents returns the files of a tar, and checks what all entries have in common.
func contents(t *testing.T, data []byte) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	for r := tar.NewReader(bytes.NewReader(data)); ; {
		h, err := r.Next()
		if err == io.EOF {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		dir := filepath.Dir(strings.TrimSuffix(h.Name, "/")) + "/"
		if _, there := all[dir]; dir != "./" && !there {
			t.Errorf("%s comes before its directory", h.Name)
		}
		if h.ModTime.Unix() != 1700000000 || h.Uid != 0 || h.Gid != 0 || h.Uname != "" {
			t.Errorf("%s: %+v", h.Name, h)
		}
		b, err := io.ReadAll(r)
		if _, twice := all[h.Name]; err != nil || twice {
			t.Errorf("%s: twice %v, %v", h.Name, twice, err)
		}
		all[h.Name] = b
	}
}

func read(t *testing.T, path string) map[string][]byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return contents(t, data)
}

func parse(t *testing.T, data []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(data, into); err != nil {
		t.Fatalf("%v in %s", err, data)
	}
}

// blobOf returns what a descriptor names, and checks it.
func blobOf(t *testing.T, files map[string][]byte, d oci.Descriptor) []byte {
	t.Helper()
	data := files["blobs/sha256/"+d.Digest.Encoded()]
	if digest.FromBytes(data) != d.Digest || int64(len(data)) != d.Size {
		t.Fatalf("no blob %+v", d)
	}
	return data
}

func TestImage(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-packages runs it")
	}
	binaries := programs(t)
	dir := makeImages(t, binaries)
	for _, arch := range []string{"amd64", "arm64"} {
		files := read(t, filepath.Join(dir, "healthd-image-"+arch+".tar"))
		var top oci.Index
		parse(t, files["index.json"], &top)
		if len(top.Manifests) != 2 || top.Manifests[0].Digest != top.Manifests[1].Digest || top.Manifests[0].Platform.Architecture != arch ||
			top.Manifests[0].Annotations["io.containerd.image.name"] != "docker.io/library/healthd:0.1.0" || top.Manifests[1].Annotations[oci.AnnotationRefName] != "latest" {
			t.Errorf("%s: index %s", arch, files["index.json"])
		}
		checkImage(t, files, top.Manifests[0], arch)
		var list []struct {
			Config           string
			RepoTags, Layers []string
		}
		parse(t, files["manifest.json"], &list)
		if len(list) != 1 || !slices.Equal(list[0].RepoTags, []string{"healthd:0.1.0", "healthd:latest"}) || files[list[0].Config] == nil || files[list[0].Layers[0]] == nil {
			t.Errorf("%s: list for Docker %s", arch, files["manifest.json"])
		}
	}
	both := read(t, filepath.Join(dir, "healthd-image-oci.tar"))
	var top, all oci.Index
	parse(t, both["index.json"], &top)
	parse(t, blobOf(t, both, top.Manifests[0]), &all)
	if len(all.Manifests) != 2 || both["manifest.json"] != nil || string(both["oci-layout"]) != `{"imageLayoutVersion":"1.0.0"}` {
		t.Fatalf("layout: %s", both["index.json"])
	}
	for i, arch := range []string{"amd64", "arm64"} {
		checkImage(t, both, all.Manifests[i], arch)
	}
	for i, again := 0, makeImages(t, binaries); i < 3; i++ {
		name := []string{"healthd-image-amd64.tar", "healthd-image-arm64.tar", "healthd-image-oci.tar"}[i]
		a, err := os.ReadFile(filepath.Join(dir, name))
		b, err2 := os.ReadFile(filepath.Join(again, name))
		if err != nil || err2 != nil || !bytes.Equal(a, b) {
			t.Errorf("%s is not the same from two runs: %v, %v", name, err, err2)
		}
	}
}

// checkImage checks an image from its manifest down to its files.
func checkImage(t *testing.T, files map[string][]byte, d oci.Descriptor, arch string) {
	t.Helper()
	var manifest oci.Manifest
	parse(t, blobOf(t, files, d), &manifest)
	var config struct {
		oci.Image
		Config struct {
			oci.ImageConfig
			Healthcheck struct{ Test []string }
		} `json:"config"`
	}
	parse(t, blobOf(t, files, manifest.Config), &config)
	c := config.Config
	if config.Architecture != arch || config.OS != "linux" || config.RootFS.DiffIDs[0] != manifest.Layers[0].Digest || config.Created.Unix() != 1700000000 ||
		!slices.Equal(c.Entrypoint, []string{"/healthd"}) || !slices.Equal(c.Cmd, []string{"run"}) || !slices.Equal(c.Healthcheck.Test, []string{"CMD", "/healthd", "live"}) ||
		c.Labels[oci.AnnotationVersion] != "0.1.0" || c.Labels[oci.AnnotationRevision] != "abc" || c.Labels["healthd.enable"] != "false" || c.User != "" {
		t.Errorf("%s: configuration %s", arch, blobOf(t, files, manifest.Config))
	}
	layer := contents(t, blobOf(t, files, manifest.Layers[0]))
	if err := checkProgram(layer["healthd"], arch); err != nil {
		t.Errorf("%s: %v", arch, err)
	}
	if _, state := layer["var/lib/healthd/"]; !state || layer["etc/healthd/"] != nil {
		t.Errorf("%s: files %v", arch, layer)
	}
	if pool := x509.NewCertPool(); !pool.AppendCertsFromPEM(layer["etc/ssl/certs/ca-certificates.crt"]) || bytes.Count(layer["etc/ssl/certs/ca-certificates.crt"], []byte("BEGIN CERTIFICATE")) < 50 {
		t.Errorf("%s: too few authorities", arch)
	}
}

func TestRefusedPrograms(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-packages runs it")
	}
	binaries := programs(t)
	amd64 := strings.TrimPrefix(binaries[1], "amd64=")
	text := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(text, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	shell, err := filepath.EvalSymlinks("/bin/sh") // of the machine, with libraries
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ args, want string }{
		{"-binary amd64=" + amd64, "it needs -version"},
		{"-version 1", "it needs -version and -binary"},
		{"-version 1 -binary " + amd64, "-binary must be ARCH=PATH"},
		{"-version 1 -binary arm64=" + amd64, "it is a program for EM_X86_64"},
		{"-version 1 -binary riscv64=" + amd64, "no image for the architecture riscv64"},
		{"-version 1 -binary amd64=" + text, "it is no program for Linux"},
		{"-version 1 -binary " + runtime.GOARCH + "=" + shell, "needs shared libraries: build it with CGO_ENABLED=0"},
		{"-version 1 -binary amd64=" + text + ".none", "no such file"},
	} {
		out := t.TempDir()
		err := run(append(strings.Fields(tt.args), "-out", out))
		if left, _ := os.ReadDir(out); err == nil || !strings.Contains(err.Error(), tt.want) || len(left) > 0 {
			t.Errorf("%s: %v, %d files left, want %q", tt.args, err, len(left), tt.want)
		}
	}
}
