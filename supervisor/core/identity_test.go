package core

import (
	"strings"
	"testing"

	"healthd/runtime"
)

// A container of `docker compose run` has the labels of the service's first member.
func TestIdentity(t *testing.T) {
	for _, tt := range []struct {
		oneOff          string
		group, identity string
	}{
		{"", "shop/web", "shop/web/1"},
		{"False", "shop/web", "shop/web/1"},
		{"True", "shop-web-run-1", "shop-web-run-1"},
	} {
		labels := map[string]string{ComposeProject: "shop", ComposeService: "web", ComposeNumber: "1"}
		if tt.oneOff != "" {
			labels[composeOneOff] = tt.oneOff
		}
		c := &runtime.Container{Name: "shop-web-run-1", Labels: labels}
		if g, id := GroupOf(c), IdentityOf(c); g != tt.group || id != tt.identity {
			t.Errorf("one-off %q: group %s, identity %s", tt.oneOff, g, id)
		}
	}
}

// Compose's labels are anybody's: what Compose would not write makes no identity, and none that looks
// like another's.
func TestIdentityOfOddLabels(t *testing.T) {
	for _, odd := range []string{"", "a/b", "a:b", "a b", "\x1b[31m", "ä", strings.Repeat("a", 129)} {
		for _, key := range []string{ComposeProject, ComposeService, ComposeNumber} {
			labels := map[string]string{ComposeProject: "shop", ComposeService: "web", ComposeNumber: "1"}
			labels[key] = odd
			want := "odd"
			if key == ComposeNumber {
				want = "shop/web"
			}
			c := &runtime.Container{Name: "odd", Labels: labels}
			if g, id := GroupOf(c), IdentityOf(c); g != want || id != "odd" {
				t.Errorf("%s=%q: group %s, identity %s", key, odd, g, id)
			}
		}
	}
}
