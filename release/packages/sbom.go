package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/common"
	spdx "github.com/spdx/tools-golang/spdx/v2/v2_3"
)

const notSaid = "NOASSERTION"

var notInID = regexp.MustCompile(`[^A-Za-z0-9.-]`)

// writeSBOM writes what a binary is made of as an SPDX 2.3 document.
func (r *release) writeSBOM(dist, arch, binary string, modules []module) error {
	sum, err := sha256Of(binary)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("healthd-%s-linux-%s.spdx.json", r.version, arch)
	doc := r.sbom(name, arch, sum, modules)
	f, err := os.Create(filepath.Join(dist, name))
	if err != nil {
		return err
	}
	if err := json.Write(doc, f, json.Indent("  "), json.EscapeHTML(false)); err != nil {
		_ = f.Close()
		return fmt.Errorf("cannot write %s: %w", name, err)
	}
	return f.Close()
}

func (r *release) sbom(name, arch, sum string, modules []module) *spdx.Document {
	const self = common.ElementID("Package-healthd")
	doc := &spdx.Document{
		SPDXVersion: spdx.Version, DataLicense: spdx.DataLicense, SPDXIdentifier: "DOCUMENT",
		DocumentName: name,
		// It must be of this document alone. Nothing need be there.
		DocumentNamespace: "https://healthd.invalid/spdx/" + name + "-" + sum,
		CreationInfo: &spdx.CreationInfo{
			Creators: []common.Creator{{CreatorType: "Tool", Creator: "healthd-packages-" + r.version}},
			Created:  r.made.Format(time.RFC3339),
		},
		Packages: []*spdx.Package{{
			PackageName: "healthd", PackageSPDXIdentifier: self, PackageVersion: r.version, PackageFileName: "healthd",
			PackageDownloadLocation: notSaid, PackageLicenseConcluded: "Apache-2.0", PackageLicenseDeclared: "Apache-2.0",
			PackageCopyrightText: notSaid, PrimaryPackagePurpose: "APPLICATION",
			PackageChecksums: []common.Checksum{{Algorithm: common.SHA256, Value: sum}},
			PackageSummary:   "The program for linux/" + arch,
		}},
		Relationships: []*spdx.Relationship{related("DOCUMENT", common.TypeRelationshipDescribe, self)},
	}
	for _, m := range modules {
		p := m.spdx()
		doc.Packages = append(doc.Packages, p)
		doc.Relationships = append(doc.Relationships, related(self, common.TypeRelationshipDependsOn, p.PackageSPDXIdentifier))
	}
	return doc
}

func related(a common.ElementID, how string, b common.ElementID) *spdx.Relationship {
	return &spdx.Relationship{RefA: common.DocElementID{ElementRefID: a}, RefB: common.DocElementID{ElementRefID: b}, Relationship: how}
}

// spdx returns a module as a package of SPDX.
func (m *module) spdx() *spdx.Package {
	license := cmp.Or(m.license, notSaid)
	p := &spdx.Package{
		PackageName: m.path, PackageSPDXIdentifier: common.ElementID("Package-go-" + notInID.ReplaceAllString(m.path, "-")),
		PackageVersion: m.version, PackageDownloadLocation: notSaid, PackageLicenseConcluded: license, PackageLicenseDeclared: license,
		PackageCopyrightText: notSaid, PrimaryPackagePurpose: "LIBRARY",
		PackageExternalReferences: []*spdx.PackageExternalReference{{
			Category: common.CategoryPackageManager, RefType: common.TypePackageManagerPURL, Locator: "pkg:golang/" + m.path + "@" + m.version,
		}},
	}
	if m.sum != "" {
		// It is a hash of the module's files, which SPDX has no name for.
		p.PackageSourceInfo = "go.sum: " + m.sum
	}
	return p
}
