package core

import (
	"net/netip"
	"testing"

	"healthd/runtime"
)

// Only a container on the network of healthd's own host is called as publish.host_address says.
func TestWhatTheHostIsCalled(t *testing.T) {
	at := netip.MustParseAddr
	bridge := runtime.Container{State: runtime.Running, Address: "172.17.0.2", Network: "bridge"}
	host := runtime.Container{State: runtime.Running, Address: "127.0.0.1", Network: "host", HostNetwork: true}
	far, rootless := host, host
	far.From = &runtime.Vantage{Place: runtime.Place{Elsewhere: "far", At: at("10.0.0.9")}}
	rootless.From = &runtime.Vantage{Place: runtime.Place{Elsewhere: "rootless", At: at("127.0.0.1")}}
	for _, tt := range []struct {
		name   string
		c      runtime.Container
		hostIP string
		want   string
	}{
		{"no name", host, "", "127.0.0.1"},
		{"a name", host, "10.0.0.5", "10.0.0.5"},
		{"a network of its own", bridge, "10.0.0.5", "172.17.0.2"},
		{"another host's network", far, "10.0.0.5", "10.0.0.9"},
		{"a rootless engine's network", rootless, "10.0.0.5", ""},
	} {
		p := Publish{Port: 80, HostIP: tt.hostIP}
		if got, _, _ := p.Local(&tt.c); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}
