package containerd

import (
	"os"
	"path/filepath"
	"testing"
)

// Two healthds may have their FIFOs in one directory, one of them in a container.
func TestFIFOsOfOthersStay(t *testing.T) {
	parent := t.TempDir()
	left := filepath.Join(parent, fifoPrefix+"killed")
	if err := os.MkdirAll(filepath.Join(left, "1"), 0o700); err != nil {
		t.Fatal(err)
	}
	var dirs [2]fifoDir
	for i := range dirs {
		dirs[i].parent = parent
		for range 2 {
			if _, err := dirs[i].path(); err != nil {
				t.Fatal(err)
			}
		}
	}
	all, err := filepath.Glob(filepath.Join(parent, "*"))
	if err != nil || len(all) != 2 || all[0] == left || all[1] == left {
		t.Errorf("got %q, %v; want those of two healthds", all, err)
	}
	for i := range dirs {
		dirs[i].remove()
	}
	if all, _ := filepath.Glob(filepath.Join(parent, "*")); len(all) > 0 {
		t.Errorf("left %q", all)
	}
}
