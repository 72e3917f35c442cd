package runtime

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"unsafe"
)

func TestShared(t *testing.T) {
	same := func(a, b string) bool { return unsafe.StringData(a) == unsafe.StringData(b) }
	labels := func() map[string]string {
		return map[string]string{strings.Repeat("key", 2): "a", strings.Repeat("b", 3): "c"}
	}
	first, second := SharedKeys(labels()), SharedKeys(labels())
	if !maps.Equal(first, labels()) || !maps.Equal(second, labels()) {
		t.Errorf("%v and %v, want %v", first, second, labels())
	}
	a, b := slices.Sorted(maps.Keys(first)), slices.Sorted(maps.Keys(second))
	for i := range a {
		if !same(a[i], b[i]) {
			t.Errorf("%q is kept twice", a[i])
		}
	}
	x, y := SharedAll([]string{strings.Repeat("A=1", 2)}), SharedAll([]string{strings.Repeat("A=1", 2)})
	if x[0] != "A=1A=1" || !same(x[0], y[0]) {
		t.Errorf("%q is kept twice", x)
	}
	if SharedKeys(nil) != nil || SharedAll(nil) != nil {
		t.Error("nil has become something")
	}
}
