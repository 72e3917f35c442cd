package docker

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/network"

	"healthd/runtime"
)

// maxNetworkDepth bounds a chain of containers that share the next one's network.
const maxNetworkDepth = 4

// networking is how a container is connected.
type networking struct {
	mode       string
	alive      bool
	startedAt  time.Time                // of the newest run; zero from a list, which does not have it
	endpoints  []runtime.NetworkAddress // by name; without those that have none
	ports      []runtime.HostPort       // that the engine publishes
	shared     *networking              // of the container whose network this one uses; nil: none
	sharedID   string
	sharedGone bool // an inspection found that the engine no longer has it
}

// endpoint is what healthd reads of an endpoint.
type endpoint struct{ IPAddress, GlobalIPv6Address string }

// addressesOf returns the addresses of endpoints, which are by network.
func addressesOf(endpoints map[string]endpoint) (all []runtime.NetworkAddress) {
	for _, name := range slices.Sorted(maps.Keys(endpoints)) {
		if a := endpointAddress(endpoints[name]); a != "" {
			all = append(all, runtime.NetworkAddress{Network: runtime.Shared(runtime.ClipName(name)), Address: a})
		}
	}
	return all
}

// address returns the container's IP address and the network that it belongs to. Both
// are empty where there is none.
func (n networking) address(preferred string) (addr, name string) {
	switch {
	case !n.alive:
		return "", ""
	case n.shared != nil:
		return n.shared.address(preferred)
	case n.mode == "host":
		return "127.0.0.1", "host"
	}
	if len(n.endpoints) == 0 {
		return "", ""
	}
	i := max(0, slices.IndexFunc(n.endpoints, func(a runtime.NetworkAddress) bool { return a.Network == preferred }))
	return n.endpoints[i].Address, n.endpoints[i].Network
}

// addresses returns the container's address in each of its networks that has one, by name.
func (n networking) addresses() []runtime.NetworkAddress {
	switch {
	case !n.alive:
		return nil
	case n.shared != nil:
		return n.shared.addresses()
	}
	return n.endpoints
}

// published returns the ports that the engine publishes on the host, and whether the container has the host's network,
// where all of its ports are.
func (n networking) published() (ports []runtime.HostPort, host bool) {
	switch {
	case !n.alive:
		return nil, false
	case n.shared != nil:
		return n.shared.published()
	}
	return n.ports, n.mode == "host"
}

// endpointAddress returns an address of a container only: no name, which a resolver would have to
// find, and none of the host's own.
func endpointAddress(s endpoint) string {
	for _, address := range []string{s.IPAddress, s.GlobalIPv6Address} {
		if ip, err := netip.ParseAddr(address); err == nil && ip.Unmap().IsGlobalUnicast() && ip.Zone() == "" {
			return address
		}
	}
	return ""
}

// Isolates says why the containers of a network may not reach each other; empty: they do, also where nobody may
// ask for networks.
func (e *Engine) Isolates(ctx context.Context, name string) (why string, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	c, err := e.client(ctx)
	if err != nil {
		return "", err
	}
	n, err := c.NetworkInspect(ctx, name, network.InspectOptions{})
	switch {
	case errdefs.IsInvalidArgument(err): // a list of containers does not tell them apart, either
		return "there are several networks " + name, nil
	case err != nil && !isRefused(err):
		return "", fmt.Errorf("cannot inspect the network %s: %w", name, e.explain(err))
	}
	return isolation(name, n.Options), nil
}

// isolation reads the options of a network as Docker does.
func isolation(name string, options map[string]string) (why string) {
	if reach, err := strconv.ParseBool(options["com.docker.network.bridge.enable_icc"]); err == nil && !reach {
		return "containers of the network " + name + " do not reach each other (icc=false)"
	}
	if options["macvlan_mode"] == "private" {
		return "containers of the network " + name + " do not reach each other (macvlan_mode=private)"
	}
	return ""
}

// fingerprint returns runtime.Summary.Fingerprint. It gives the same for a list and an
// inspection of an unchanged container.
func fingerprint(state runtime.State, exitCode int, n networking) string {
	switch state {
	case runtime.Exited, runtime.Restarting:
		return fmt.Sprintf("exit %d", exitCode)
	case runtime.Running, runtime.Paused:
		return n.fingerprint()
	}
	return ""
}

func (n networking) fingerprint() string {
	if n.shared != nil {
		return n.sharedID + " " + n.shared.fingerprint()
	}
	var b strings.Builder
	for _, a := range n.endpoints {
		fmt.Fprintf(&b, "%s %s ", a.Network, a.Address)
	}
	return b.String() + runtime.HostPortsFingerprint(n.ports)
}
