package containerd

import (
	"slices"
	"testing"
)

// A container sees the ID that it has in its namespace: healthd finds its own by any that it may have here.
func TestIDs(t *testing.T) {
	for name, want := range map[string][]string{
		defaultName:    {"c1", "shop:c1"},
		"containerd-2": {"containerd-2:default:c1", "containerd-2:shop:c1"},
	} {
		e := &Engine{conf: Config{Name: name, Namespaces: []string{"default", "shop"}}}
		got := e.IDs("c1")
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
		for _, id := range got {
			if k, err := e.key(id); err != nil || k.id != "c1" {
				t.Errorf("%s: %q is %+v, %v", name, id, k, err)
			}
		}
	}
}
