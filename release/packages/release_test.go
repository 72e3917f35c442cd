package main

import (
	"bytes"
	"debug/buildinfo"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx"
	"github.com/spdx/tools-golang/spdxlib"
)

const sourcesDir = "../.."

// sources copies what is or will be in the repository into a directory of the test.
func sources(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	list := exec.Command("git", "-C", sourcesDir, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	names, err := list.Output()
	if err != nil {
		t.Fatalf("git ls-files: %v", err)
	}
	pack := exec.Command("tar", "-C", sourcesDir, "--null", "--files-from=-", "--ignore-failed-read", "-c")
	pack.Stdin = bytes.NewReader(names)
	unpack := exec.Command("tar", "-C", dir, "-x", "--no-same-owner")
	if unpack.Stdin, err = pack.StdoutPipe(); err != nil {
		t.Fatal(err)
	}
	if err := unpack.Start(); err != nil {
		t.Fatal(err)
	}
	if err := pack.Run(); err != nil {
		t.Fatalf("tar: %v", err)
	}
	if err := unpack.Wait(); err != nil {
		t.Fatalf("tar: %v", err)
	}
	return dir
}

// run runs a shell command in a directory. make's own variables are not handed on to it.
func run(t *testing.T, dir, command string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", command)
	cmd.Dir = dir
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "MAKE") || strings.HasPrefix(v, "MFLAGS") })
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
	return string(out)
}

const made = "SOURCE_DATE_EPOCH=1700000000 COMMIT=0123456789ab"

// Who builds in another directory, as another kind of user, gets the same files. They are what
// people and their tools expect of packages.
func TestRelease(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-packages runs it")
	}
	dir := sources(t)
	run(t, dir, "umask 022 && make packages DIST=out "+made)
	dist := filepath.Join(dir, "out")
	v := strings.TrimSpace(run(t, dir, "cat VERSION"))
	if sums := run(t, dist, "sha256sum --check --strict SHA256SUMS && wc -l < SHA256SUMS"); !strings.HasSuffix(sums, "\n6\n") {
		t.Errorf("the checksums are not of all files:\n%s", sums)
	}
	t.Run("another build", func(t *testing.T) { // which only links: it must come after the first
		t.Parallel()
		other := sources(t)
		run(t, other, "umask 077 && TZ=Asia/Tokyo LC_ALL=C make packages DIST=out "+made)
		checkSame(t, dist, filepath.Join(other, "out"), []string{
			"SHA256SUMS", "healthd-" + v + "-1.aarch64.rpm", "healthd-" + v + "-1.x86_64.rpm",
			"healthd-" + v + "-linux-amd64.spdx.json", "healthd-" + v + "-linux-arm64.spdx.json",
			"healthd_" + v + "-1_amd64.deb", "healthd_" + v + "-1_arm64.deb",
		})
		t.Run("rpm", func(t *testing.T) { checkRPM(t, other, v) })
	})
	for _, arch := range []string{"amd64", "arm64"} {
		t.Run(arch, func(t *testing.T) {
			t.Parallel()
			checkSBOM(t, filepath.Join(dist, "healthd-"+v+"-linux-"+arch+".spdx.json"), filepath.Join(dir, "bin", "linux-"+arch, "healthd"), arch)
			checkDeb(t, dist, "healthd_"+v+"-1_"+arch+".deb", arch)
		})
	}
}

// checkSame compares the files of two builds.
func checkSame(t *testing.T, dist, other string, want []string) {
	t.Helper()
	entries, err := os.ReadDir(dist)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
		one, _ := os.ReadFile(filepath.Join(dist, e.Name()))
		two, err := os.ReadFile(filepath.Join(other, e.Name()))
		if err != nil || !bytes.Equal(one, two) {
			t.Errorf("%s is not the same in two builds: %v", e.Name(), err)
		}
	}
	if !slices.Equal(names, want) {
		t.Errorf("made %q, want %q", names, want)
	}
}

// checkSBOM compares the document with what the binary says of itself.
func checkSBOM(t *testing.T, file, binary, arch string) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	doc, err := json.Read(f)
	if err == nil {
		err = spdxlib.ValidateDocument(doc)
	}
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	packages := map[string]*spdx.Package{}
	for _, p := range doc.Packages {
		packages[p.PackageName] = p
		if l := p.PackageLicenseConcluded; l == notSaid || l == "" {
			t.Errorf("the license of %s is not known", p.PackageName)
		}
	}
	if len(packages) != len(info.Deps)+2 || len(packages) != len(doc.Packages) || len(doc.Relationships) != len(packages) {
		t.Errorf("%d packages and %d relationships, for %d modules, stdlib and healthd", len(doc.Packages), len(doc.Relationships), len(info.Deps))
	}
	for _, d := range info.Deps {
		if p := packages[d.Path]; p == nil || p.PackageVersion != d.Version || p.PackageSourceInfo != "go.sum: "+d.Sum {
			t.Errorf("%s %s is there as %+v", d.Path, d.Version, p)
		}
	}
	if !slices.Contains(info.Settings, debug.BuildSetting{Key: "GOARCH", Value: arch}) {
		t.Errorf("%s is for another architecture: %v", binary, info.Settings)
	}
	sum, err := sha256Of(binary)
	if self := packages["healthd"]; err != nil || self == nil || self.PackageChecksums[0].Value != sum {
		t.Errorf("healthd is there as %+v, its checksum is %s, %v", self, sum, err)
	}
	if doc.CreationInfo.Created != "2023-11-14T22:13:20Z" {
		t.Errorf("made at %s", doc.CreationInfo.Created)
	}
}

// checkDeb has lintian look for what Debian's rules say against it.
func checkDeb(t *testing.T, dist, deb, arch string) {
	t.Helper()
	if out := run(t, dist, "lintian --allow-root --fail-on none "+deb); strings.TrimSpace(out) != "" {
		t.Errorf("lintian: %s", out)
	}
	if got := run(t, dist, "dpkg-deb -f "+deb+" Package Architecture Section"); got != "Package: healthd\nArchitecture: "+arch+"\nSection: admin\n" {
		t.Errorf("control: %s", got)
	}
	files := run(t, dist, "dpkg-deb -c "+deb)
	for _, want := range []string{
		"-rwxr-xr-x root/root ", " ./usr/bin/healthd\n", " ./usr/lib/systemd/system/healthd.service\n", " ./etc/healthd/conf.d/\n",
		" ./usr/share/man/man1/healthd.1.gz\n", " ./usr/share/man/man5/healthd.toml.5.gz\n", " ./usr/share/doc/healthd/copyright\n",
		" ./usr/share/bash-completion/completions/healthd\n", " ./usr/share/zsh/vendor-completions/_healthd\n",
		" ./usr/share/fish/vendor_completions.d/healthd.fish\n", " ./usr/share/doc/healthd/third-party-licenses.txt\n",
		" ./usr/share/doc/healthd/configs/examples -> ../examples\n", " ./usr/share/doc/healthd/examples/haproxy/push.cfg\n",
		" ./usr/share/doc/healthd/docs/images/soak.svg\n",
	} {
		if !strings.Contains(files, want) {
			t.Errorf("%s has no %q:\n%s", deb, want, files)
		}
	}
	run(t, dist, "dpkg-deb --fsys-tarfile "+deb+" | tar -xO ./usr/share/bash-completion/completions/healthd | bash -n")
	if got := run(t, dist, "dpkg-deb -I "+deb+" conffiles"); got != "/etc/default/healthd\n/etc/healthd/healthd.toml\n" {
		t.Errorf("conffiles: %q", got)
	}
}
