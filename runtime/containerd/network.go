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

// metaMax bounds each of nerdctl's files about a container's networks.
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
		c.Address, c.Network, c.HostNetwork = "127.0.0.1", "host", true
		return
	}
	c.Networks, c.HostPorts = e.networks(k), e.hostPorts(k)
	if len(c.Networks) == 0 {
		return
	}
	preferred := slices.IndexFunc(c.Networks, func(n runtime.NetworkAddress) bool { return n.Network == e.conf.Network })
	chosen := c.Networks[max(0, preferred)]
	c.Address, c.Network = chosen.Address, chosen.Network
}

func (e *Engine) networks(k key) []runtime.NetworkAddress {
	return parseMeta(e.nerdctlFile("etchosts", k, "meta.json"))
}

// hostPorts returns the ports that nerdctl publishes. It writes them into a file from 2.1.3 on. Before that it set a
// label, which images can set as well: whoever made one could have others send traffic to any port of the host.
func (e *Engine) hostPorts(k key) []runtime.HostPort {
	return parsePorts(e.nerdctlFile("containers", k, "network-config.json"))
}

// nerdctlFile returns what nerdctl has written about a container into one of its directories; nil: nothing.
func (e *Engine) nerdctlFile(dir string, k key, name string) []byte {
	f, err := os.Open(filepath.Join(e.conf.NerdctlDir, dir, k.namespace, k.id, name))
	if err != nil {
		return nil
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, metaMax))
	if err != nil {
		return nil
	}
	return b
}

// parsePorts returns the TCP ports that the file has.
func parsePorts(b []byte) []runtime.HostPort {
	var config struct {
		PortMappings []struct {
			HostPort, ContainerPort int
			Protocol, HostIP        string
		}
	}
	if json.Unmarshal(b, &config) != nil {
		return nil
	}
	var ports []runtime.HostPort
	for _, m := range config.PortMappings {
		if m.Protocol == "tcp" {
			ports = append(ports, runtime.HostPortsOf(m.ContainerPort, m.HostIP, m.HostPort)...)
		}
	}
	return runtime.KeptHostPorts(ports)
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
			all = append(all, runtime.NetworkAddress{Network: runtime.ClipName(name), Address: a})
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
