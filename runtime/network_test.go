package runtime

import "testing"

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
