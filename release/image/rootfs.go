package main

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"encoding/pem"
	"errors"
	"fmt"
	"time"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// file is one entry of the image's file system; a name that ends with a slash is a directory.
type file struct {
	name string
	mode int64
	body []byte
}

const (
	// Any user may run healthd in its image: nothing else runs there.
	anyUser = 0o1777
	passwd  = "root:x:0:0:root:/:/sbin/nologin\nhealthd:x:65532:65532:healthd:/:/sbin/nologin\nnobody:x:65534:65534:nobody:/:/sbin/nologin\n"
	group   = "root:x:0:\nhealthd:x:65532:\nnogroup:x:65534:\n"
)

// rootFS is all that the image has. A directory comes before what is in it.
func rootFS(program []byte) []file {
	return []file{
		{"etc/", 0o755, nil},
		{"etc/group", 0o644, []byte(group)},
		{"etc/passwd", 0o644, []byte(passwd)},
		{"etc/ssl/", 0o755, nil},
		{"etc/ssl/certs/", 0o755, nil},
		{"etc/ssl/certs/ca-certificates.crt", 0o644, authorities()},
		{"healthd", 0o755, program},
		{"run/", 0o755, nil},
		{"run/healthd/", anyUser, nil},
		{"var/", 0o755, nil},
		{"var/lib/", 0o755, nil},
		{"var/lib/healthd/", anyUser, nil}, // a new volume gets its mode
	}
}

// authorities returns the roots that https probes with verify = true trust. They are those of the module in
// go.sum, not those of the machine that builds. Roots with further conditions, which a file of certificates cannot
// express, are left out.
func authorities() []byte {
	var b bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			_ = pem.Encode(&b, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // a Buffer takes all
		}
	}
	return b.Bytes()
}

// writeLayer returns the files as the tar of a layer.
func writeLayer(files []file, at time.Time) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range files {
		if err := addFile(w, f, at); err != nil {
			return nil, fmt.Errorf("cannot add %s: %w", f.name, err)
		}
	}
	err := w.Close()
	return b.Bytes(), err
}

func addFile(w *tar.Writer, f file, at time.Time) error {
	h := &tar.Header{Typeflag: tar.TypeReg, Name: f.name, Mode: f.mode, Size: int64(len(f.body)), ModTime: at, Format: tar.FormatUSTAR}
	if f.name[len(f.name)-1] == '/' {
		h.Typeflag = tar.TypeDir
	}
	if err := w.WriteHeader(h); err != nil {
		return err
	}
	_, err := w.Write(f.body)
	return err
}

// machines are the architectures that there are images for.
var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

// checkProgram refuses what cannot run in an image without libraries, or is of another architecture.
func checkProgram(program []byte, arch string) error {
	machine, known := machines[arch]
	if !known {
		return fmt.Errorf("there is no image for the architecture %s", arch)
	}
	f, err := elf.NewFile(bytes.NewReader(program))
	if err != nil {
		return fmt.Errorf("it is no program for Linux: %w", err)
	}
	if f.Machine != machine {
		return fmt.Errorf("it is a program for %v", f.Machine)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return errors.New("it needs shared libraries: build it with CGO_ENABLED=0")
		}
	}
	return nil
}
