package main

import (
	"bytes"
	"cmp"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
)

// module is one that a binary has parts of.
type module struct {
	path, version string
	sum           string // as go.sum has it; "" for the standard library
	license       string // as SPDX writes it; "" if it is not known
	texts         []string
}

const standardLibrary = "stdlib"

// modulesOf returns the modules of a binary, Go's own library first.
func (r *release) modulesOf(binary, arch string) ([]module, error) {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return nil, fmt.Errorf("cannot tell the modules of %s: %w", binary, err)
	}
	dirs, err := r.moduleDirs(arch)
	if err != nil {
		return nil, err
	}
	root, err := r.goOutput(arch, "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	all := []module{{path: standardLibrary, version: strings.TrimPrefix(info.GoVersion, "go")}}
	if err := all[0].readLicense(strings.TrimSpace(string(root))); err != nil {
		return nil, err
	}
	slices.SortFunc(info.Deps, func(a, b *debug.Module) int { return cmp.Compare(a.Path, b.Path) })
	for _, d := range info.Deps {
		if d.Replace != nil {
			d = d.Replace
		}
		m := module{path: d.Path, version: d.Version, sum: d.Sum}
		dir := dirs[d.Path+" "+d.Version]
		if dir == "" {
			return nil, fmt.Errorf("%s has %s %s, and go.mod another version: build it again", binary, d.Path, d.Version)
		}
		if err := m.readLicense(dir); err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	return all, nil
}

// moduleDirs returns where the sources of the modules are, by path and version.
func (r *release) moduleDirs(arch string) (map[string]string, error) {
	out, err := r.goOutput(arch, "list", "-deps", "-json=Module", "./cmd/healthd")
	if err != nil {
		return nil, err
	}
	dirs := map[string]string{}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			Module *struct{ Path, Version, Dir string }
		}
		switch err := d.Decode(&p); {
		case errors.Is(err, io.EOF):
			return dirs, nil
		case err != nil:
			return nil, fmt.Errorf("cannot read what go list says: %w", err)
		case p.Module != nil:
			dirs[p.Module.Path+" "+p.Module.Version] = p.Module.Dir
		}
	}
}

// goOutput asks go about the sources, as it builds them for an architecture.
func (r *release) goOutput(arch string, args ...string) ([]byte, error) {
	cmd := exec.Command(cmp.Or(os.Getenv("GO"), "go"), args...)
	cmd.Dir = r.repo
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH="+arch, "CGO_ENABLED=0")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return out, nil
}

var licenseFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents)([.-].*)?$`)

// readLicense reads the texts with which a module may be passed on: its licenses, and notices.
func (m *module) readLicense(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("cannot tell the license of %s: %w", m.path, err)
	}
	found := map[string]bool{}
	for _, e := range entries {
		if e.IsDir() || !licenseFile.MatchString(e.Name()) || filepath.Ext(e.Name()) == ".go" {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return fmt.Errorf("cannot tell the license of %s: %w", m.path, err)
		}
		m.texts = append(m.texts, strings.TrimSpace(string(text)))
		if strings.Contains(strings.ToLower(e.Name()), "docs") {
			continue // of what is not in the binary
		}
		for _, id := range licensesIn(string(text)) {
			found[id] = true
		}
	}
	if len(m.texts) == 0 {
		return fmt.Errorf("cannot tell the license of %s %s: there is no text of one in %s", m.path, m.version, dir)
	}
	m.license = strings.Join(slices.Sorted(maps.Keys(found)), " AND ")
	return nil
}

// licensesIn recognizes the licenses that Go modules have by words that only these have.
func licensesIn(text string) []string {
	text = strings.ToLower(strings.Join(strings.Fields(text), " "))
	has := func(words string) bool { return strings.Contains(text, words) }
	redistribution := has("redistribution and use in source and binary forms, with or without modification, are permitted")
	unnamed := has("neither the name") || has("the names of its contributors may not be used")
	var all []string
	for _, l := range []struct {
		id string
		is bool
	}{
		{"Apache-2.0", has("apache license version 2.0, january 2004")},
		{"BSD-2-Clause", redistribution && !unnamed},
		{"BSD-3-Clause", redistribution && unnamed},
		{"ISC", has("for any purpose with or without fee is hereby granted")},
		{"MIT", has("permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated documentation files")},
		{"MPL-2.0", has("mozilla public license version 2.0") || has("mozilla public license, version 2.0")},
	} {
		if l.is {
			all = append(all, l.id)
		}
	}
	return all
}
