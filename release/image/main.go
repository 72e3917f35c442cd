// Command image writes healthd's container images: for each architecture an archive that "docker load",
// "podman load" and "ctr images import" take, and one OCI layout with all of them. It asks no engine to build:
//
//	binary ── rootFS ──▶ layer ── newImage ──▶ configuration, manifest ── archive.write ──▶ FILE.tar
//
// Two runs with the same input write the same bytes: nothing is compressed, and all times are --created.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

// release is what all images of one release have in common.
type release struct {
	version, commit string
	created         time.Time
}

func run(args []string) error {
	var r release
	var out string
	var created int64
	var binaries []string
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	flags.StringVar(&r.version, "version", "", "version of healthd")
	flags.StringVar(&r.commit, "commit", "", "commit of its source")
	flags.Int64Var(&created, "created", 0, "time of everything in the images, in seconds since 1970")
	flags.StringVar(&out, "out", "dist", "directory for the archives")
	flags.Func("binary", "`ARCH=PATH` of a static healthd; may be repeated", func(s string) error {
		binaries = append(binaries, s)
		return nil
	})
	if err := flags.Parse(args); err != nil {
		return err
	}
	r.created = time.Unix(created, 0).UTC()
	if r.version == "" || len(binaries) == 0 || flags.NArg() > 0 {
		return fmt.Errorf("cannot make an image: it needs -version and -binary ARCH=PATH, and nothing else than flags")
	}
	var images []*builtImage
	for _, b := range binaries {
		arch, path, ok := strings.Cut(b, "=")
		if !ok {
			return fmt.Errorf("cannot make an image: -binary must be ARCH=PATH, is %q", b)
		}
		img, err := r.image(arch, path)
		if err != nil {
			return err
		}
		images = append(images, img)
	}
	return writeAll(out, r, images)
}

// image makes the image of one architecture.
func (r release) image(arch, path string) (*builtImage, error) {
	program, err := os.ReadFile(path)
	if err == nil {
		err = checkProgram(program, arch)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot make the image for %s of %s: %w", arch, path, err)
	}
	layer, err := writeLayer(rootFS(program), r.created)
	if err != nil {
		return nil, fmt.Errorf("cannot make the image for %s: %w", arch, err)
	}
	return newImage(r, arch, layer)
}

// writeAll writes an archive for each image, and one of all.
func writeAll(dir string, r release, images []*builtImage) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, img := range images {
		if err := writeFile(filepath.Join(dir, "healthd-image-"+img.arch+".tar"), r, true, img); err != nil {
			return err
		}
	}
	return writeFile(filepath.Join(dir, "healthd-image-oci.tar"), r, false, images...)
}

// writeFile never leaves half an archive under its name.
func writeFile(path string, r release, forDocker bool, images ...*builtImage) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".healthd-image-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	err = writeArchive(f, r, forDocker, images)
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Chmod(f.Name(), 0o644)
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("cannot write %s: %w", path, err)
	}
	fmt.Println(path)
	return nil
}
