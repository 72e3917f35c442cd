package runtime

import (
	"testing"
	"time"
)

func TestInNetwork(t *testing.T) {
	c := &Container{ID: "a", Address: "10.1.0.2", Network: "front", Networks: []NetworkAddress{{"back", "10.2.0.2"}, {"front", "10.1.0.2"}}}
	for network, want := range map[string]string{"": "10.1.0.2", "front": "10.1.0.2", "back": "10.2.0.2", "other": ""} {
		in := c.InNetwork(network)
		if in.Address != want || in.ID != "a" || (want == "") != (in.Network == "") {
			t.Errorf("%q: got %q in %q", network, in.Address, in.Network)
		}
	}
	if c.Address != "10.1.0.2" {
		t.Error("the container was changed")
	}
}

func TestTraitsOfALists(t *testing.T) {
	const id = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	for image, want := range map[string]string{"nginx:1": "nginx:1", id: "", "sha256:short": "sha256:short"} {
		if got := (Summary{Image: image}).Traits().Image; got != want {
			t.Errorf("%s: got %q", image, got)
		}
	}
	if got := (&Container{Image: id}).Traits().Image; got != id {
		t.Errorf("an inspection knows the image: got %q", got)
	}
}

// A run keeps the network in which it is reached when it is connected to one that sorts before it, or loses another one;
// not what it is no longer in, nor what healthd does not reach.
func TestRunKeepsItsNetwork(t *testing.T) {
	in := func(started int64, address string, networks ...string) *Container {
		c := &Container{ID: "a", State: Running, StartedAt: time.Unix(started, 0)}
		for _, n := range networks {
			c.Networks = append(c.Networks, NetworkAddress{n, address + n})
		}
		if len(networks) > 0 {
			c.Network, c.Address = c.Networks[0].Network, c.Networks[0].Address
		}
		return c
	}
	from := func(c *Container, networks ...string) *Container {
		return c.seenFrom(&Vantage{Own: "healthd", Networks: networks}, false)
	}
	for _, tt := range []struct {
		name string
		then []*Container
		want string
	}{
		{"connected to another", []*Container{in(1, "10.0.0.", "5"), in(1, "10.0.0.", "4", "5")}, "10.0.0.5"},
		{"and to one more", []*Container{in(1, "10.0.0.", "5"), in(1, "10.0.0.", "4", "5"), in(1, "10.0.0.", "3", "4", "5")}, "10.0.0.5"},
		{"with another address", []*Container{in(1, "10.0.0.", "5"), in(1, "10.1.0.", "4", "5")}, "10.1.0.5"},
		{"disconnected", []*Container{in(1, "10.0.0.", "5"), in(1, "10.0.0.", "4", "5"), in(1, "10.0.0.", "3", "4")}, "10.0.0.3"},
		{"disconnected for a moment", []*Container{in(1, "10.0.0.", "5"), in(1, ""), in(1, "10.0.0.", "4", "5")}, "10.0.0.4"},
		{"a new run", []*Container{in(1, "10.0.0.", "5"), in(2, "10.0.0.", "4", "5")}, "10.0.0.4"},
		{"healthd left its network", []*Container{from(in(1, "10.0.0.", "5"), "5"), from(in(1, "10.0.0.", "4", "5"), "4")}, "10.0.0.4"},
		{"healthd joined another", []*Container{from(in(1, "10.0.0.", "5"), "5"), from(in(1, "10.0.0.", "4", "5"), "4", "5")}, "10.0.0.5"},
		{"healthd is in none", []*Container{from(in(1, "10.0.0.", "5")), from(in(1, "10.0.0.", "4", "5"))}, "10.0.0.5"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := newView(nil)
			v.applyList([]Summary{{ID: "a", Name: "a", State: Running}}, time.Unix(1, 0))
			for _, c := range tt.then {
				v.requestInspection(v.entries["a"])
				v.applyInspection(v.nextToInspect(), c, nil, time.Unix(9, 0))
			}
			if got := v.entries["a"].known.Address; got != tt.want {
				t.Errorf("it is reached at %s, want %s", got, tt.want)
			}
		})
	}
}
