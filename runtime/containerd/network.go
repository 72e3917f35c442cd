package containerd

import (
	"encoding/json"
	"io"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
)

// metaMax bounds nerdctl's file about a container's networks.
const metaMax = 1 << 20

// cniResult is what a CNI plugin said of a container in one network.
type cniResult struct {
	IPs []struct{ Address string }
}

// address returns where a container that runs is reached, and the name of the network. Both
// are empty where nobody says: containerd knows no addresses. nerdctl writes those of its
// networks into a file while the container runs.
func (e *Engine) address(k key, s *spec) (address, network string) {
	if s.hostNetwork {
		return "127.0.0.1", "host"
	}
	f, err := os.Open(filepath.Join(e.conf.NerdctlDir, "etchosts", k.namespace, k.id, "meta.json"))
	if err != nil {
		return "", ""
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, metaMax))
	if err != nil {
		return "", ""
	}
	return parseMeta(b, e.conf.Network)
}

// parseMeta returns the address in the preferred network, else in the first by name.
func parseMeta(b []byte, preferred string) (address, network string) {
	var meta struct{ Networks map[string]*cniResult }
	if json.Unmarshal(b, &meta) != nil {
		return "", ""
	}
	for _, name := range append([]string{preferred}, slices.Sorted(maps.Keys(meta.Networks))...) {
		if a := meta.Networks[name].address(); a != "" {
			return a, name
		}
	}
	return "", ""
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
