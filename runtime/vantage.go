package runtime

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
)

// Vantage is from where healthd asks a container while it runs in one itself, or the container's engine is Elsewhere.
// It does not change after it was made.
type Vantage struct {
	Place
	Own         string   // name of healthd's own container
	HostNetwork bool     // which uses the host's network: every address is reached
	Networks    []string // in which healthd and the container may both be; those of another engine are none of them
	// Barred says of networks that are no such, though the engine counts healthd's own container to them,
	// why healthd reaches nobody there, and what to do.
	Barred map[string]string
	// Links are of a healthd whose own container no engine shows: the networks to which it has an interface. Own is then empty.
	Links []netip.Prefix
	// Blind says that healthd does not see the processes of other containers: it can neither kill
	// commands there nor enter network namespaces.
	Blind bool
	// CannotEnter says what healthd's container lacks to enter network namespaces; empty: nothing.
	CannotEnter string
}

// Place is where an engine is, seen from healthd.
type Place struct {
	// Elsewhere says why the addresses that the engine knows are not its containers' for healthd, or those of others; empty:
	// they are. An address means something only where the engine is.
	Elsewhere string
	// At is where healthd reaches the ports that an engine Elsewhere publishes: a loopback address where something passes
	// them on to healthd's host. Invalid: that is not known.
	At netip.Addr
	// SameHostNetwork says that the host's network of an engine Elsewhere is healthd's own all the same.
	SameHostNetwork bool
}

// place is where the container's network is.
func (c *Container) place() Place {
	if c.From == nil || c.HostNetwork && c.From.SameHostNetwork {
		return Place{}
	}
	return c.From.Place
}

// Confined says that the loopback addresses of healthd are not those of the host.
func (v *Vantage) Confined() bool { return v != nil && v.Own != "" && !v.HostNetwork }

// linked says whether a healthd whose own container is not known reaches an address. Of a loopback address
// nobody can tell whose it is.
func (v *Vantage) linked(address string) bool {
	ip, err := netip.ParseAddr(address)
	return v == nil || v.Links == nil || err == nil &&
		(ip.IsLoopback() || slices.ContainsFunc(v.Links, func(p netip.Prefix) bool { return p.Contains(ip.Unmap()) }))
}

// shares says whether healthd is in the network.
func (v *Vantage) shares(network string) bool {
	return !v.Confined() || network != "" && slices.Contains(v.Networks, network)
}

// Unreached says why healthd does not reach the container's Address from its own network; it is empty
// when it does, and where there is no Address. What is asked there all the same says nothing about the container.
func (c *Container) Unreached() string {
	switch {
	case c.Address == "":
		return ""
	case c.place().Elsewhere != "":
		return c.place().Elsewhere
	case !c.From.linked(c.Address):
		return "healthd runs in a container that no engine of its configuration shows, and has no interface in the network " + c.Network + ": configure its own engine, too, or run it with --network=host"
	case c.From.shares(c.Network):
		return ""
	}
	if c.Network == "host" {
		return "it uses the host's network, and healthd's own container (" + c.From.Own + ") does not: run healthd with --network=host"
	}
	if why := c.From.Barred[c.Network]; why != "" {
		return why
	}
	return fmt.Sprintf("it is in the network %s, and healthd's own container (%s) is not: connect that to %[1]s, or run healthd with --network=host", cmp.Or(c.Network, "of another engine"), c.From.Own)
}

// ProbeAddress is Address as far as healthd reaches it.
func (c *Container) ProbeAddress() string {
	if c.Unreached() != "" {
		return ""
	}
	return c.Address
}

// seenFrom returns the container as healthd sees it. Of several networks it takes one in which healthd is, too.
func (c *Container) seenFrom(v *Vantage, self bool) *Container {
	if v == nil {
		return c
	}
	seen := *c
	seen.From, seen.Self = v, self
	seen.Fingerprint += v.fingerprint()
	if !v.shares(c.Network) {
		if i := slices.IndexFunc(c.Networks, func(n NetworkAddress) bool { return v.shares(n.Network) }); i >= 0 {
			seen.Address, seen.Network = c.Networks[i].Address, c.Networks[i].Network
		}
	}
	return &seen
}

// fingerprint changes with what is reached.
func (v *Vantage) fingerprint() string {
	if v == nil {
		return ""
	}
	return fmt.Sprintf(" from %v %v %t %t %s %s", v.Place, v.Links, v.HostNetwork, v.Blind, strings.Join(v.Networks, ","), strings.Join(slices.Sorted(maps.Keys(v.Barred)), ","))
}
