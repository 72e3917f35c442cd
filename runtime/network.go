package runtime

import "slices"

// NetworkAddress is a container's address in one of its networks.
type NetworkAddress struct {
	Network string // as the engine calls it
	Address string // an IP address
}

// InNetwork returns the container as it is reached in the network: with the address that it has
// there, or with none. An empty name leaves the choice to the engine's package.
func (c *Container) InNetwork(name string) *Container {
	if name == "" || name == c.Network {
		return c
	}
	in := *c
	in.Address, in.Network = "", ""
	if i := slices.IndexFunc(c.Networks, func(n NetworkAddress) bool { return n.Network == name }); i >= 0 {
		in.Address, in.Network = c.Networks[i].Address, name
	}
	return &in
}

// keepNetwork returns the container as it is reached in the network in which its run was reached before, while it has that.
// A network to which it is connected meanwhile moves no traffic, unless healthd reaches it only there.
func (c *Container) keepNetwork(before *Container) *Container {
	if before == nil || before.Network == "" || before.Run() != c.Run() {
		return c
	}
	if in := c.InNetwork(before.Network); in.Address != "" && (in.Unreached() == "" || c.Unreached() != "") {
		return in
	}
	return c
}
