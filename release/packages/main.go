// Command packages makes what a release consists of from what make install has put into a directory
// for each architecture: Debian and RPM packages, a list of the modules in each binary (SPDX),
// and the checksums of all that is in dist. Two runs with the same sources, the same Go and the same
// SOURCE_DATE_EPOCH write the same bytes.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// release is what all files of a release have in common.
type release struct {
	version    string // semantic, without v
	maintainer string
	made       time.Time
	repo       string // directory of the sources
}

func main() {
	var r release
	flag.StringVar(&r.version, "version", "", "`VERSION` of healthd")
	flag.StringVar(&r.maintainer, "maintainer", "", "`NAME <ADDRESS>` of who makes the packages")
	flag.StringVar(&r.repo, "sources", "../..", "`DIR` of the sources")
	stage := flag.String("stage", "", "`DIR` with a root for each architecture")
	dist := flag.String("dist", "", "write the release to `DIR`")
	arches := flag.String("arches", "amd64 arm64", "the architectures")
	formats := flag.String("formats", "deb rpm", "the kinds of packages")
	flag.Parse()
	seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		err = fmt.Errorf("SOURCE_DATE_EPOCH must be a number of seconds, it is %q", os.Getenv("SOURCE_DATE_EPOCH"))
	} else {
		r.made = time.Unix(seconds, 0).UTC()
		err = r.write(*stage, *dist, strings.Fields(*arches), strings.Fields(*formats))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "packages: cannot make the release:", err)
		os.Exit(1)
	}
}

// write makes packages and lists of modules in dist, and SHA256SUMS of all that is there.
func (r *release) write(stage, dist string, arches, formats []string) error {
	if err := checkVersion(r.version); err != nil {
		return err
	}
	if err := os.MkdirAll(dist, 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "healthd-packages")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	history, err := r.changelog(work)
	if err != nil {
		return err
	}
	for _, arch := range arches {
		root := filepath.Join(stage, arch)
		modules, err := r.modulesOf(filepath.Join(root, binaryPath), arch)
		if err != nil {
			return err
		}
		if err := r.writeSBOM(dist, arch, filepath.Join(root, binaryPath), modules); err != nil {
			return err
		}
		p := pack{release: r, arch: arch, root: root, changelog: history, notices: filepath.Join(work, "notices-"+arch)}
		if err := os.WriteFile(p.notices, []byte(notices(modules)), 0o644); err != nil {
			return err
		}
		for _, format := range formats {
			if err := p.write(dist, format); err != nil {
				return fmt.Errorf("%s for %s: %w", format, arch, err)
			}
		}
	}
	return writeChecksums(dist)
}
