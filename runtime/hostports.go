package runtime

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"net/netip"
	"slices"
)

// MaxHostPorts bounds how many published ports are kept of a container: whoever makes one may publish all 65,535.
const MaxHostPorts = 1024

// HostPort is a TCP port of a container that its engine publishes on the host.
type HostPort struct {
	Port     int        // of the container
	IP       netip.Addr // of the host; unspecified: all that it has of that family
	HostPort int
}

// KeptHostPorts returns published ports in order, each once: the first MaxHostPorts of them, and none that is no port.
// It changes the order of all.
func KeptHostPorts(all []HostPort) []HostPort {
	kept := slices.DeleteFunc(all, func(p HostPort) bool {
		return p.Port < 1 || p.Port > 65535 || p.HostPort < 1 || p.HostPort > 65535 || !p.IP.IsValid() || p.IP.Zone() != ""
	})
	slices.SortFunc(kept, func(a, b HostPort) int {
		return cmp.Or(cmp.Compare(a.Port, b.Port), a.IP.Compare(b.IP), cmp.Compare(a.HostPort, b.HostPort))
	})
	kept = slices.Compact(kept)
	if len(kept) == 0 {
		return nil
	}
	return slices.Clone(kept[:min(len(kept), MaxHostPorts)]) // without the rest of a long list
}

// HostPortsOf returns a port of the container that the engine publishes at an address of the host. It is one for each
// family if the address is empty, as engines write it for all addresses, and none if it is not one.
func HostPortsOf(port int, address string, hostPort int) []HostPort {
	if address == "" {
		return []HostPort{{port, netip.IPv4Unspecified(), hostPort}, {port, netip.IPv6Unspecified(), hostPort}}
	}
	ip, err := netip.ParseAddr(address)
	if err != nil {
		return nil
	}
	return []HostPort{{port, ip.Unmap(), hostPort}}
}

// HostPortsFingerprint returns a short text that changes with the ports; empty for none.
func HostPortsFingerprint(ports []HostPort) string {
	if len(ports) == 0 {
		return ""
	}
	h := fnv.New64a()
	for _, p := range ports {
		if p.IP != netip.IPv6Unspecified() { // which Podman from 5 on lists, and does not show in an inspection
			fmt.Fprintln(h, p.Port, p.IP, p.HostPort)
		}
	}
	return fmt.Sprintf(" %x", h.Sum64())
}
