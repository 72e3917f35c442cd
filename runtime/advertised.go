package runtime

import (
	"fmt"
	"net/netip"
)

// Advertised returns where another host reaches a port of the container: at advertise, an address of this host, or
// if own at the container's own (publish.address = "container"). The container is as its spec has it in a network: see
// InNetwork. Without an address, why says what to do.
func (c *Container) Advertised(port int, own bool, advertise netip.Addr) (addr netip.Addr, at int, why string) {
	place := c.place()
	switch {
	case port == 0:
		return addr, 0, "it has no publish.port"
	case !c.State.Alive():
		return addr, 0, "it does not run"
	case place.Elsewhere != "" && (own || !place.At.IsValid()):
		return addr, 0, place.Elsewhere
	case place.Elsewhere != "" && c.HostNetwork && place.At.IsLoopback():
		return addr, 0, "it uses its engine's network, and " + place.Elsewhere
	case place.Elsewhere != "" && !place.At.IsLoopback():
		advertise, own = place.At, false
	}
	switch {
	case own && !c.HostNetwork:
		return c.ownAddress(port)
	case !advertise.IsValid():
		return addr, 0, "other hosts are told no address of this host: set fleet.advertise"
	case c.HostNetwork:
		return advertise.Unmap(), port, ""
	}
	return c.publishedAt(port, advertise.Unmap())
}

// Local returns where a balancer on healthd's host reaches a port of the container: at the container's own address, or,
// where its engine is elsewhere and own is false, where that publishes the port. Without an address, why says why.
func (c *Container) Local(port int, own bool) (address string, at int, why string) {
	place := c.place()
	switch {
	case place.Elsewhere != "":
	case c.Address == "":
		return "", port, "it is in no network in which healthd has an address of it"
	default:
		return c.Address, port, ""
	}
	addr, at, why := c.Advertised(port, own, place.At)
	switch {
	case port == 0:
		return "", 0, place.Elsewhere + ", and it has no publish.port"
	case why != "":
		return "", port, why
	}
	return addr.String(), at, ""
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
	if elsewhere := c.place().Elsewhere; elsewhere != "" {
		return addr, 0, fmt.Sprintf("%s, which does not publish port %d: publish it", elsewhere, own)
	}
	return addr, 0, fmt.Sprintf("port %d is not published on the host: publish it, or set publish.address = \"container\"", own)
}

func firstPort(found, next *HostPort) *HostPort {
	if found != nil {
		return found
	}
	return next
}
