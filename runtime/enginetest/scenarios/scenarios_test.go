package scenarios

import (
	"slices"
	"testing"
)

func TestEachRowIsForSomeEngine(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range rows() {
		if seen[r.name] {
			t.Errorf("two rows are called %q", r.name)
		}
		seen[r.name] = true
		if r.cannot[docker] != "" && r.cannot[containerd] != "" {
			t.Errorf("%s: nobody does it", r.name)
		}
		for name, why := range r.cannot {
			if !slices.Contains([]string{docker, containerd, podman, podmanOld}, name) || why == "" {
				t.Errorf("%s: %q cannot: %q", r.name, name, why)
			}
		}
	}
}
