package runtime

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"testing"
)

func TestKeptHostPorts(t *testing.T) {
	v4, six, lo := netip.IPv4Unspecified(), netip.IPv6Unspecified(), netip.MustParseAddr("127.0.0.1")
	for _, tt := range []struct {
		name     string
		in, want []HostPort
	}{
		{"none", nil, nil},
		{"sorted, each once", []HostPort{{81, v4, 1}, {80, six, 8080}, {80, lo, 9}, {80, v4, 8081}, {80, v4, 8080}, {80, v4, 8080}},
			[]HostPort{{80, v4, 8080}, {80, v4, 8081}, {80, lo, 9}, {80, six, 8080}, {81, v4, 1}}},
		{"no ports", []HostPort{{0, v4, 1}, {65536, v4, 1}, {-1, v4, 1}, {80, v4, 0}, {80, v4, 65536}, {80, netip.Addr{}, 1}, {80, netip.MustParseAddr("fe80::1%eth0"), 1}}, nil},
	} {
		if got := KeptHostPorts(slices.Clone(tt.in)); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
	}
	var all []HostPort
	for port := 65535; port > 0; port-- {
		all = append(all, HostPort{port, v4, port})
	}
	got := KeptHostPorts(all)
	if len(got) != MaxHostPorts || cap(got) > 2*MaxHostPorts || got[0].Port != 1 || got[MaxHostPorts-1].Port != MaxHostPorts {
		t.Errorf("of all ports %d are kept, room for %d, from %v", len(got), cap(got), got[0])
	}
}

func TestHostPortsOf(t *testing.T) {
	for address, want := range map[string]string{
		"": "[{80 0.0.0.0 8080} {80 :: 8080}]", "0.0.0.0": "[{80 0.0.0.0 8080}]", "::": "[{80 :: 8080}]",
		"::ffff:10.0.0.1": "[{80 10.0.0.1 8080}]", "10.0.0.1": "[{80 10.0.0.1 8080}]", "localhost": "[]", "[::1]": "[]",
	} {
		if got := fmt.Sprint(HostPortsOf(80, address, 8080)); got != want {
			t.Errorf("%q: got %s, want %s", address, got, want)
		}
	}
}

// Ports that change make another fingerprint, and a container without any has that of before.
func TestHostPortsFingerprint(t *testing.T) {
	seen := map[string]string{}
	for _, ports := range [][]HostPort{
		nil, HostPortsOf(80, "0.0.0.0", 8080), HostPortsOf(81, "0.0.0.0", 8080), HostPortsOf(80, "0.0.0.0", 8081),
		HostPortsOf(80, "127.0.0.1", 8080), append(HostPortsOf(80, "0.0.0.0", 8080), HostPortsOf(81, "0.0.0.0", 8080)...),
	} {
		f := HostPortsFingerprint(ports)
		if other, twice := seen[f]; twice || (f == "") != (ports == nil) {
			t.Errorf("%v has %q, as %s", ports, f, other)
		}
		seen[f] = fmt.Sprint(ports)
	}
	if both := HostPortsFingerprint(HostPortsOf(80, "", 8080)); both != HostPortsFingerprint(HostPortsOf(80, "0.0.0.0", 8080)) {
		t.Errorf("all addresses of both families: %q", both)
	}
}
