package core

import (
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
