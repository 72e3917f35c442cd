package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"
)

// heading begins a release in CHANGELOG.md: "## 0.1.0 (2026-01-31)", or "(unreleased)".
var heading = regexp.MustCompile(`(?m)^## (\S+) \((\S+)\)$`)

const unreleased = "unreleased"

// past is one release of CHANGELOG.md.
type past struct {
	version string
	date    time.Time // zero: not yet
}

func readChangelog(text string) ([]past, error) {
	var all []past
	for _, found := range heading.FindAllStringSubmatch(text, -1) {
		p := past{version: found[1]}
		if err := checkVersion(p.version); err != nil {
			return nil, fmt.Errorf("CHANGELOG.md: %w", err)
		}
		if found[2] != unreleased {
			date, err := time.Parse(time.DateOnly, found[2])
			if err != nil {
				return nil, fmt.Errorf("CHANGELOG.md: %s must have a date such as 2026-01-31, or be %q, it has %q", p.version, unreleased, found[2])
			}
			p.date = date
		}
		all = append(all, p)
	}
	return all, nil
}

// changelog writes the history that packages show, in the form that nfpm reads (JSON is YAML), and
// returns the file. What is new in each release is in CHANGELOG.md, which is in the packages.
func (r *release) changelog(work string) (string, error) {
	text, err := os.ReadFile(filepath.Join(r.repo, "CHANGELOG.md"))
	if err != nil {
		return "", err
	}
	releases, err := readChangelog(string(text))
	if err != nil {
		return "", err
	}
	others := func(p past) bool { return p.date.IsZero() && p.version != r.version }
	if releases = slices.DeleteFunc(releases, others); len(releases) == 0 || releases[0].version != r.version {
		// Somebody's own build, between two releases.
		releases = append([]past{{version: r.version}}, releases...)
	}
	type change struct {
		Note string `json:"note"`
	}
	type entry struct {
		Semver   string   `json:"semver"`
		Date     string   `json:"date"`
		Packager string   `json:"packager"`
		Deb      any      `json:"deb"`
		Changes  []change `json:"changes"`
	}
	var entries []entry
	for _, p := range releases {
		date := p.date
		if date.IsZero() {
			date = r.made
		}
		entries = append(entries, entry{
			Semver: p.version + "-" + packagedAs, Date: date.Format(time.RFC3339), Packager: r.maintainer,
			Deb:     map[string]any{"distributions": []string{"unstable"}, "urgency": "medium"},
			Changes: []change{{"healthd " + p.version + ": " + docPath + "/CHANGELOG.md says what is new."}},
		})
	}
	data, err := json.Marshal(entries)
	if err != nil {
		return "", err
	}
	file := filepath.Join(work, "changelog.yaml")
	return file, os.WriteFile(file, data, 0o644)
}
