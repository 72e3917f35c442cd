package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// VERSION is what the changelog begins with.
func TestVersion(t *testing.T) {
	version, err := os.ReadFile(filepath.Join(sourcesDir, "VERSION"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(sourcesDir, "CHANGELOG.md"))
	if err != nil {
		t.Fatal(err)
	}
	releases, err := readChangelog(string(text))
	if err != nil || len(releases) == 0 || releases[0].version+"\n" != string(version) {
		t.Errorf("CHANGELOG.md begins with %v, %v; VERSION is %q", releases, err, version)
	}
	if strings.Count(string(text), "\n## ") != len(releases) {
		t.Errorf("CHANGELOG.md has headings that are no releases: there are %v", releases)
	}
	for _, bad := range []string{"", "1", "v1.2.3", "1.2.3+x", "01.2.3", "1.2.3-", "1.2.3 "} {
		if checkVersion(bad) == nil {
			t.Errorf("%q is a version", bad)
		}
	}
	for _, good := range []string{"0.1.0", "10.20.30", "0.2.0-rc.1"} {
		if err := checkVersion(good); err != nil {
			t.Error(err)
		}
	}
}

func TestChangelog(t *testing.T) {
	got, err := readChangelog("# Changelog\n\n## 0.2.0 (unreleased)\n\n### Added\n\n## 0.1.0 (2026-01-31)\n")
	want := []past{{version: "0.2.0"}, {"0.1.0", time.Date(2026, 1, 31, 0, 0, 0, 0, time.UTC)}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
	for _, bad := range []string{"## 0.1 (unreleased)\n", "## 0.1.0 (soon)\n", "## 0.1.0 (2026-02-30)\n"} {
		if got, err := readChangelog(bad); err == nil {
			t.Errorf("%q: %v", bad, got)
		}
	}
}

func TestLicenses(t *testing.T) {
	for text, want := range map[string]string{
		"    Apache License\n    Version 2.0, January 2004\n": "Apache-2.0",
		"Permission is hereby granted, free of charge, to any person obtaining a copy\nof this software and associated documentation files (the \"Software\")": "MIT",
		"Redistribution and use in source and binary forms, with or without\nmodification, are permitted provided that":                                        "BSD-2-Clause",
		"Redistribution and use in source and binary forms, with or without\nmodification, are permitted provided that ... Neither the name of":                "BSD-3-Clause",
		"All rights reserved.": "",
	} {
		if got := strings.Join(licensesIn(text), " "); got != want {
			t.Errorf("%.40q: %q, want %q", text, got, want)
		}
	}
	m := module{path: "example.org/x", version: "v1.0.0"}
	if err := m.readLicense(t.TempDir()); err == nil || !strings.Contains(err.Error(), "cannot tell the license of example.org/x v1.0.0: there is no text") {
		t.Errorf("a module without a license: %v", err)
	}
}
