package main

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm"
)

const (
	binaryPath = "usr/bin/healthd"
	docPath    = "/usr/share/doc/healthd"
	packagedAs = "1" // the release of the package, of one version of healthd
)

const description = `container health supervisor for Docker and containerd hosts
healthd probes containers by HTTP, TCP, gRPC, a command in the container, or
the engine's own HEALTHCHECK. It restarts containers that hang or crash, with
exponential back-off, and tells load balancers which containers are ready.
It is the kubelet's health half without Kubernetes.`

// pack is the package for one architecture.
type pack struct {
	*release
	arch      string
	root      string // what make install made
	changelog string // file
	notices   string // file
}

// write makes the package in dist.
func (p *pack) write(dist, format string) error {
	packager, err := nfpm.Get(format)
	if err != nil {
		return err
	}
	contents, err := p.contents(format)
	if err != nil {
		return err
	}
	info := nfpm.WithDefaults(&nfpm.Info{
		Name: "healthd", Arch: p.arch, Platform: "linux", Version: p.version, Release: packagedAs,
		Section: "admin", Priority: "optional", Maintainer: p.maintainer, License: "Apache-2.0",
		Description: description, Changelog: p.changelog, MTime: p.made, DisableGlobbing: true,
		Overridables: nfpm.Overridables{Contents: contents, Scripts: p.scripts(format)},
	})
	// What users of a package manager look for beside it. healthd itself needs nothing but a kernel.
	info.Suggests = []string{"haproxy"}
	if format == "deb" {
		info.Suggests = []string{"docker.io | docker-ce | containerd", "haproxy"}
	}
	info.Deb.Compression = "gzip"
	info.RPM.Compression = "gzip:9"
	if format == "rpm" {
		info.RPM.Summary, info.Description, _ = strings.Cut(description, "\n")
		info.RPM.Summary = "C" + strings.TrimPrefix(info.RPM.Summary, "c") // as RPM's are
	}
	info.RPM.BuildHost = "localhost" // not the one that it was made on
	info.RPM.Group = "System Environment/Daemons"
	f, err := os.Create(filepath.Join(dist, packager.ConventionalFileName(info)))
	if err != nil {
		return err
	}
	if err := packager.Package(info, f); err != nil {
		_ = f.Close()
		return err
	}
	return f.Close()
}

// scripts returns those of the package manager. Debian's get the name of the first two arguments
// from dpkg, those of RPM a number.
func (p *pack) scripts(format string) nfpm.Scripts {
	script := func(name string) string {
		return filepath.Join(p.repo, "release", "packages", "scripts", format+"-"+name)
	}
	return nfpm.Scripts{PostInstall: script("postinst"), PreRemove: script("prerm"), PostRemove: script("postrm")}
}

// contents lists the files of the package: what make install has installed, and what only packages have.
func (p *pack) contents(format string) (files.Contents, error) {
	var all files.Contents
	err := filepath.WalkDir(p.root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(p.root, file)
		if err != nil {
			return err
		}
		c, err := p.content(file, "/"+filepath.ToSlash(rel), d, format)
		if c != nil {
			all = append(all, c)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("there is nothing in %s", p.root)
	}
	return append(all, p.own(format)...), nil
}

// own returns the files that only packages have.
func (p *pack) own(format string) files.Contents {
	here := filepath.Join(p.repo, "release", "packages")
	plain := func(source, destination string) *files.Content {
		return &files.Content{Source: source, Destination: destination, FileInfo: &files.ContentFileInfo{Mode: 0o644}}
	}
	all := files.Contents{plain(p.notices, path.Join(docPath, "third-party-licenses.txt"))}
	switch format {
	case "rpm":
		all[0].Type = files.TypeRPMLicense
	case "deb":
		all = append(all, plain(filepath.Join(here, "debian", "copyright"), path.Join(docPath, "copyright")),
			plain(filepath.Join(here, "debian", "lintian-overrides"), "/usr/share/lintian/overrides/healthd"))
	}
	return all
}

// content returns what the package has at a path, nil for nothing.
func (p *pack) content(file, at string, d fs.DirEntry, format string) (*files.Content, error) {
	info, err := d.Info()
	if err != nil {
		return nil, err
	}
	c := &files.Content{Source: file, Destination: placed(at, format), FileInfo: &files.ContentFileInfo{Mode: info.Mode().Perm()}}
	switch {
	case at == docPath+"/LICENSE" && format == "deb":
		// Debian has the text already.
		c.Source, c.Type, c.FileInfo.Mode = "../../common-licenses/Apache-2.0", files.TypeSymlink, 0o777
	case d.Type() == fs.ModeSymlink:
		c.Type, c.FileInfo.Mode = files.TypeSymlink, 0o777
		c.Source, err = os.Readlink(file)
	case d.IsDir() && ownDirectory(at):
		c.Type, c.Source = files.TypeDir, ""
	case d.IsDir():
		return nil, nil // of everybody
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is neither a file nor a directory nor a link", file)
	case strings.HasPrefix(at, "/etc/"):
		c.Type = files.TypeConfigNoReplace
	case at == docPath+"/LICENSE":
		c.Type = files.TypeRPMLicense
	case format == "rpm" && (strings.HasPrefix(at, docPath+"/") || strings.HasPrefix(at, "/usr/share/man/")):
		c.Type = files.TypeRPMDoc
	}
	return c, err
}

// ownDirectory says whether a directory is healthd's, and removed with it.
func ownDirectory(at string) bool {
	return at == "/etc/healthd" || strings.HasPrefix(at, "/etc/healthd/") || at == docPath || strings.HasPrefix(at, docPath+"/")
}

// placed returns where a distribution has what make install puts into the place of zsh itself.
func placed(at, format string) string {
	if rest, ok := strings.CutPrefix(at, "/usr/share/zsh/site-functions/"); ok && format == "deb" {
		return "/usr/share/zsh/vendor-completions/" + rest
	}
	return at
}
