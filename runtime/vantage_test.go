package runtime

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
)

func TestSeenFrom(t *testing.T) {
	own := &Vantage{Own: "healthd", Networks: []string{"back", "front"}}
	elsewhere := &Vantage{Place: Place{Elsewhere: "it is far away"}}
	in := func(names ...string) *Container {
		c := &Container{ID: "c1", Address: "10.0.0.1", Network: names[0]}
		for i, name := range names {
			c.Networks = append(c.Networks, NetworkAddress{Network: name, Address: fmt.Sprintf("10.0.0.%d", i+1)})
		}
		return c
	}
	host := &Container{ID: "c1", Address: "127.0.0.1", Network: "host"}
	for _, tt := range []struct {
		name    string
		from    *Vantage
		c       *Container
		address string
		reached bool
	}{
		{"from the host", nil, in("a"), "10.0.0.1", true},
		{"on the host from the host", nil, host, "127.0.0.1", true},
		{"from the host's network", &Vantage{Own: "healthd", HostNetwork: true}, in("a"), "10.0.0.1", true},
		{"on the host from its network", &Vantage{Own: "healthd", HostNetwork: true}, host, "127.0.0.1", true},
		{"on the host from a container", own, host, "127.0.0.1", false},
		{"no network in common", own, in("a", "b"), "10.0.0.1", false},
		{"one network in common", own, in("front"), "10.0.0.1", true},
		{"the second network in common", own, in("a", "front"), "10.0.0.2", true},
		{"two networks in common", own, in("front", "back"), "10.0.0.1", true},
		{"another engine's, of the same name", &Vantage{Own: "healthd"}, in("front"), "10.0.0.1", false},
		{"an unknown container with a link", &Vantage{Links: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}, in("a"), "10.0.0.1", true},
		{"one without", &Vantage{Links: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}}, in("a"), "10.0.0.1", false},
		{"one without any", &Vantage{Links: []netip.Prefix{}}, in("a"), "10.0.0.1", false},
		{"one and the host's network", &Vantage{Links: []netip.Prefix{}}, host, "127.0.0.1", true},
		{"an engine elsewhere", elsewhere, in("a"), "10.0.0.1", false},
		{"host's network of an engine elsewhere", elsewhere, host, "127.0.0.1", false},
		{"no address of an engine elsewhere", elsewhere, &Container{ID: "c1"}, "", true},
		{"no address", own, &Container{ID: "c1"}, "", true},
		{"address of no network", own, &Container{ID: "c1", Address: "10.0.0.1"}, "10.0.0.1", false},
	} {
		before := *tt.c
		got := tt.c.seenFrom(tt.from, false)
		if why := got.Unreached(); got.Address != tt.address || (why == "") != tt.reached {
			t.Errorf("%s: %q, %q", tt.name, got.Address, why)
		}
		if reached := got.ProbeAddress() == got.Address; reached != tt.reached {
			t.Errorf("%s: probed at %q", tt.name, got.ProbeAddress())
		}
		if tt.c.Address != before.Address || tt.c.From != nil {
			t.Errorf("%s: the original was changed", tt.name)
		}
	}
	if got := in("a").seenFrom(&Vantage{Own: "healthd", Barred: map[string]string{"a": "why"}}, false).Unreached(); got != "why" {
		t.Errorf("in a barred network: %q", got)
	}
	// The spec's network counts, even if healthd shares another one.
	c := in("a", "front").seenFrom(own, false).InNetwork("a")
	if got, want := c.Unreached(), "it is in the network a, and healthd's own container (healthd) is not: connect that to a, or run healthd with --network=host"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := host.seenFrom(own, false).Unreached(); !strings.Contains(got, "run healthd with --network=host") {
		t.Errorf("on the host: %q", got)
	}
}
