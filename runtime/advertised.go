package runtime

import (
	"fmt"
	"net/netip"
)

// Advertised returns where another host reaches a port of the container: at advertise, an address of this host, or
// if own at the container's own (publish.address = "container"). The container is as its spec has it in a network: see
// InNetwork. Without an address, why says what to do.
func (c *Container) Advertised(port int, own bool, advertise netip.Addr) (addr netip.Addr, at int, why string) {
	switch {
	case port == 0:
		return addr, 0, "it has no publish.port"
	case !c.State.Alive():
		return addr, 0, "it does not run"
	case own && !c.HostNetwork:
		return c.ownAddress(port)
	case !advertise.IsValid():
		return addr, 0, "other hosts are told no address of this host: set fleet.advertise"
	case c.HostNetwork:
		return advertise.Unmap(), port, ""
	}
	return c.publishedAt(port, advertise.Unmap())
}

func (c *Container) ownAddress(own int) (addr netip.Addr, port int, why string) {
	addr, err := netip.ParseAddr(c.Address)
	switch addr = addr.Unmap(); {
	case err != nil:
		return netip.Addr{}, 0, "it has no address of its own"
	case !addr.IsGlobalUnicast():
		return netip.Addr{}, 0, fmt.Sprintf("its address %s is one of its own host only", addr)
	}
	return addr, own, ""
}

// publishedAt finds the port of the host behind which a container's port is: at advertise itself, else at all of its
// family, else at another address that is not only the host's own.
func (c *Container) publishedAt(own int, advertise netip.Addr) (addr netip.Addr, port int, why string) {
	var all, other, unreached *HostPort
	for i := range c.HostPorts {
		h := &c.HostPorts[i]
		switch {
		case h.Port != own:
		case h.IP == advertise:
			return advertise, h.HostPort, ""
		case h.IP.IsUnspecified() && h.IP.Is4() == advertise.Is4():
			all = firstPort(all, h)
		case h.IP.IsGlobalUnicast():
			other = firstPort(other, h)
		default:
			unreached = firstPort(unreached, h)
		}
	}
	switch {
	case all != nil:
		return advertise, all.HostPort, ""
	case other != nil:
		return other.IP, other.HostPort, ""
	case unreached != nil:
		return addr, 0, fmt.Sprintf("port %d is published on the host at %s only, where other hosts do not reach it: publish it at %s", own, unreached.IP, advertise)
	}
	return addr, 0, fmt.Sprintf("port %d is not published on the host: publish it, or set publish.address = \"container\"", own)
}

func firstPort(found, next *HostPort) *HostPort {
	if found != nil {
		return found
	}
	return next
}
