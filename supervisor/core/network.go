package core

import (
	"fmt"
	"slices"
	"strings"

	"healthd/prober"
)

// warnNetwork finds a container of several networks for which nobody has said where it is reached, and
// one that is not in the network that its spec names.
func (v *View) warnNetwork() string {
	c, wanted := v.Container, v.Spec.Network
	if !c.State.Alive() || !v.needsAddress() {
		return ""
	}
	var names []string
	for _, n := range c.Networks {
		names = append(names, n.Network)
	}
	const most = 5 // an operator sees by then what it is about
	all := strings.Join(names[:min(most, len(names))], ", ")
	if len(names) > most {
		all += fmt.Sprintf(" and %d more", len(names)-most)
	}
	switch {
	case wanted != "" && c.Network != wanted && len(names) == 0:
		return "it is not in the network " + wanted + ", which its spec names: " + v.withoutAddress()
	case wanted != "" && c.Network != wanted:
		return "it is not in the network " + wanted + ", which its spec names, but in " + all + ": " + v.withoutAddress()
	case wanted == "" && len(names) > 1:
		return "it is in several networks (" + all + "), and healthd takes its address in " + c.Network + " to probe and to publish: choose one with network"
	}
	return ""
}

// withoutAddress says what follows when the container has no address.
func (v *View) withoutAddress() string {
	fromHost := func(p *ProbeSpec) bool {
		return p != nil && asksAddress(p.Handler) && !p.Handler.Inside("")
	}
	if slices.ContainsFunc(v.Spec.Probes[:], fromHost) {
		return `load balancers get no address, and probes with via = "host" cannot run`
	}
	return "load balancers get no address, and probes are asked inside it"
}

// needsAddress says whether anything depends on the container's address: what healthd tells a load
// balancer, or a probe or hook that is asked there.
func (v *View) needsAddress() bool {
	probed := func(p *ProbeSpec) bool { return p != nil && asksAddress(p.Handler) }
	hooked := func(h *prober.LifecycleHandler) bool {
		return h != nil && asksAddress(prober.Handler{HTTPGet: h.HTTPGet, TCPSocket: h.TCPSocket})
	}
	return v.Spec.Publish.Port != 0 || slices.ContainsFunc(v.Spec.Probes[:], probed) ||
		hooked(v.Spec.Lifecycle.PostStart) || hooked(v.Spec.Lifecycle.PreStop)
}

func asksAddress(h prober.Handler) bool {
	switch {
	case h.HTTPGet != nil:
		return h.HTTPGet.Host == "" && h.HTTPGet.Via != prober.ViaContainer
	case h.TCPSocket != nil:
		return h.TCPSocket.Host == "" && h.TCPSocket.Via != prober.ViaContainer
	case h.GRPC != nil:
		return h.GRPC.Via != prober.ViaContainer
	}
	return false
}
