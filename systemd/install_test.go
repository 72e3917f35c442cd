package systemd

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// link finds what a text refers to by a path of its own.
var link = regexp.MustCompile(`\]\(([^)#: ]+)(?:#[^)]*)?\)`)

// What is installed refers to nothing that is not.
func TestInstalledDocuments(t *testing.T) {
	root := t.TempDir()
	run(t, "make", "-C", "..", "install", "DESTDIR="+root)
	documents, links := 0, 0
	err := filepath.WalkDir(filepath.Join(root, "usr/local/share/doc/healthd"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".md" {
			return err
		}
		documents++
		text, err := os.ReadFile(path)
		for _, found := range link.FindAllStringSubmatch(string(text), -1) {
			links++
			if _, err := os.Stat(filepath.Join(filepath.Dir(path), found[1])); err != nil {
				t.Errorf("%s refers to %s: %v", strings.TrimPrefix(path, root), found[1], err)
			}
		}
		return err
	})
	if err != nil || documents < 8 || links < 10 {
		t.Errorf("%d documents with %d links, %v", documents, links, err)
	}
}
