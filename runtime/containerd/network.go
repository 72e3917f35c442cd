package containerd

import (
	"encoding/json"
	"io"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"

	"healthd/runtime"
)

// metaMax bounds nerdctl's file about a container's networks.
const metaMax = 1 << 20

// cniResult is what a CNI plugin said of a container in one network.
type cniResult struct {
	IPs []struct{ Address string }
}

// reach fills in where a container that runs is reached. That is empty where nobody says:
// containerd knows no addresses. nerdctl writes those of its networks into a file while the
// container runs.
func (e *Engine) reach(c *runtime.Container, k key, s *spec) {
	if s.hostNetwork {
		c.Address, c.Network = "127.0.0.1", "host"
		return
	}
	c.Networks = e.networks(k)
	if len(c.Networks) == 0 {
		return
	}
	preferred := slices.IndexFunc(c.Networks, func(n runtime.NetworkAddress) bool { return n.Network == e.conf.Network })
	chosen := c.Networks[max(0, preferred)]
	c.Address, c.Network = chosen.Address, chosen.Network
}

func (e *Engine) networks(k key) []runtime.NetworkAddress {
	f, err := os.Open(filepath.Join(e.conf.NerdctlDir, "etchosts", k.namespace, k.id, "meta.json"))
	if err != nil {
		return nil
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, metaMax))
	if err != nil {
		return nil
	}
	return parseMeta(b)
}

// parseMeta returns the addresses that the file has, by the name of the network.
func parseMeta(b []byte) []runtime.NetworkAddress {
	var meta struct{ Networks map[string]*cniResult }
	if json.Unmarshal(b, &meta) != nil {
		return nil
	}
	var all []runtime.NetworkAddress
	for _, name := range slices.Sorted(maps.Keys(meta.Networks)) {
		if a := meta.Networks[name].address(); a != "" {
			all = append(all, runtime.NetworkAddress{Network: name, Address: a})
		}
	}
	return all
}

// address returns the IPv4 address, else the IPv6 address, but none of the host's own.
func (r *cniResult) address() string {
	if r == nil {
		return ""
	}
	found := ""
	for _, ip := range r.IPs {
		p, err := netip.ParsePrefix(ip.Address)
		switch {
		case err != nil, !p.Addr().Unmap().IsGlobalUnicast():
		case p.Addr().Is4():
			return p.Addr().String()
		case found == "":
			found = p.Addr().String()
		}
	}
	return found
}
